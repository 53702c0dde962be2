/* The ranks' run is recorded (records.h), then the one-rank run on rank 0, which compares them tensor by tensor. */
#include "numerics.h"

#include "measured_trace.h"
#include "plan.h"
#include "plan_program.h"
#include "records.h"
#include "state.h"

#include <math.h>
#include <string.h>

/* --- the one-rank run --- */

/* The hook data of a one-rank run that follows the ranks: at every step it takes over their weights. */
typedef struct {
  GByteArray *records;
  GHashTable *weights; /* the ranks' */
} Follower;

static gboolean follow(Trainer *trainer, int step, gpointer data, GError **error) {
  const Follower *follower = data;
  return records_write(trainer, step, follower->records, error) &&
         (step == trainer->program->n_steps || records_set_weights(trainer, follower->weights, step + 1, error));
}

static void make_fp32(Plan *plan) {
  plan->precision = PRECISION_FP32;
  if (compression_is_half(&plan->compression))
    plan->compression = (GradCompression){0}; /* there are none of its numbers */
  const gboolean known = recipe_parse("fp32", &plan->recipe, NULL);
  g_assert(known);
}

static Workload *alone_workload(const Workload *workload, Precision precision) {
  g_autoptr(Plan) plan = plan_copy(workload->plan);
  plan->precision = precision;
  if (precision == PRECISION_FP32)
    make_fp32(plan);
  plan->gpus = plan->tp = plan->dp = plan->pp = plan->cp = plan->ep = plan->chunks = plan->n_pipes = 1;
  plan->group = plan->expert_tp = 0;
  plan->zero = 0;
  plan->zero_ranks = 1;
  plan->sequence_parallel = FALSE;
  plan->recompute = RECOMPUTE_NONE;
  plan->recompute_modules = 0;
  plan->recompute_layers = 0;
  plan->offload = (Offload){0};
  plan->compression = (GradCompression){0};
  plan->global_batch /= plan->islands; /* it stands for one */
  plan->islands = plan->local_steps = 1;
  plan->servers = (Servers){.local = 1};
  plan->outer.fragments = 1;
  plan->outer.delay = 0;
  plan->n_micro_batches = plan->global_batch / plan->micro_batch;
  g_clear_pointer(&plan->pipeline_layout, g_free);
  plan_set_schedule(plan, "1f1b");
  return workload_new(workload->model, plan, NULL);
}

static gboolean run_alone(const Execution *execution, Precision precision, int island, Follower *follower,
                          double *losses, GError **error) {
  g_autoptr(Workload) workload = alone_workload(execution->workload, precision);
  g_autoptr(Program) program = program_of_plan(workload, error);
  if (program == NULL)
    return FALSE;
  Execution alone = *execution;
  alone.workload = workload;
  alone.program = program;
  alone.rank = 0;
  alone.comm = &null_comm;
  if (execution->check_device != NULL)
    alone.device = execution->check_device;
  alone.training.lr = 0; /* it takes over the ranks' weights */
  alone.training.island = island;
  alone.training.n_islands = execution->workload->method->islands;
  alone.hook = follow;
  alone.hook_data = follower;
  ExecutionResult result;
  const gboolean ok = execute(&alone, &result, error);
  if (ok)
    for (int step = 0; step < program->n_steps; step++)
      losses[step] += result.losses[step] / execution->workload->method->islands;
  else
    g_prefix_error(error, "the same model on one rank, in %s: ", precision_info(precision)->name);
  execution_result_clear(&result);
  return ok;
}

/* Runs the same model on one rank with the weights of an island's ranks, `own`. NULL with the error set if it cannot
 * run. `names` (may be NULL): receives the names of its tensors. `losses`: it adds the island's share of the mean. */
static GHashTable *run_reference(const Execution *execution, Precision precision, int island, GHashTable *own,
                                 GPtrArray **names, double *losses, GError **error) {
  g_autoptr(GByteArray) records = g_byte_array_new();
  if (!run_alone(execution, precision, island, &(Follower){records, own}, losses, error))
    return NULL;
  if (names != NULL)
    *names = records_tensor_names(records);
  return records_lay(records->data, records->len);
}

/* --- comparing --- */

typedef struct {
  const Execution *execution;
  CheckReport *report;
  GHashTable *reference, *own; /* Whole by key */
  GHashTable *exact;           /* the one-rank run in a wider precision; NULL: not run */
  double *rounding;            /* [tensors], 0 at first: find_rounding() */
  GPtrArray *names;            /* of tensors, in order */
} Comparison;

static double norm2(const Whole *whole) {
  double sum = 0;
  for (gint64 i = 0; whole != NULL && i < whole->n; i++)
    sum += (double)whole->values[i] * whole->values[i];
  return sum;
}

/* Σ g² over the model, and its mean over all elements. */
static double model_norm2(const Comparison *c, GHashTable *wholes, int step, double *mean2) {
  double sum = 0, n = 0;
  for (guint i = 0; i < c->names->len; i++) {
    const Whole *whole = records_find(wholes, RECORD_GRADIENT, step, g_ptr_array_index(c->names, i));
    sum += norm2(whole);
    n += whole != NULL ? (double)whole->n : 0;
  }
  *mean2 = sum / MAX(n, 1);
  return sum;
}

static void note(double error, const char *name, double *worst, char *worst_name) {
  if (!(error <= *worst)) {
    *worst = error;
    g_strlcpy(worst_name, name, 64);
  }
}

static gint64 n_missing(const Whole *reference, const Whole *own) {
  gint64 n = own == NULL ? reference->n : 0;
  for (gint64 i = 0; own != NULL && i < own->n; i++)
    n += !own->is_covered[i];
  return n;
}

static double distance2(const Whole *a, const Whole *b) {
  double sum = a->copies2;
  for (gint64 i = 0; i < a->n; i++) {
    const double difference = (double)a->values[i] - b->values[i];
    sum += isfinite(difference) ? difference * difference : INFINITY;
  }
  return sum;
}

/* Records whether a step was skipped, and whether all ranks and the one-rank run agree. */
static void compare_scales(const Comparison *c, int step) {
  CheckedStep *checked = &c->report->steps[step];
  const Whole *before = records_find(c->own, RECORD_SCALE, step, RECORD_SCALE_NAME);
  const Whole *after = records_find(c->own, RECORD_SCALE, step + 1, RECORD_SCALE_NAME);
  const Whole *reference = records_find(c->reference, RECORD_SCALE, step, RECORD_SCALE_NAME);
  const Whole *reference_after = records_find(c->reference, RECORD_SCALE, step + 1, RECORD_SCALE_NAME);
  if (before == NULL || after == NULL || reference == NULL || reference_after == NULL)
    return;
  checked->scale = (double)before->values[AT_SCALE];
  checked->is_skipped = after->values[AT_SKIPPED] > before->values[AT_SKIPPED];
  const gboolean reference_skips = reference_after->values[AT_SKIPPED] > reference->values[AT_SKIPPED];
  checked->skips_differ = checked->is_skipped != reference_skips;
  checked->scales_differ =
      checked->skips_differ || distance2(before, reference) > 0 || distance2(after, reference_after) > 0;
}

/* ‖g − g₁‖ / ‖g₁‖ of a tensor, where ‖g₁‖ counts as no less than a share of the model's mean; 0 if there is nothing
 * to compare. */
static double gradient_error(const Comparison *c, double mean2, const Whole *found, const Whole *reference) {
  const double least2 = c->report->noise * c->report->noise * mean2 * (double)reference->n;
  return found != NULL ? sqrt(distance2(found, reference) / MAX(MAX(norm2(reference), least2), G_MINDOUBLE)) : 0;
}

/* The effect of rounding alone on a step's gradients: updates c->rounding, each tensor's maximum so far, and returns
 * the mean over tensors. 0 without a wider run. */
static double find_rounding(const Comparison *c, int step, double mean2) {
  double sum2 = 0;
  for (guint i = 0; i < c->names->len && c->exact != NULL; i++) {
    const char *name = g_ptr_array_index(c->names, i);
    const double error = gradient_error(c, mean2, records_find(c->exact, RECORD_GRADIENT, step, name),
                                        records_find(c->reference, RECORD_GRADIENT, step, name));
    c->rounding[i] = MAX(c->rounding[i], error);
    sum2 += error * error;
  }
  return sqrt(sum2 / MAX(c->names->len, 1));
}

/* What the ranks have summed, and what they keep for the next step: the sum of their gradients. */
static Whole *with_lost(const Whole *own, const Whole *lost) {
  Whole *sum = g_memdup2(own, sizeof *own);
  sum->values = g_memdup2(own->values, (gsize)own->n * sizeof *own->values);
  sum->is_covered = NULL;
  sum->copies2 += lost->copies2;
  for (gint64 i = 0; i < own->n; i++)
    sum->values[i] += lost->values[i];
  return sum;
}

static double own_gradient_error(const Comparison *c, int step, double mean2, const char *name) {
  const Whole *reference = records_find(c->reference, RECORD_GRADIENT, step, name);
  const Whole *own = records_find(c->own, RECORD_GRADIENT, step, name);
  const Whole *lost = records_find(c->own, RECORD_LOST, step, name);
  if (own == NULL || lost == NULL)
    return gradient_error(c, mean2, own, reference);
  Whole *sum = with_lost(own, lost);
  const double error = gradient_error(c, mean2, sum, reference);
  g_free(sum->values);
  g_free(sum);
  return error;
}

static void compare_gradients(const Comparison *c, int step) {
  if (c->report->steps[step].is_skipped || c->report->steps[step].skips_differ)
    return;
  double mean2;
  model_norm2(c, c->reference, step, &mean2);
  const double mean = find_rounding(c, step, mean2);
  check_report_note_rounding(c->report, mean);
  for (guint i = 0; i < c->names->len; i++) {
    const char *name = g_ptr_array_index(c->names, i);
    check_report_note_gradient(c->report, step, name, own_gradient_error(c, step, mean2, name),
                               MAX(c->rounding[i], mean));
  }
}

static void count_missing(const Comparison *c, int step) {
  for (guint i = 0; i < c->names->len; i++) {
    const char *name = g_ptr_array_index(c->names, i);
    c->report->n_missing += n_missing(records_find(c->reference, RECORD_GRADIENT, step, name),
                                      records_find(c->own, RECORD_GRADIENT, step, name));
  }
}

/* --- updates --- */

/* Half a unit in the last place of what the optimizer writes: relative to the value, and an absolute minimum. */
typedef struct {
  double share, least;
} Rounding;

static Rounding rounding_of(const Plan *plan) {
  if (plan->recipe.master > 0 || plan->precision == PRECISION_FP32)
    return (Rounding){ldexp(1, -24), 0};
  return plan->precision == PRECISION_FP16 ? (Rounding){ldexp(1, -11), ldexp(1, -25)} : (Rounding){ldexp(1, -8), 0};
}

/* The clipping factor, which Adam applies to all gradients. */
static double clipping(const Comparison *c, int step) {
  const double most = c->execution->training.max_norm;
  double mean2;
  const double norm = sqrt(model_norm2(c, c->own, step, &mean2));
  return state_clips(c->execution->workload->method) && norm > most ? most / norm : 1;
}

/* A step of Adam on a tensor, as the ranks made it. */
typedef struct {
  const Whole *gradient, *before, *after; /* the summed gradient; weights */
  double scale;                           /* of the gradient in Adam */
} Update;

/* Adam's state of a tensor: [n] each. */
typedef struct {
  double *m, *v;
  int n_made; /* steps so far */
} Moments;

/* Whether it is as that of a tensor that is not trained: where there are some, all of the gradient is 0. One that is
 * trained may have lost all of it (`lost`; NULL: not compressed). */
static gboolean may_be_frozen(const Comparison *c, const Whole *gradient, const Whole *lost) {
  gboolean is_zero = !training_is_of_all(&c->execution->workload->method->training) && lost == NULL;
  for (gint64 i = 0; i < gradient->n && is_zero; i++)
    is_zero = gradient->values[i] == 0;
  return is_zero;
}

/* Advances the moments by a step. */
static void begin_update(Moments *moments) {
  moments->n_made++;
}

/* What Adam adds to element i. Advances its moments. */
static double adam_of(const Comparison *c, const Update *update, Moments *moments, gint64 i) {
  const Training *t = &c->execution->training;
  const double correction1 = 1 - pow(t->beta1, moments->n_made), correction2 = 1 - pow(t->beta2, moments->n_made);
  const double g = update->scale * update->gradient->values[i];
  double *m = &moments->m[i], *v = &moments->v[i];
  *m = t->beta1 * *m + (1 - t->beta1) * g;
  *v = t->beta2 * *v + (1 - t->beta2) * g * g;
  return -t->lr * (*m / correction1 / (sqrt(*v / correction2) + t->epsilon) + t->decay * update->before->values[i]);
}

/* The squared error of a weight that has been rounded `n_rounded` times. */
static double squared_error(double error, double weight, Rounding rounding, int n_rounded) {
  error = fabs(error) - n_rounded * MAX(rounding.share * fabs(weight), rounding.least);
  return isfinite(error) ? MAX(error, 0) * MAX(error, 0) : INFINITY;
}

static double relative(double error2, double sum2) {
  return error2 > 0 ? sqrt(error2 / MAX(sum2, G_MINDOUBLE)) : 0;
}

/* ‖ΔW − ΔW′‖ / ‖ΔW′‖ less rounding, ΔW the ranks' update and ΔW′ Adam's. Advances the moments by a step. */
static double update_error(const Comparison *c, const Update *update, Moments *moments) {
  const Rounding rounding = rounding_of(c->execution->workload->plan);
  const float *before = update->before->values, *after = update->after->values;
  double error2 = update->after->copies2, sum2 = 0;
  begin_update(moments);
  for (gint64 i = 0; i < update->gradient->n; i++) {
    const double expected = adam_of(c, update, moments, i), found = (double)after[i] - before[i];
    error2 += squared_error(found - expected, after[i], rounding, 1);
    sum2 += expected * expected;
  }
  return relative(error2, sum2);
}

static void compare_updates(const Comparison *c, const char *name, const double *scales) {
  const int n_steps = c->report->n_steps;
  const Whole *first = records_find(c->reference, RECORD_WEIGHT, 0, name);
  const Whole *before = records_find(c->own, RECORD_WEIGHT, 0, name);
  g_autofree double *m = g_new0(double, first->n), *v = g_new0(double, first->n);
  Moments moments = {.m = m, .v = v};
  if (before == NULL || distance2(before, first) > 0) /* the first weights already differ */
    note(INFINITY, name, &c->report->steps[0].update_error, c->report->steps[0].update_worst);
  for (int step = 0; step < n_steps; step++) {
    CheckedStep *checked = &c->report->steps[step];
    const Whole *gradient = records_find(c->own, RECORD_GRADIENT, step, name);
    const Whole *after = records_find(c->own, RECORD_WEIGHT, step + 1, name);
    c->report->n_missing += n_missing(first, after);
    if (gradient == NULL || before == NULL || after == NULL)
      return; /* counted as missing */
    const gboolean stays =
        checked->is_skipped || may_be_frozen(c, gradient, records_find(c->own, RECORD_LOST, step, name));
    if (stays && distance2(after, before) > 0)
      note(INFINITY, name, &checked->update_error, checked->update_worst); /* it should not have changed */
    const Update update = {.gradient = gradient, .before = before, .after = after, .scale = scales[step]};
    if (!stays)
      note(update_error(c, &update, &moments), name, &checked->update_error, checked->update_worst);
    before = after;
  }
}

/* --- outer steps of islands --- */

/* What is followed of a tensor: Adam's moments on each island, the anchor and the outer momentum. */
typedef struct {
  Moments *of_island; /* [islands] */
  double *anchor, *m, *moved;
} Followed;

/* The islands' weights after an outer step, each its own Adam step, then the outer one, as outer_step.h has it: worst
 * error of all islands relative to how far the anchor moved. */
static double outer_error(const Comparison *islands, const Update *updates, Followed *followed) {
  const Method *method = islands->execution->workload->method;
  const Rounding rounding = rounding_of(islands->execution->workload->plan);
  const int n_islands = method->islands, n_rounded = 4; /* by Adam, in the difference, the sum and the step */
  const gint64 n = updates->gradient->n;
  double sum2 = 0, worst = 0;
  memset(followed->moved, 0, sizeof(double) * (gsize)n);
  for (int k = 0; k < n_islands; k++) {
    begin_update(&followed->of_island[k]);
    for (gint64 i = 0; i < n; i++)
      followed->moved[i] += (followed->anchor[i] - updates[k].before->values[i] -
                             adam_of(&islands[k], &updates[k], &followed->of_island[k], i)) /
                            n_islands;
  }
  for (gint64 i = 0; i < n; i++) {
    followed->m[i] = method->outer.momentum * followed->m[i] + followed->moved[i];
    const double step = method->outer.lr * (followed->moved[i] + method->outer.momentum * followed->m[i]);
    followed->anchor[i] -= step;
    sum2 += step * step;
  }
  for (int k = 0; k < n_islands; k++) {
    double error2 = updates[k].after->copies2;
    for (gint64 i = 0; i < n; i++)
      error2 +=
          squared_error(updates[k].after->values[i] - followed->anchor[i], followed->anchor[i], rounding, n_rounded);
    worst = MAX(worst, relative(error2, sum2));
  }
  for (gint64 i = 0; i < n; i++)
    followed->anchor[i] = updates->after->values[i]; /* rounding does not add up */
  return worst;
}

/* FALSE: some are missing. */
static gboolean find_updates(const Comparison *islands, int n_islands, int step, const char *name,
                             double *const *scales, Update *updates) {
  for (int k = 0; k < n_islands; k++) {
    const Whole *gradient = records_find(islands[k].own, RECORD_GRADIENT, step, name);
    const Whole *before = records_find(islands[k].own, RECORD_WEIGHT, step, name);
    const Whole *after = records_find(islands[k].own, RECORD_WEIGHT, step + 1, name);
    if (gradient == NULL || before == NULL || after == NULL)
      return FALSE;
    updates[k] = (Update){gradient, before, after, scales[k][step]};
  }
  return TRUE;
}

static void compare_island_steps(const Comparison *islands, const char *name, double *const *scales,
                                 Followed *followed) {
  const Method *method = islands->execution->workload->method;
  const int n_islands = method->islands;
  CheckReport *report = islands->report;
  g_autofree Update *updates = g_new(Update, n_islands);
  for (int step = 0; step < report->n_steps; step++) {
    CheckedStep *checked = &report->steps[step];
    if (!find_updates(islands, n_islands, step, name, scales, updates)) {
      report->n_missing++;
      return;
    }
    if (may_be_frozen(islands, updates->gradient, NULL)) {
      for (int k = 0; k < n_islands; k++)
        if (distance2(updates[k].after, updates[k].before) > 0)
          note(INFINITY, name, &checked->update_error, checked->update_worst); /* it should not have changed */
      continue;
    }
    if ((report->n_steps - 1 - step) % method->outer_period == 0) {
      note(outer_error(islands, updates, followed), name, &checked->update_error, checked->update_worst);
      continue;
    }
    for (int k = 0; k < n_islands; k++)
      note(update_error(&islands[k], &updates[k], &followed->of_island[k]), name, &checked->update_error,
           checked->update_worst);
  }
}

static double *doubles_new(GPtrArray *owner, gint64 n) {
  double *values = g_new0(double, n);
  g_ptr_array_add(owner, values);
  return values;
}

static void compare_island_updates(const Comparison *islands, const char *name, double *const *scales) {
  const int n_islands = islands->execution->workload->method->islands;
  const Whole *first = records_find(islands->reference, RECORD_WEIGHT, 0, name);
  g_autoptr(GPtrArray) all = g_ptr_array_new_with_free_func(g_free);
  g_autofree Moments *moments = g_new0(Moments, n_islands);
  for (int k = 0; k < n_islands; k++) {
    const Whole *before = records_find(islands[k].own, RECORD_WEIGHT, 0, name);
    if (before == NULL || distance2(before, first) > 0) /* the first weights already differ */
      note(INFINITY, name, &islands->report->steps[0].update_error, islands->report->steps[0].update_worst);
    moments[k] = (Moments){doubles_new(all, first->n), doubles_new(all, first->n), 0};
  }
  Followed followed = {moments, doubles_new(all, first->n), doubles_new(all, first->n), doubles_new(all, first->n)};
  for (gint64 i = 0; i < first->n; i++)
    followed.anchor[i] = first->values[i];
  compare_island_steps(islands, name, scales, &followed);
}

/* --- the whole check --- */

/* [islands] of both tables; without islands one. */
static void compare_all(const Execution *execution, CheckReport *report, GPtrArray *references, GPtrArray *owns,
                        GPtrArray *names) {
  const int n_islands = (int)owns->len;
  g_autoptr(GPtrArray) all = g_ptr_array_new_with_free_func(g_free);
  g_autofree Comparison *islands = g_new(Comparison, n_islands);
  g_autofree double **scales = g_new(double *, n_islands);
  report->n_tensors = names->len;
  for (int k = 0; k < n_islands; k++) {
    islands[k] = (Comparison){
        execution, report, references->pdata[k], owns->pdata[k], NULL, doubles_new(all, names->len), names};
    scales[k] = doubles_new(all, report->n_steps);
    for (int step = 0; step < report->n_steps; step++) {
      compare_scales(&islands[k], step);
      count_missing(&islands[k], step);
      compare_gradients(&islands[k], step);
      scales[k][step] = clipping(&islands[k], step);
    }
  }
  for (guint i = 0; i < names->len; i++)
    if (n_islands > 1)
      compare_island_updates(islands, g_ptr_array_index(names, i), scales);
    else
      compare_updates(islands, g_ptr_array_index(names, i), scales[0]);
  check_report_judge(report);
}

/* Measures what the precision alone does to gradients and losses: runs the same model on one rank once more, in a wider
 * one. */
static gboolean compare_with_rounding(const Execution *execution, CheckReport *report, GPtrArray *references,
                                      GPtrArray *owns, GPtrArray *names, GError **error) {
  g_autofree double *losses = g_new0(double, report->n_steps);
  const gboolean is_fp8 = execution->workload->plan->precision == PRECISION_FP8;
  const Precision wider = is_fp8 ? PRECISION_BF16 : PRECISION_FP32;
  for (int step = 0; step < report->n_steps; step++)
    report->steps[step].gradient_error = report->steps[step].gradient_share = 0;
  for (guint k = 0; k < owns->len; k++) {
    g_autoptr(GHashTable) exact = run_reference(execution, wider, (int)k, owns->pdata[k], NULL, losses, error);
    if (exact == NULL)
      return FALSE;
    g_autofree double *rounding = g_new0(double, names->len);
    const Comparison c = {execution, report, references->pdata[k], owns->pdata[k], exact, rounding, names};
    report->knows_rounding = TRUE;
    for (int step = 0; step < report->n_steps; step++)
      compare_gradients(&c, step);
  }
  for (int step = 0; step < report->n_steps; step++)
    check_report_note_exact_loss(report, step, losses[step]);
  check_report_judge(report);
  return TRUE;
}

/* An array of tables of Whole by key. */
static GPtrArray *tables_new(void) {
  return g_ptr_array_new_with_free_func((GDestroyNotify)g_hash_table_unref);
}

/* The records of each island, whose ranks are consecutive. */
static GPtrArray *lay_islands(const guint8 *all, const gsize *sizes, int n_ranks, int n_islands) {
  GPtrArray *owns = tables_new();
  for (int k = 0, rank = 0; k < n_islands; k++) {
    gsize n = 0;
    for (int i = 0; i < n_ranks / n_islands; i++)
      n += sizes[rank++];
    g_ptr_array_add(owns, records_lay(all, n));
    all += n;
  }
  return owns;
}

/* Runs the Program and collects what every rank holds: `owns` a table for each island. It and `losses`: on rank 0, NULL
 * elsewhere. */
static gboolean run_written(const Execution *execution, GPtrArray **owns, double **losses, ExecutionResult *result,
                            GError **error) {
  g_autoptr(GByteArray) records = g_byte_array_new();
  Execution written = *execution;
  written.hook = records_write;
  written.hook_data = records;
  if (!execute(&written, result, error))
    return FALSE;
  *losses = measured_losses(execution->world, execution->workload, execution->program->n_steps, result);
  g_autofree gsize *sizes = NULL;
  g_autofree guint8 *all = world_gather(execution->world, records->data, records->len, &sizes);
  if (all != NULL)
    *owns = lay_islands(all, sizes, world_size(execution->world), execution->workload->method->islands);
  return TRUE;
}

static gboolean run_and_compare(const Execution *execution, CheckReport *report, ExecutionResult *result,
                                GError **error) {
  const int n_steps = execution->program->n_steps;
  memset(report, 0, sizeof *report);
  g_autoptr(GPtrArray) owns = NULL, references = tables_new();
  g_autofree double *losses = NULL;
  if (!run_written(execution, &owns, &losses, result, error))
    return FALSE;
  if (owns == NULL)
    return TRUE;
  g_autofree double *reference_losses = g_new0(double, n_steps);
  g_autoptr(GPtrArray) names = NULL;
  const Precision precision = execution->workload->plan->precision;
  for (guint k = 0; k < owns->len; k++) {
    GHashTable *reference =
        run_reference(execution, precision, (int)k, owns->pdata[k], k == 0 ? &names : NULL, reference_losses, error);
    if (reference == NULL)
      return FALSE;
    g_ptr_array_add(references, reference);
  }
  check_report_init(report, n_steps, execution->workload->method);
  for (int i = 0; i < n_steps; i++) {
    report->steps[i].loss = losses[i];
    report->steps[i].reference_loss = reference_losses[i];
  }
  compare_all(execution, report, references, owns, names);
  const gboolean is_done = report->is_passed && precision != PRECISION_FP8; /* which is always compared with bf16 */
  return is_done || precision == PRECISION_FP32 ||
         compare_with_rounding(execution, report, references, owns, names, error);
}

/* `kept`: receives the run's results; may be NULL. */
static gboolean check_run(const Execution *execution, CheckReport *report, ExecutionResult *kept, GError **error) {
  ExecutionResult result = {0};
  const gboolean ok = run_and_compare(execution, report, &result, error);
  if (ok && kept != NULL)
    *kept = result;
  else
    execution_result_clear(&result);
  return ok;
}

/* The workload in fp32. */
static Workload *workload_in_fp32(const Workload *workload) {
  g_autoptr(Plan) plan = plan_copy(workload->plan);
  make_fp32(plan);
  Workload *exact = workload_new(workload->model, plan, workload->placement);
  workload_set_data_rank(exact, workload->dp);
  return exact;
}

/* The same of one in fp8: its items stay, as the Program names them, and copy for their products in fp32 (narrow.h). */
static Workload *fp8_workload_in_fp32(const Workload *workload) {
  Workload *exact = workload_new(workload->model, workload->plan, workload->placement);
  workload_set_data_rank(exact, workload->dp);
  make_fp32(exact->plan);
  method_settle(exact->method);
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < N_PHASES; phase++) {
      const WorkList *list = &exact->work[piece][phase];
      for (int i = 0; i < list->n_items; i++)
        list->items[i].number = list->items[i].number == NUMBER_FP8 ? NUMBER_FP8 : NUMBER_FP32;
    }
  return exact;
}

/* Checks the same Program on the same ranks in fp32. The result goes to the report on rank 0. */
static gboolean check_in_fp32(const Execution *execution, CheckReport *report, GError **error) {
  const gboolean is_fp8 = execution->workload->plan->precision == PRECISION_FP8;
  g_autoptr(Workload) exact = (is_fp8 ? fp8_workload_in_fp32 : workload_in_fp32)(execution->workload);
  Execution in_fp32 = *execution;
  in_fp32.workload = exact;
  CheckReport *found = g_new(CheckReport, 1);
  if (!check_run(&in_fp32, found, NULL, error)) {
    g_prefix_error(error, "the check in fp32, which --check-fp32 off leaves out: ");
    check_report_clear(found);
    g_free(found);
    return FALSE;
  }
  report->in_fp32 = found;
  check_report_judge(report);
  return TRUE;
}

gboolean check_numerics(const Execution *execution, gboolean also_in_fp32, CheckReport *report, ExecutionResult *result,
                        GError **error) {
  if (!check_run(execution, report, result, error))
    return FALSE;
  if (!also_in_fp32 || execution->workload->plan->precision == PRECISION_FP32 ||
      check_in_fp32(execution, report, error))
    return TRUE;
  if (result != NULL)
    execution_result_clear(result);
  return FALSE;
}
