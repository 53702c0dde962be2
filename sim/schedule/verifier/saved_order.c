/* For every place, a step's pass of a micro-batch through a unit, the walk keeps the latest op of each kind:
 *
 *     compute   | F0 | F1 | …           … | B1 | B0 |
 *     copy_out       | out 0 |
 *     copy                        | in 0 | */
#include "saved_order.h"

#include "ended.h"
#include "error.h"
#include "fail_op.h"

static const Stream watched[N_WATCHED] = {STREAM_COMPUTE, STREAM_COPY_OUT, STREAM_COPY};

enum { FORWARD, OUT, IN, N_LATEST };

typedef struct {
  const Program *program;
  int rank;
  Op *ops;
  EndedList ended;
  GHashTable *latest[N_LATEST]; /* Op → index + 1; owned */
} Walk;

static guint place_hash(gconstpointer place) {
  const Op *op = place;
  return (((guint)op->step * 31 + (guint)op->stage) * 1009 + (guint)op->micro_batch) * 8191 + (guint)op->unit;
}

static gboolean place_equal(gconstpointer a, gconstpointer b) {
  const Op *x = a, *y = b;
  return x->step == y->step && x->stage == y->stage && x->micro_batch == y->micro_batch && x->unit == y->unit;
}

static void note(Walk *walk, int kind, gint32 i) {
  g_hash_table_replace(walk->latest[kind], &walk->ops[i], GINT_TO_POINTER(i + 1));
}

/* For op i's place; −1 none. */
static gint32 latest_of(const Walk *walk, int kind, gint32 i) {
  return GPOINTER_TO_INT(g_hash_table_lookup(walk->latest[kind], &walk->ops[i])) - 1;
}

/* Op i must wait for the latest op of that kind in its place. `missing`: the message if there is none. */
static gboolean await(Walk *walk, int kind, gint32 i, const char *what, const char *missing, GError **error) {
  const gint32 awaited = latest_of(walk, kind, i);
  if (awaited < 0)
    return fail_at_op(walk->program, walk->rank, i, missing, -1, "", error);
  return ended_list_has(&walk->ended, i, awaited) || fail_at_op(walk->program, walk->rank, i, what, awaited, "", error);
}

static gboolean check_copy(Walk *walk, gint32 i, Stream stream, GError **error) {
  if (walk->ops[i].stream == stream)
    return TRUE;
  g_autofree char *what = g_strdup_printf("expected a copy on the stream %s", stream_info(stream)->name);
  return fail_at_op(walk->program, walk->rank, i, what, -1, "", error);
}

static gboolean is_away(const Walk *walk, gint32 i) {
  return latest_of(walk, OUT, i) > latest_of(walk, IN, i);
}

/* A forward must not save activations that are on the host. */
static gboolean check_forward(Walk *walk, gint32 i, GError **error) {
  if (is_away(walk, i))
    return fail_at_op(walk->program, walk->rank, i, "it saves activations that are away since", latest_of(walk, OUT, i),
                      "", error);
  note(walk, FORWARD, i);
  return TRUE;
}

static gboolean check_out(Walk *walk, gint32 i, GError **error) {
  if (is_away(walk, i))
    return fail_at_op(walk->program, walk->rank, i, "it copies out activations that are away since",
                      latest_of(walk, OUT, i), "", error);
  if (!check_copy(walk, i, STREAM_COPY_OUT, error) ||
      !await(walk, FORWARD, i, "it copies activations out and does not wait for",
             "no F in front of it saves what it copies out", error))
    return FALSE;
  note(walk, OUT, i);
  return TRUE;
}

static gboolean check_in(Walk *walk, gint32 i, GError **error) {
  static const char missing[] = "no SAVED_OUT in front of it has copied them out";
  if (!is_away(walk, i))
    return fail_at_op(walk->program, walk->rank, i, missing, -1, "", error);
  if (!check_copy(walk, i, STREAM_COPY, error) ||
      !await(walk, OUT, i, "it brings activations back and does not wait for", missing, error))
    return FALSE;
  note(walk, IN, i);
  return TRUE;
}

/* The first op of a backward; what it reads is released after it. */
static gboolean check_backward(Walk *walk, gint32 i, GError **error) {
  static const char missing[] = "its activations are on the host: no SAVED_IN in front of it brings them back";
  if (is_away(walk, i))
    return fail_at_op(walk->program, walk->rank, i, missing, -1, "", error);
  if (latest_of(walk, IN, i) >= 0 && !await(walk, IN, i, "it needs activations and does not wait for", missing, error))
    return FALSE;
  for (int kind = 0; kind < N_LATEST; kind++)
    g_hash_table_remove(walk->latest[kind], &walk->ops[i]);
  return TRUE;
}

static gboolean check_op(Walk *walk, gint32 i, GError **error) {
  const Op *op = &walk->ops[i];
  switch ((ActionKind)op->action) {
  case ACTION_F:
    return op->kind != OP_COMPUTE || check_forward(walk, i, error);
  case ACTION_SAVED_OUT:
    return check_out(walk, i, error);
  case ACTION_SAVED_IN:
    return check_in(walk, i, error);
  case ACTION_I:
  case ACTION_B:
    return op->kind != OP_COMPUTE || check_backward(walk, i, error);
  default:
    return TRUE;
  }
}

static gboolean walk_rank(Walk *walk, int rank, GError **error) {
  const OpList *list = &walk->program->ranks[rank];
  walk->rank = rank;
  walk->ops = list->ops;
  ended_list_begin(&walk->ended, list->ops);
  for (int kind = 0; kind < N_LATEST; kind++)
    g_hash_table_remove_all(walk->latest[kind]);
  for (gint32 i = 0; i < list->n_ops; i++)
    if (!check_op(walk, i, error))
      return FALSE;
  return TRUE;
}

/* Copies to or from a host have groups with a route. */
static gboolean may_save(const Program *program) {
  for (guint i = 0; i < program->groups->len; i++)
    if (g_array_index(program->groups, Group, i).route != 0)
      return TRUE;
  return FALSE;
}

static gboolean saves(const Program *program, int *longest) {
  gboolean has_any = FALSE;
  for (int rank = 0; may_save(program) && rank < program->n_ranks; rank++) {
    *longest = MAX(*longest, program->ranks[rank].n_ops);
    for (gint32 i = 0; i < program->ranks[rank].n_ops; i++) {
      const guint8 action = program->ranks[rank].ops[i].action;
      has_any |= action == ACTION_SAVED_OUT || action == ACTION_SAVED_IN;
    }
  }
  return has_any;
}

gboolean saved_order_check(const Program *program, GError **error) {
  int longest = 0;
  if (!saves(program, &longest))
    return TRUE;
  g_autofree Ended *ended = g_new(Ended, longest);
  Walk walk = {.program = program, .ended = {.watched = watched, .ended = ended}};
  for (int kind = 0; kind < N_LATEST; kind++)
    walk.latest[kind] = g_hash_table_new(place_hash, place_equal);
  gboolean ok = TRUE;
  for (int rank = 0; ok && rank < program->n_ranks; rank++)
    ok = walk_rank(&walk, rank, error);
  for (int kind = 0; kind < N_LATEST; kind++)
    g_hash_table_unref(walk.latest[kind]);
  return ok;
}
