/* Inversions: a stream's measured ops by start time, each as its place in the plan; a merge sort counts the pairs that
 * stand the wrong way round (for n ops out of at most n(n−1)/2). Neighbours that do are the ones to name.
 *
 *     planned    1F1 1B0 1F2 1B1      places   0 1 2 3
 *     measured   1F1 1F2 1B0 1B1               0 2 1 3     one inversion: 1F2 ran before 1B0
 *
 * Violations are looked for in what a trace shows of the dependencies: sends and receives, collectives, and on one rank
 * the pass that a receive feeds or a send takes from. */
#include "compare.h"

#include "units.h"

typedef struct {
  gint64 start_ns;
  gint32 op;    /* of the measured trace, then of the predicted */
  gint32 other; /* its match */
} Started;

typedef struct {
  Compare *compare;
  GArray *started;          /* of Started */
  GArray *places, *scratch; /* of gint32 */
  gint32 *place_of;         /* [predicted ops of the rank] */
} Orders;

static void note(GPtrArray *list, gint64 *count, gint64 n, char *text) {
  *count += n;
  if (list->len < COMPARE_MOST_NAMED)
    g_ptr_array_add(list, text);
  else
    g_free(text);
}

/* --- inversions -------------------------------------------------------------------------------------------------- */

static int compare_started(gconstpointer a, gconstpointer b) {
  const Started *x = a, *y = b;
  if (x->start_ns != y->start_ns)
    return x->start_ns < y->start_ns ? -1 : 1;
  return (x->op > y->op) - (x->op < y->op);
}

/* Sorts values[0 … n) and returns how many pairs stood the wrong way round. */
static gint64 count_inversions(gint32 *values, gint32 *scratch, guint n) {
  if (n < 2)
    return 0;
  guint half = n / 2;
  gint64 count = count_inversions(values, scratch, half) + count_inversions(values + half, scratch, n - half);
  guint left = 0, right = half;
  for (guint i = 0; i < n; i++) {
    if (right == n || (left < half && values[left] <= values[right])) {
      scratch[i] = values[left++];
    } else {
      scratch[i] = values[right++];
      count += half - left;
    }
  }
  for (guint i = 0; i < n; i++)
    values[i] = scratch[i];
  return count;
}

static void name_inversions(Orders *orders, const CompareRow *row, int stream) {
  Compare *compare = orders->compare;
  gint64 ignored = 0;
  for (guint i = 0; i + 1 < orders->places->len && compare->inversions->len < COMPARE_MOST_NAMED; i++) {
    if (g_array_index(orders->places, gint32, i) < g_array_index(orders->places, gint32, i + 1))
      continue;
    const WholeOp *early = whole_op_at(compare->measured.ops, (gsize)g_array_index(orders->started, Started, i).op);
    const WholeOp *late = whole_op_at(compare->measured.ops, (gsize)g_array_index(orders->started, Started, i + 1).op);
    g_autofree char *step = compare->n_steps > 1 ? g_strdup_printf(" (step %d)", early->step) : g_strdup("");
    note(compare->inversions, &ignored, 0,
         g_strdup_printf("rank %d %s: %s ran before %s%s", row->rank, stream_info((Stream)stream)->name,
                         g_quark_to_string(early->name), g_quark_to_string(late->name), step));
  }
}

/* pairs[first … end) are those of one row. */
static void order_stream(Orders *orders, guint first, guint end, int stream) {
  Compare *compare = orders->compare;
  const CompareRow *row = &compare->rows[g_array_index(compare->pairs, ComparePair, first).row];
  gsize base = compare->predicted.ops->first[row->predicted];
  g_array_set_size(orders->started, 0);
  for (guint i = first; i < end; i++) {
    const ComparePair *pair = &g_array_index(compare->pairs, ComparePair, i);
    const WholeOp *op = whole_op_at(compare->predicted.ops, (gsize)pair->predicted);
    Started started = {op->start_ns, pair->predicted, pair->measured};
    if (op->stream == stream)
      g_array_append_val(orders->started, started);
  }
  g_array_sort(orders->started, compare_started);
  for (guint i = 0; i < orders->started->len; i++) {
    Started *started = &g_array_index(orders->started, Started, i);
    orders->place_of[(gsize)started->op - base] = (gint32)i;
    *started =
        (Started){whole_op_at(compare->measured.ops, (gsize)started->other)->start_ns, started->other, started->op};
  }
  g_array_sort(orders->started, compare_started);
  g_array_set_size(orders->places, 0);
  for (guint i = 0; i < orders->started->len; i++) {
    gint32 place = orders->place_of[(gsize)g_array_index(orders->started, Started, i).other - base];
    g_array_append_val(orders->places, place);
  }
  name_inversions(orders, row, stream);
  g_array_set_size(orders->scratch, orders->places->len);
  compare->n_inversions += count_inversions((gint32 *)(void *)orders->places->data,
                                            (gint32 *)(void *)orders->scratch->data, orders->places->len);
}

static void order_row(Orders *orders, guint first, guint end) {
  Compare *compare = orders->compare;
  gboolean used[N_STREAMS] = {FALSE};
  for (guint i = first; i < end; i++)
    used[whole_op_at(compare->predicted.ops, (gsize)g_array_index(compare->pairs, ComparePair, i).predicted)->stream] =
        TRUE;
  for (int stream = 0; stream < N_STREAMS; stream++)
    if (used[stream])
      order_stream(orders, first, end, stream);
}

static void check_inversions(Compare *compare) {
  gsize n_most = 1;
  for (int rank = 0; rank < compare->predicted.ops->n_ranks; rank++)
    n_most = MAX(n_most, compare->predicted.ops->first[rank + 1] - compare->predicted.ops->first[rank]);
  Orders orders = {.compare = compare,
                   .started = g_array_new(FALSE, FALSE, sizeof(Started)),
                   .places = g_array_new(FALSE, FALSE, sizeof(gint32)),
                   .scratch = g_array_new(FALSE, FALSE, sizeof(gint32)),
                   .place_of = g_new(gint32, n_most)};
  for (guint first = 0, end; first < compare->pairs->len; first = end) {
    gint32 row = g_array_index(compare->pairs, ComparePair, first).row;
    for (end = first; end < compare->pairs->len && g_array_index(compare->pairs, ComparePair, end).row == row;)
      end++;
    order_row(&orders, first, end);
  }
  g_array_unref(orders.started);
  g_array_unref(orders.places);
  g_array_unref(orders.scratch);
  g_free(orders.place_of);
}

/* --- violations -------------------------------------------------------------------------------------------------- */

/* What a rank computed, found by what it is. */
typedef struct {
  gint32 step, stage, micro_batch, action;
} PassKey;

static guint hash_pass(gconstpointer data) {
  const PassKey *key = data;
  return (guint)key->step * 2654435761u ^ (guint)key->stage * 40503u ^ (guint)key->micro_batch * 65599u ^
         (guint)key->action;
}

static gboolean equal_pass(gconstpointer a, gconstpointer b) {
  const PassKey *x = a, *y = b;
  return x->step == y->step && x->stage == y->stage && x->micro_batch == y->micro_batch && x->action == y->action;
}

static GHashTable *passes_of(const WholeOps *ops, int rank) {
  GHashTable *passes = g_hash_table_new_full(hash_pass, equal_pass, g_free, NULL);
  for (gsize i = ops->first[rank]; i < ops->first[rank + 1]; i++) {
    const WholeOp *op = whole_op_at(ops, i);
    PassKey key = {op->step, op->stage, op->micro_batch, op->action};
    if (action_info(op->action)->is_compute)
      g_hash_table_insert(passes, g_memdup2(&key, sizeof key), (gpointer)op);
  }
  return passes;
}

/* The pass that a receive feeds or a send takes from: F, or I or B; NULL: not on this rank. */
static const WholeOp *pass_beside(GHashTable *passes, const WholeOp *op) {
  gboolean forward = op->action == ACTION_SEND_F || op->action == ACTION_RECV_F;
  PassKey key = {op->step, op->stage, op->micro_batch, forward ? ACTION_F : ACTION_B};
  const WholeOp *pass = g_hash_table_lookup(passes, &key);
  key.action = ACTION_I;
  return pass != NULL || forward ? pass : g_hash_table_lookup(passes, &key);
}

/* `early` did `what` that long before `late`, on another rank or the same, did `after`. */
static void note_violation(Compare *compare, const WholeOp *early, const char *what, const WholeOp *late,
                           const char *after, gint64 by_ns) {
  TimeUnit unit = time_unit_for(by_ns);
  g_autofree char *whose = late->rank != early->rank ? g_strdup_printf("rank %d's ", late->rank) : g_strdup("");
  note(compare->violations, &compare->n_violations, 1,
       g_strdup_printf("rank %d: %s %s %.4g %s before %s%s %s", early->rank, g_quark_to_string(early->name), what,
                       (double)by_ns / unit.ns, unit.name, whose, g_quark_to_string(late->name), after));
}

static void check_op(Compare *compare, const WholeOp *op, GHashTable *passes) {
  const WholeOps *ops = compare->measured.ops;
  gint32 partner = op->action == ACTION_RECV_F || op->action == ACTION_RECV_B ? op->peer : op->last;
  const WholeOp *other = partner >= 0 ? whole_op_at(ops, (gsize)partner) : NULL;
  if (other != NULL && other->start_ns > op->end_ns)
    note_violation(compare, op, "ended", other, "began", other->start_ns - op->end_ns);
  gboolean sends = op->action == ACTION_SEND_F || op->action == ACTION_SEND_B;
  gboolean receives = op->action == ACTION_RECV_F || op->action == ACTION_RECV_B;
  const WholeOp *pass = sends || receives ? pass_beside(passes, op) : NULL;
  const WholeOp *first = sends ? pass : op, *then = sends ? op : pass;
  if (pass != NULL && then->start_ns < first->end_ns)
    note_violation(compare, then, "began", first, "ended", first->end_ns - then->start_ns);
}

static void check_violations(Compare *compare) {
  const WholeOps *ops = compare->measured.ops;
  for (int rank = 0; rank < ops->n_ranks; rank++) {
    g_autoptr(GHashTable) passes = passes_of(ops, rank);
    for (gsize i = ops->first[rank]; i < ops->first[rank + 1]; i++)
      check_op(compare, whole_op_at(ops, i), passes);
  }
}

void compare_check_order(Compare *compare) {
  check_inversions(compare);
  check_violations(compare);
}
