/* Matches sends with receives. A lane is (source rank, target rank, tag); its k-th send matches its k-th receive. One
 * pass over all ops: an op takes the oldest partner waiting in its lane, or else waits there itself. All ops waiting
 * in a lane are of one kind, so one FIFO chain per lane is enough. Until an op is matched, its place in the result has
 * the next one waiting in the same lane.
 *
 * Programs nearly always send and receive in the same order between any two ranks. Then lanes without tags, one per
 * pair of ranks, give the same matches much faster. If two ops with different tags meet in such a lane, the pass is
 * repeated with tags. */
#include "program.h"

#include <string.h>

#include "error.h"

typedef struct {
  gint32 source, target, tag; /* by tag */
  guint8 used;
  guint8 kind;        /* OpKind of the waiting ops */
  gint32 first, last; /* 1 + oldest and newest waiting op, as indices into their rank's list; 0: none */
} Lane;

typedef struct {
  const Program *program;
  gint32 **match; /* the result */
  Lane *lanes;    /* [source][target], or by tag: open addressing, less than half full */
  guint n_lanes;  /* by tag: a power of two */
  gboolean by_tag;
  int n_waiting;
} Matcher;

enum { MOST_RANKS_WITHOUT_TAGS = 1024 };

static inline gboolean is_transfer(const Op *op) {
  return op->kind == OP_SEND || op->kind == OP_RECV;
}

static Lane *tagged_lane(Matcher *matcher, gint32 source, gint32 target, gint32 tag) {
  guint64 hash = (guint)source * 0x9E3779B97F4A7C15u;
  hash = (hash ^ (guint)target) * 0x9E3779B97F4A7C15u;
  hash = (hash ^ (guint)tag) * 0x9E3779B97F4A7C15u;
  for (guint at = (guint)(hash >> 32) & (matcher->n_lanes - 1);; at = (at + 1) & (matcher->n_lanes - 1)) {
    Lane *lane = &matcher->lanes[at];
    if (!lane->used)
      *lane = (Lane){source, target, tag, .used = TRUE};
    if (lane->source == source && lane->target == target && lane->tag == tag)
      return lane;
  }
}

/* The next waiting op, from 1, in the place of one that waits; and the reverse. Negative in any case. */
static gint32 link_of(gint32 next) {
  return -1 - next;
}

/* FALSE if two different tags meet. */
static inline gboolean match_op(Matcher *matcher, int rank, gint32 i, const Op *op) {
  const gboolean is_send = op->kind == OP_SEND;
  const int source = is_send ? rank : op->peer, target = is_send ? op->peer : rank;
  Lane *lane = matcher->by_tag ? tagged_lane(matcher, source, target, op->tag)
                               : &matcher->lanes[source * matcher->program->n_ranks + target];
  gint32 *own = matcher->match[rank];
  if (lane->first > 0 && lane->kind != op->kind) {
    gint32 *others = matcher->match[op->peer];
    const gint32 partner = lane->first - 1;
    lane->first = link_of(others[partner]);
    own[i] = partner;
    others[partner] = i;
    matcher->n_waiting--;
    return matcher->program->ranks[op->peer].ops[partner].tag == op->tag;
  }
  if (lane->first == 0)
    lane->first = i + 1;
  else
    own[lane->last - 1] = link_of(i + 1);
  lane->last = i + 1;
  lane->kind = op->kind;
  matcher->n_waiting++;
  return TRUE;
}

static gboolean match_all(Matcher *matcher) {
  const Program *program = matcher->program;
  for (int rank = 0; rank < program->n_ranks; rank++) {
    const OpList *list = &program->ranks[rank];
    for (gint32 i = 0; i < list->n_ops; i++)
      if (is_transfer(&list->ops[i]) && !match_op(matcher, rank, i, &list->ops[i]))
        return FALSE;
  }
  return TRUE;
}

/* Room for one number per op, in one block with the lists of numbers; all are −1. */
static gint32 **new_op_numbers(const Program *program) {
  gsize n_ops = 0;
  for (int rank = 0; rank < program->n_ranks; rank++)
    n_ops += (gsize)program->ranks[rank].n_ops;
  const gsize n_bytes = sizeof(gint32) * n_ops;
  gint32 **numbers = g_malloc(sizeof *numbers * (gsize)program->n_ranks + n_bytes);
  gint32 *next = memset(numbers + program->n_ranks, 0xff, n_bytes);
  for (int rank = 0; rank < program->n_ranks; rank++) {
    numbers[rank] = next;
    next += program->ranks[rank].n_ops;
  }
  return numbers;
}

static void matcher_init(Matcher *matcher, const Program *program, gboolean by_tag) {
  *matcher = (Matcher){.program = program, .by_tag = by_tag, .n_lanes = 16};
  matcher->match = new_op_numbers(program);
  gsize n_least = 0;
  for (int rank = 0; by_tag && rank < program->n_ranks; rank++)
    n_least += 2 * (gsize)program->ranks[rank].n_ops;
  while (matcher->n_lanes < n_least)
    matcher->n_lanes *= 2;
  matcher->lanes = g_new0(Lane, by_tag ? matcher->n_lanes : (gsize)program->n_ranks * (gsize)program->n_ranks);
}

static gboolean fail_unmatched(const Program *program, int rank, int i, GError **error) {
  const Op *op = &program->ranks[rank].ops[i];
  g_autoptr(GString) name = g_string_new(NULL);
  action_print(&(Action){op->stage, op->micro_batch, op->action}, name);
  return fail_impossible(error, "rank %d, op %d: %s with tag %d has no %s on rank %d to match it", rank, i, name->str,
                         op->tag, op->kind == OP_SEND ? "receive" : "send", op->peer);
}

static gboolean fail_first_unmatched(const Matcher *matcher, GError **error) {
  for (int rank = 0; rank < matcher->program->n_ranks; rank++) {
    const OpList *list = &matcher->program->ranks[rank];
    for (int i = 0; i < list->n_ops; i++)
      if (is_transfer(&list->ops[i]) && matcher->match[rank][i] < 0)
        return fail_unmatched(matcher->program, rank, i, error);
  }
  g_assert_not_reached();
}

gboolean program_match(const Program *program, gint32 ***match, GError **error) {
  Matcher matcher;
  matcher_init(&matcher, program, program->n_ranks > MOST_RANKS_WITHOUT_TAGS);
  if ((!match_all(&matcher) || matcher.n_waiting > 0) && !matcher.by_tag) {
    g_free(matcher.lanes);
    g_free(matcher.match);
    matcher_init(&matcher, program, TRUE);
    match_all(&matcher);
  }
  gboolean ok = matcher.n_waiting == 0 || fail_first_unmatched(&matcher, error);
  g_free(matcher.lanes);
  if (ok)
    *match = matcher.match;
  else
    g_free(matcher.match);
  return ok;
}

gboolean program_number(const Program *program, gint32 ***match, int **count) {
  const gsize n_groups = program->groups->len;
  g_autofree int *counted = g_new(int, n_groups + 1);
  if (!program_match(program, match, NULL))
    return FALSE;
  *count = g_new0(int, n_groups + 1);
  for (int rank = 0; rank < program->n_ranks; rank++) {
    memset(counted, 0, sizeof *counted * n_groups);
    for (int i = 0; i < program->ranks[rank].n_ops; i++) {
      const Op *op = &program->ranks[rank].ops[i];
      if (op->kind == OP_COLLECTIVE)
        (*match)[rank][i] = counted[g_array_index(program->transfers, Transfer, op->work).group]++;
    }
    for (gsize g = 0; g < n_groups; g++)
      (*count)[g] = MAX((*count)[g], counted[g]);
  }
  return TRUE;
}

void program_match_free(const Program *program, gint32 **match) {
  g_free(match);
}
