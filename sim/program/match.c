/* Matches sends with receives. A lane is (source rank, target rank, tag); its k-th send matches its k-th receive. One
 * pass over all ops: an op takes the oldest partner waiting in its lane, or else waits there itself. All ops waiting
 * in a lane are of one kind, so one FIFO chain per lane is enough.
 *
 * Programs nearly always send and receive in the same order between any two ranks. Then lanes without tags, a few per
 * rank, give the same matches much faster. If two ops with different tags meet in such a lane, the pass is repeated
 * with tags. */
#include "error.h"
#include "program.h"

typedef struct {
  gint32 source, target, tag;
  guint8 used;
  guint8 kind;        /* OpKind of the waiting ops */
  gint32 first, last; /* oldest and newest waiting op, as indices into their rank's list; −1 = none */
} Lane;

typedef struct {
  const Program *program;
  gint32 **match; /* the result */
  gint32 **next;  /* [rank][op] the next op waiting in the same lane */
  Lane *lanes;    /* open addressing */
  guint n_lanes;  /* a power of two */
  guint n_used;
  gboolean by_tag;
  int n_waiting;
} Matcher;

static gint32 **new_op_numbers(const Program *program) {
  gint32 **numbers = g_new(gint32 *, program->n_ranks);
  for (int rank = 0; rank < program->n_ranks; rank++) {
    int n_ops = program->ranks[rank].n_ops;
    numbers[rank] = g_new(gint32, n_ops);
    for (int i = 0; i < n_ops; i++)
      numbers[rank][i] = -1;
  }
  return numbers;
}

static gboolean is_transfer(const Op *op) {
  return op->kind == OP_SEND || op->kind == OP_RECV;
}

static Lane *find_lane(Matcher *matcher, gint32 source, gint32 target, gint32 tag) {
  guint64 hash = (guint)source * 0x9E3779B97F4A7C15u;
  hash = (hash ^ (guint)target) * 0x9E3779B97F4A7C15u;
  hash = (hash ^ (guint)tag) * 0x9E3779B97F4A7C15u;
  for (guint at = (guint)(hash >> 32) & (matcher->n_lanes - 1);; at = (at + 1) & (matcher->n_lanes - 1)) {
    Lane *lane = &matcher->lanes[at];
    if (!lane->used) {
      *lane = (Lane){source, target, tag, .used = TRUE, .first = -1, .last = -1};
      matcher->n_used++;
    }
    if (lane->source == source && lane->target == target && lane->tag == tag)
      return lane;
  }
}

/* FALSE when lanes without tags are not enough: two different tags meet, or there are too many lanes. */
static gboolean match_op(Matcher *matcher, int rank, gint32 i) {
  const Op *op = &matcher->program->ranks[rank].ops[i];
  gboolean is_send = op->kind == OP_SEND;
  int source = is_send ? rank : op->peer, target = is_send ? op->peer : rank;
  Lane *lane = find_lane(matcher, source, target, matcher->by_tag ? op->tag : 0);
  if (2 * matcher->n_used > matcher->n_lanes)
    return FALSE;
  if (lane->first >= 0 && lane->kind != op->kind) {
    gint32 partner = lane->first;
    lane->first = matcher->next[op->peer][partner];
    matcher->match[rank][i] = partner;
    matcher->match[op->peer][partner] = i;
    matcher->n_waiting--;
    return matcher->program->ranks[op->peer].ops[partner].tag == op->tag;
  }
  if (lane->first < 0)
    lane->first = i;
  else
    matcher->next[rank][lane->last] = i;
  lane->last = i;
  lane->kind = op->kind;
  matcher->n_waiting++;
  return TRUE;
}

static gboolean match_all(Matcher *matcher) {
  const Program *program = matcher->program;
  for (int rank = 0; rank < program->n_ranks; rank++)
    for (gint32 i = 0; i < program->ranks[rank].n_ops; i++)
      if (is_transfer(&program->ranks[rank].ops[i]) && !match_op(matcher, rank, i))
        return FALSE;
  return TRUE;
}

static void matcher_init(Matcher *matcher, const Program *program, gboolean by_tag) {
  *matcher = (Matcher){.program = program, .by_tag = by_tag, .n_lanes = 16};
  matcher->match = new_op_numbers(program);
  matcher->next = new_op_numbers(program);
  gsize n_least = 8 * (gsize)program->n_ranks; /* without tags: to and from two neighbours, half full */
  for (int rank = 0; by_tag && rank < program->n_ranks; rank++)
    n_least += 2 * (gsize)program->ranks[rank].n_ops;
  while (matcher->n_lanes < n_least)
    matcher->n_lanes *= 2;
  matcher->lanes = g_new0(Lane, matcher->n_lanes);
}

/* Frees all but the result. */
static void matcher_clear(Matcher *matcher) {
  program_match_free(matcher->program, matcher->next);
  g_free(matcher->lanes);
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
  matcher_init(&matcher, program, FALSE);
  if (!match_all(&matcher) || matcher.n_waiting > 0) {
    matcher_clear(&matcher);
    program_match_free(program, matcher.match);
    matcher_init(&matcher, program, TRUE);
    match_all(&matcher);
  }
  gboolean ok = matcher.n_waiting == 0 || fail_first_unmatched(&matcher, error);
  matcher_clear(&matcher);
  if (ok)
    *match = matcher.match;
  else
    program_match_free(program, matcher.match);
  return ok;
}

void program_match_free(const Program *program, gint32 **match) {
  for (int rank = 0; match && rank < program->n_ranks; rank++)
    g_free(match[rank]);
  g_free(match);
}
