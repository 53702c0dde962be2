/* Sides first (each trace on its own: steps, phases, busy time), then rows (which rank stands beside which), pairs,
 * kinds, order. */
#include "compare.h"

#include "error.h"
#include "sort_doubles.h"
#include <math.h>
#include <string.h>

static const char *const phase_names[N_COMPARE_PHASES] = {
    [COMPARE_WARM_UP] = "warm-up",
    [COMPARE_STEADY] = "steady",
    [COMPARE_COOL_DOWN] = "cool-down",
    [COMPARE_OPTIMIZER] = "optimizer",
};

const char *compare_phase_name(ComparePhase phase) {
  return phase_names[phase];
}

double compare_error(double predicted, double measured) {
  return predicted == measured ? 0 : predicted / measured - 1;
}

double compare_mean_s(gint64 sum_ns, gint64 n) {
  return n > 0 ? 1e-9 * (double)sum_ns / (double)n : 0;
}

char *compare_steps_text(const Compare *compare) {
  if (compare->n_steps == 1)
    return g_strdup("the only step");
  if (compare->n_steps == 2)
    return g_strdup("the second of 2 steps");
  return g_strdup_printf("median of the last %d of %d steps; the first warms up", compare->n_steps - 1,
                         compare->n_steps);
}

int compare_find_row(const Compare *compare, int rank) {
  for (int row = 0; row < compare->n_rows; row++)
    if (compare->rows[row].rank == rank)
      return row;
  return -1;
}

/* --- one Program ------------------------------------------------------------------------------------------------- */

static gboolean check_program(const ChromeTrace *predicted, const ChromeTrace *measured, GError **error) {
  if (predicted->is_measured && !measured->is_measured)
    return fail_input(error, "%s was measured and %s simulated: the predicted trace is given first", predicted->file,
                      measured->file);
  const struct {
    const char *what;
    gint32 predicted, measured;
  } facts[] = {{"ranks", predicted->n_ranks, measured->n_ranks},
               {"tp", predicted->size[AXIS_TP], measured->size[AXIS_TP]},
               {"cp", predicted->size[AXIS_CP], measured->size[AXIS_CP]},
               {"ep", predicted->size[AXIS_EP], measured->size[AXIS_EP]},
               {"pp", predicted->size[AXIS_PP], measured->size[AXIS_PP]},
               {"dp", predicted->size[AXIS_DP], measured->size[AXIS_DP]},
               {"stages", predicted->n_stages, measured->n_stages},
               {"micro-batches", predicted->n_micro_batches, measured->n_micro_batches},
               {"steps", predicted->n_steps, measured->n_steps},
               {"pipeline ranks apart by", predicted->pipeline_stride, measured->pipeline_stride}};
  for (gsize i = 0; i < G_N_ELEMENTS(facts); i++)
    if (facts[i].predicted != facts[i].measured)
      return fail_input(error, "not of one Program: %s has %s %d, %s has %d", predicted->file, facts[i].what,
                        facts[i].predicted, measured->file, facts[i].measured);
  return TRUE;
}

/* --- one trace --------------------------------------------------------------------------------------------------- */

static gint64 step_start_ns(const CompareSide *side, int step) {
  return step > 0 ? side->end_ns[step - 1] : 0;
}

static double median_step_s(const CompareSide *side, int first_step, int n_steps) {
  int n = n_steps - first_step;
  g_autofree double *steps_s = g_new(double, n);
  for (int i = 0; i < n; i++)
    steps_s[i] = 1e-9 * (double)(side->end_ns[first_step + i] - step_start_ns(side, first_step + i));
  sort_doubles(steps_s, (gsize)n);
  return n % 2 == 1 ? steps_s[n / 2] : (steps_s[n / 2 - 1] + steps_s[n / 2]) / 2;
}

static void find_steps(CompareSide *side, int n_steps) {
  side->end_ns = g_new0(gint64, n_steps);
  for (guint i = 0; i < side->ops->ops->len; i++) {
    const WholeOp *op = whole_op_at(side->ops, i);
    side->end_ns[op->step] = MAX(side->end_ns[op->step], op->end_ns);
  }
  for (int step = 0; step < n_steps; step++)
    side->end_ns[step] = MAX(side->end_ns[step], step_start_ns(side, step));
}

/* The ends of a rank's phases in one step. */
typedef struct {
  gint64 first_backward_ns, last_forward_ns, last_pass_ns;
  gint64 busy_ns;
} RankStep;

static void see_op(RankStep *steps, const WholeOp *op) {
  RankStep *step = &steps[op->step];
  if (op->stream == STREAM_COMPUTE)
    step->busy_ns += op->end_ns - op->start_ns;
  if (!action_info(op->action)->is_compute)
    return;
  step->last_pass_ns = MAX(step->last_pass_ns, op->end_ns);
  if (op->action == ACTION_F)
    step->last_forward_ns = MAX(step->last_forward_ns, op->end_ns);
  else if (op->action != ACTION_W)
    step->first_backward_ns = MIN(step->first_backward_ns, op->start_ns);
}

static void add_step(RankTimes *times, const RankStep *step, gint64 start_ns, gint64 end_ns, int n_counted) {
  gint64 ends_ns[N_COMPARE_PHASES] = {[COMPARE_WARM_UP] = MIN(step->first_backward_ns, step->last_pass_ns),
                                      [COMPARE_STEADY] = step->last_forward_ns,
                                      [COMPARE_COOL_DOWN] = step->last_pass_ns,
                                      [COMPARE_OPTIMIZER] = end_ns};
  for (int phase = 0; phase < N_COMPARE_PHASES; phase++) {
    gint64 until_ns = CLAMP(ends_ns[phase], start_ns, end_ns);
    times->phase_s[phase] += 1e-9 * (double)(until_ns - start_ns) / n_counted;
    start_ns = until_ns;
  }
  times->busy_s += 1e-9 * (double)step->busy_ns / n_counted;
}

static void find_ranks(CompareSide *side, int first_step, int n_steps) {
  g_autofree RankStep *steps = g_new(RankStep, n_steps);
  side->ranks = g_new0(RankTimes, side->ops->n_ranks);
  for (int rank = 0; rank < side->ops->n_ranks; rank++) {
    for (int step = 0; step < n_steps; step++)
      steps[step] = (RankStep){.first_backward_ns = G_MAXINT64};
    for (gsize i = side->ops->first[rank]; i < side->ops->first[rank + 1]; i++)
      see_op(steps, whole_op_at(side->ops, i));
    for (int step = first_step; step < n_steps; step++)
      add_step(&side->ranks[rank], &steps[step], step_start_ns(side, step), side->end_ns[step], n_steps - first_step);
  }
}

static double mean_step_s(const CompareSide *side, int first_step, int n_steps) {
  return 1e-9 * (double)(side->end_ns[n_steps - 1] - step_start_ns(side, first_step)) / (n_steps - first_step);
}

static void side_init(CompareSide *side, const ChromeTrace *trace, const Compare *compare) {
  side->trace = trace;
  side->ops = whole_ops_new(trace);
  find_steps(side, compare->n_steps);
  side->step_s = median_step_s(side, compare->first_step, compare->n_steps);
  side->mean_step_s = mean_step_s(side, compare->first_step, compare->n_steps);
  find_ranks(side, compare->first_step, compare->n_steps);
}

static void side_clear(CompareSide *side) {
  whole_ops_free(side->ops);
  g_free(side->end_ns);
  g_free(side->ranks);
}

/* --- rows -------------------------------------------------------------------------------------------------------- */

static void make_rows(Compare *compare) {
  const ChromeTrace *predicted = compare->predicted.trace, *measured = compare->measured.trace;
  const ChromeTrace *apart = predicted->folded ? measured : predicted;
  compare->n_rows = apart->n_recorded;
  compare->rows = g_new(CompareRow, compare->n_rows);
  for (int rank = 0; rank < compare->n_rows; rank++) {
    int pipeline_rank = chrome_trace_pipeline_rank(apart, rank);
    compare->rows[rank] = (CompareRow){.rank = rank,
                                       .pipeline_rank = pipeline_rank,
                                       .predicted = predicted->folded ? pipeline_rank : rank,
                                       .measured = measured->folded ? pipeline_rank : rank};
  }
}

/* --- pairs ------------------------------------------------------------------------------------------------------- */

/* An op is known by its step, its stream and its name; of several alike the k-th is the k-th, since both traces list a
 * rank's ops in the Program's order. So both lists are sorted by (step, stream, name, place) and walked side by side.
 */
typedef struct {
  gint32 step, stream;
  GQuark name;
  gint32 op;
} Key;

/* The op with the lowest place that the other trace lacks; op −1: none. */
typedef struct {
  gint32 predicted, measured;
} Missing;

static int compare_keys(gconstpointer a, gconstpointer b) {
  const Key *x = a, *y = b;
  if (x->step != y->step)
    return x->step < y->step ? -1 : 1;
  if (x->stream != y->stream)
    return x->stream < y->stream ? -1 : 1;
  return (x->name > y->name) - (x->name < y->name);
}

static int compare_keys_and_places(gconstpointer a, gconstpointer b) {
  int order = compare_keys(a, b);
  return order != 0 ? order
                    : (((const Key *)a)->op > ((const Key *)b)->op) - (((const Key *)a)->op < ((const Key *)b)->op);
}

static void fill_keys(GArray *keys, const WholeOps *ops, int rank) {
  g_array_set_size(keys, 0);
  for (gsize i = ops->first[rank]; i < ops->first[rank + 1]; i++) {
    const WholeOp *op = whole_op_at(ops, i);
    Key key = {op->step, op->stream, op->name, (gint32)i};
    g_array_append_val(keys, key);
  }
  g_array_sort(keys, compare_keys_and_places);
}

static void note_missing(gint32 *first, gint32 op) {
  if (*first < 0 || op < *first)
    *first = op;
}

static Missing walk(GArray *pairs, gint32 row, const GArray *predicted, const GArray *measured) {
  Missing missing = {-1, -1};
  guint i = 0, j = 0;
  while (i < predicted->len || j < measured->len) {
    const Key *p = i < predicted->len ? &g_array_index(predicted, Key, i) : NULL;
    const Key *m = j < measured->len ? &g_array_index(measured, Key, j) : NULL;
    int order = p == NULL ? 1 : (m == NULL ? -1 : compare_keys(p, m));
    if (order < 0) {
      note_missing(&missing.predicted, p->op);
    } else if (order > 0) {
      note_missing(&missing.measured, m->op);
    } else {
      ComparePair pair = {row, p->op, m->op};
      g_array_append_val(pairs, pair);
    }
    i += order <= 0;
    j += order >= 0;
  }
  return missing;
}

static int compare_pairs(gconstpointer a, gconstpointer b) {
  const ComparePair *x = a, *y = b;
  if (x->row != y->row)
    return x->row < y->row ? -1 : 1;
  return (x->predicted > y->predicted) - (x->predicted < y->predicted);
}

static gboolean fail_missing(const Compare *compare, const CompareRow *row, const Missing *missing, GError **error) {
  gboolean in_predicted = missing->predicted >= 0;
  const CompareSide *has = in_predicted ? &compare->predicted : &compare->measured;
  const CompareSide *lacks = in_predicted ? &compare->measured : &compare->predicted;
  const WholeOp *op = whole_op_at(has->ops, (gsize)(in_predicted ? missing->predicted : missing->measured));
  return fail_input(error, "not of one Program: rank %d, step %d, stream %s: %s has \"%s\" and %s has not", row->rank,
                    op->step, stream_info(op->stream)->name, has->trace->file, g_quark_to_string(op->name),
                    lacks->trace->file);
}

static gboolean match_ops(Compare *compare, GError **error) {
  g_autoptr(GArray) predicted = g_array_new(FALSE, FALSE, sizeof(Key));
  g_autoptr(GArray) measured = g_array_new(FALSE, FALSE, sizeof(Key));
  for (int i = 0; i < compare->n_rows; i++) {
    const CompareRow *row = &compare->rows[i];
    fill_keys(predicted, compare->predicted.ops, row->predicted);
    fill_keys(measured, compare->measured.ops, row->measured);
    Missing missing = walk(compare->pairs, i, predicted, measured);
    if (missing.predicted >= 0 || missing.measured >= 0)
      return fail_missing(compare, row, &missing, error);
  }
  g_array_sort(compare->pairs, compare_pairs);
  return TRUE;
}

/* --- kinds ------------------------------------------------------------------------------------------------------- */

typedef struct {
  Compare *compare;
  GHashTable *index; /* name + 1 → index of its kind + 1 */
} Kinds;

static CompareKind *kind_of(Kinds *kinds, const WholeOp *op) {
  GArray *list = kinds->compare->kinds;
  gpointer key = GINT_TO_POINTER(op->kind + 1);
  int found = GPOINTER_TO_INT(g_hash_table_lookup(kinds->index, key));
  if (found == 0) {
    CompareKind kind = {.name = op->kind, .is_communication = stream_info(op->stream)->is_communication};
    g_array_append_val(list, kind);
    found = (int)list->len;
    g_hash_table_insert(kinds->index, key, GINT_TO_POINTER(found));
  }
  return &g_array_index(list, CompareKind, found - 1);
}

static void add_predicted(Kinds *kinds, const WholeOp *op) {
  CompareKind *kind = kind_of(kinds, op);
  kind->n_predicted++;
  kind->predicted_ns += whole_op_moving_ns(op);
  kind->predicted_wait_ns += op->ready_ns - op->start_ns;
}

static void add_measured(Kinds *kinds, const WholeOp *op) {
  CompareKind *kind = kind_of(kinds, op);
  kind->n_measured++;
  kind->measured_ns += whole_op_moving_ns(op);
  kind->measured_wait_ns += op->ready_ns - op->start_ns;
}

/* Collectives inside computing are not paired: one trace may have none of them. */
static void add_inner(Kinds *kinds, const WholeOps *ops, int rank, void (*add)(Kinds *, const WholeOp *)) {
  for (gsize i = ops->inner_first[rank]; i < ops->inner_first[rank + 1]; i++) {
    const WholeOp *op = &g_array_index(ops->inner, WholeOp, i);
    if (op->step < kinds->compare->first_step)
      continue;
    add(kinds, op);
    kind_of(kinds, op)->is_inner = TRUE;
  }
}

static double difference_s(const CompareKind *kind) {
  return fabs(kind->predicted_in_step_s - kind->measured_in_step_s);
}

static int compare_kinds(gconstpointer a, gconstpointer b) {
  const CompareKind *x = a, *y = b;
  if (difference_s(x) != difference_s(y))
    return difference_s(x) > difference_s(y) ? -1 : 1;
  if (x->measured_in_step_s != y->measured_in_step_s)
    return x->measured_in_step_s > y->measured_in_step_s ? -1 : 1;
  return (x->name > y->name) - (x->name < y->name);
}

static void make_kinds(Compare *compare) {
  Kinds kinds = {compare, g_hash_table_new(NULL, NULL)};
  for (guint i = 0; i < compare->pairs->len; i++) {
    const ComparePair *pair = &g_array_index(compare->pairs, ComparePair, i);
    const WholeOp *predicted = whole_op_at(compare->predicted.ops, (gsize)pair->predicted);
    if (predicted->step < compare->first_step)
      continue;
    add_predicted(&kinds, predicted);
    add_measured(&kinds, whole_op_at(compare->measured.ops, (gsize)pair->measured));
  }
  for (int row = 0; row < compare->n_rows; row++) {
    add_inner(&kinds, compare->predicted.ops, compare->rows[row].predicted, add_predicted);
    add_inner(&kinds, compare->measured.ops, compare->rows[row].measured, add_measured);
  }
  double n_steps = (double)compare->n_rows * (compare->n_steps - compare->first_step);
  for (guint i = 0; i < compare->kinds->len; i++) {
    CompareKind *kind = &g_array_index(compare->kinds, CompareKind, i);
    kind->predicted_in_step_s = 1e-9 * (double)kind->predicted_ns / n_steps;
    kind->measured_in_step_s = 1e-9 * (double)kind->measured_ns / n_steps;
  }
  g_array_sort(compare->kinds, compare_kinds);
  g_hash_table_unref(kinds.index);
}

/* --- all of it --------------------------------------------------------------------------------------------------- */

Compare *compare_new(const ChromeTrace *predicted, const ChromeTrace *measured, GError **error) {
  if (!check_program(predicted, measured, error))
    return NULL;
  g_autoptr(Compare) compare = g_new0(Compare, 1);
  compare->n_steps = predicted->n_steps;
  compare->first_step = MIN(1, predicted->n_steps - 1);
  compare->pairs = g_array_new(FALSE, FALSE, sizeof(ComparePair));
  compare->kinds = g_array_new(FALSE, FALSE, sizeof(CompareKind));
  compare->inversions = g_ptr_array_new_with_free_func(g_free);
  compare->violations = g_ptr_array_new_with_free_func(g_free);
  side_init(&compare->predicted, predicted, compare);
  side_init(&compare->measured, measured, compare);
  make_rows(compare);
  if (!match_ops(compare, error))
    return NULL;
  make_kinds(compare);
  compare_check_order(compare);
  return g_steal_pointer(&compare);
}

void compare_free(Compare *compare) {
  if (compare == NULL)
    return;
  side_clear(&compare->predicted);
  side_clear(&compare->measured);
  g_free(compare->rows);
  g_array_unref(compare->pairs);
  g_array_unref(compare->kinds);
  g_ptr_array_free(compare->inversions, TRUE);
  g_ptr_array_free(compare->violations, TRUE);
  g_free(compare);
}
