/* A gather that an op waits for is also used by the rest of its action, until a part of that waits for another
 * gather. If a backward takes turns with a forward, their parts alternate, so each kind of action is tracked
 * separately:
 *
 *     dp        | UNSHARD a | UNSHARD b |                  | UNSHARD c |
 *     compute               | F of a: part 1 | part 2 | F of b |
 *                                              └ last use of a: with two buffers, c waits for it
 */
#include "gather_buffers.h"

#include "clocks.h"
#include "fail_op.h"

#include <string.h>

/* Gathers in use by the parts of an action. */
typedef struct {
  const Op *user; /* the last part that waited for one; NULL: none yet */
  gint32 used[OP_MAX_AFTER];
  int n_used;
} InUse;

/* One gather of a list; kept in issue order. */
typedef struct {
  gint32 start, last_use; /* its FETCH, else itself; the last op that reads its result, −1: none */
} Gather;

/* Finds the gathers that an op waits for. Returns how many. */
static int gathers_of(const OpList *list, const Op *op, gint32 gathers[OP_MAX_AFTER]) {
  int n = 0;
  for (int i = 0; i < OP_MAX_AFTER && op->after[i] >= 0; i++)
    if (list->ops[op->after[i]].action == ACTION_UNSHARD)
      gathers[n++] = op->after[i];
  return n;
}

/* The op that first writes to an UNSHARD's buffer. */
static gint32 start_of(const OpList *list, gint32 gather) {
  const gint32 before = list->ops[gather].after[0];
  return before >= 0 && list->ops[before].action == ACTION_FETCH ? before : gather;
}

static void use(const OpList *list, InUse in_use[ACTION_B + 1], const gint32 *number, gint32 i, Gather *gathers) {
  const Op *op = &list->ops[i];
  InUse *own = &in_use[op->action];
  gint32 waited[OP_MAX_AFTER];
  const int n_waited = gathers_of(list, op, waited);
  if (n_waited > 0 || own->user == NULL || !op_same_action(op, own->user)) {
    memcpy(own->used, waited, sizeof waited);
    own->n_used = n_waited;
    own->user = op;
  }
  for (int k = 0; k < own->n_used; k++)
    gathers[number[own->used[k]]].last_use = i;
}

/* Array of Gather; owned by the caller. *most: the largest number of gathers issued from any one of them (inclusive)
 * to its last use; at least 1. */
static GArray *find_gathers(const OpList *list, int *most) {
  GArray *gathers = g_array_new(FALSE, FALSE, sizeof(Gather));
  g_autofree gint32 *number = g_new(gint32, list->n_ops + 1); /* [ops] number of an UNSHARD */
  InUse in_use[ACTION_B + 1] = {{.user = NULL}};
  *most = 1;
  for (gint32 i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->action == ACTION_UNSHARD) {
      const Gather gather = {start_of(list, i), -1};
      number[i] = (gint32)gathers->len;
      g_array_append_val(gathers, gather);
    }
    if (op->kind != OP_COMPUTE || op->action > ACTION_B)
      continue;
    use(list, in_use, number, i, (Gather *)(void *)gathers->data);
    const InUse *own = &in_use[op->action];
    for (int k = 0; k < own->n_used; k++)
      *most = MAX(*most, (int)gathers->len - number[own->used[k]]);
  }
  return gathers;
}

int gather_buffers_needed(const OpList *list) {
  int most;
  g_array_unref(find_gathers(list, &most));
  return most;
}

static gboolean fail_early(const Program *program, int rank, gint32 start, gint32 last_use, GError **error) {
  g_autofree char *name = op_name_new(program, rank, last_use);
  return fail_at_op(program, rank, start, error,
                    "it writes over weights that %s uses, and does not wait for it; expected after=%d", name, last_use);
}

static gboolean check_rank(const Program *program, int rank, Clocks *clocks, GError **error) {
  int n_buffers;
  g_autoptr(GArray) gathers = find_gathers(&program->ranks[rank], &n_buffers);
  clocks_begin(clocks, &program->ranks[rank]);
  for (guint k = (guint)n_buffers; k < gathers->len; k++) {
    const gint32 start = g_array_index(gathers, Gather, k).start;
    const gint32 last_use = g_array_index(gathers, Gather, k - (guint)n_buffers).last_use;
    if (last_use >= 0 && (last_use > start || !clocks_has_ended(clocks, start, last_use)))
      return fail_early(program, rank, start, last_use, error);
  }
  return TRUE;
}

gboolean gather_buffers_check(const Program *program, GError **error) {
  g_auto(Clocks) clocks;
  clocks_init(&clocks, program);
  for (int rank = 0; rank < program->n_ranks; rank++)
    if (!check_rank(program, rank, &clocks, error))
      return FALSE;
  return TRUE;
}
