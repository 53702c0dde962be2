/* The ranks' run is recorded (records.h), then the one-rank run on rank 0, which compares them tensor by tensor. */
#include "numerics.h"

#include "measured_trace.h"
#include "plan.h"
#include "plan_program.h"
#include "records.h"

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
  plan->n_micro_batches = plan->global_batch / plan->micro_batch;
  g_clear_pointer(&plan->pipeline_layout, g_free);
  plan_set_schedule(plan, "1f1b");
  return workload_new(workload->model, plan, NULL);
}

static gboolean run_alone(const Execution *execution, Precision precision, Follower *follower, double *losses,
                          GError **error) {
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
  alone.hook = follow;
  alone.hook_data = follower;
  ExecutionResult result;
  const gboolean ok = execute(&alone, &result, error);
  if (ok)
    memcpy(losses, result.losses, sizeof *losses * (gsize)program->n_steps);
  else
    g_prefix_error(error, "the same model on one rank, in %s: ", precision_info(precision)->name);
  execution_result_clear(&result);
  return ok;
}

/* Runs the same model on one rank with the ranks' weights, `own`. NULL with the error set if it cannot run. `names`
 * (may be NULL): receives the names of its tensors. */
static GHashTable *run_reference(const Execution *execution, Precision precision, GHashTable *own, GPtrArray **names,
                                 double *losses, GError **error) {
  g_autoptr(GByteArray) records = g_byte_array_new();
  if (!run_alone(execution, precision, &(Follower){records, own}, losses, error))
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
  return c->execution->workload->plan->grad_norm_barrier && norm > most ? most / norm : 1;
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

/* ‖ΔW − ΔW′‖ / ‖ΔW′‖ less rounding, ΔW the ranks' update and ΔW′ Adam's. Advances the moments by a step. */
static double update_error(const Comparison *c, const Update *update, Moments *moments) {
  const Training *t = &c->execution->training;
  const Rounding rounding = rounding_of(c->execution->workload->plan);
  const int step = ++moments->n_made;
  const double correction1 = 1 - pow(t->beta1, step), correction2 = 1 - pow(t->beta2, step);
  const float *before = update->before->values, *after = update->after->values;
  double *m = moments->m, *v = moments->v, error2 = update->after->copies2, sum2 = 0;
  for (gint64 i = 0; i < update->gradient->n; i++) {
    const double g = update->scale * update->gradient->values[i];
    m[i] = t->beta1 * m[i] + (1 - t->beta1) * g;
    v[i] = t->beta2 * v[i] + (1 - t->beta2) * g * g;
    const double expected =
        -t->lr * (m[i] / correction1 / (sqrt(v[i] / correction2) + t->epsilon) + t->decay * before[i]);
    const double found = (double)after[i] - before[i];
    const double error = fabs(found - expected) - MAX(rounding.share * fabs((double)after[i]), rounding.least);
    error2 += isfinite(error) ? MAX(error, 0) * MAX(error, 0) : INFINITY;
    sum2 += expected * expected;
  }
  return error2 > 0 ? sqrt(error2 / MAX(sum2, G_MINDOUBLE)) : 0;
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

/* --- the whole check --- */

static void compare_all(const Execution *execution, CheckReport *report, GHashTable *reference, GHashTable *own,
                        GPtrArray *names) {
  g_autofree double *rounding = g_new0(double, names->len);
  const Comparison c = {execution, report, reference, own, NULL, rounding, names};
  report->n_tensors = names->len;
  g_autofree double *scales = g_new(double, report->n_steps);
  for (int step = 0; step < report->n_steps; step++) {
    compare_scales(&c, step);
    count_missing(&c, step);
    compare_gradients(&c, step);
    scales[step] = clipping(&c, step);
  }
  for (guint i = 0; i < names->len; i++)
    compare_updates(&c, g_ptr_array_index(names, i), scales);
  check_report_judge(report);
}

/* Measures what the precision alone does to gradients and losses: runs the same model on one rank once more, in a wider
 * one. */
static gboolean compare_with_rounding(const Execution *execution, CheckReport *report, GHashTable *reference,
                                      GHashTable *own, GPtrArray *names, GError **error) {
  g_autofree double *losses = g_new0(double, report->n_steps);
  const gboolean is_fp8 = execution->workload->plan->precision == PRECISION_FP8;
  const Precision wider = is_fp8 ? PRECISION_BF16 : PRECISION_FP32;
  g_autoptr(GHashTable) exact = run_reference(execution, wider, own, NULL, losses, error);
  if (exact == NULL)
    return FALSE;
  g_autofree double *rounding = g_new0(double, names->len);
  const Comparison c = {execution, report, reference, own, exact, rounding, names};
  report->knows_rounding = TRUE;
  for (int step = 0; step < report->n_steps; step++) {
    CheckedStep *checked = &report->steps[step];
    checked->gradient_error = checked->gradient_share = 0;
    compare_gradients(&c, step);
    check_report_note_exact_loss(report, step, losses[step]);
  }
  check_report_judge(report);
  return TRUE;
}

/* Runs the Program and collects what every rank holds. `own`, `losses`: on rank 0, NULL elsewhere. */
static gboolean run_written(const Execution *execution, GHashTable **own, double **losses, ExecutionResult *result,
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
  gsize n = 0;
  for (int rank = 0; all != NULL && rank < world_size(execution->world); rank++)
    n += sizes[rank];
  *own = all != NULL ? records_lay(all, n) : NULL;
  return TRUE;
}

static gboolean run_and_compare(const Execution *execution, CheckReport *report, ExecutionResult *result,
                                GError **error) {
  const int n_steps = execution->program->n_steps;
  memset(report, 0, sizeof *report);
  g_autoptr(GHashTable) own = NULL;
  g_autofree double *losses = NULL;
  if (!run_written(execution, &own, &losses, result, error))
    return FALSE;
  if (own == NULL)
    return TRUE;
  g_autofree double *reference_losses = g_new0(double, n_steps);
  g_autoptr(GPtrArray) names = NULL;
  const Precision precision = execution->workload->plan->precision;
  g_autoptr(GHashTable) reference = run_reference(execution, precision, own, &names, reference_losses, error);
  if (reference == NULL)
    return FALSE;
  check_report_init(report, n_steps, execution->workload->method);
  for (int i = 0; i < n_steps; i++) {
    report->steps[i].loss = losses[i];
    report->steps[i].reference_loss = reference_losses[i];
  }
  compare_all(execution, report, reference, own, names);
  const gboolean is_done = report->is_passed && precision != PRECISION_FP8; /* which is always compared with bf16 */
  return is_done || precision == PRECISION_FP32 ||
         compare_with_rounding(execution, report, reference, own, names, error);
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
  return workload_new(workload->model, plan, workload->placement);
}

/* The same of one in fp8: its items stay, as the Program names them, and copy for their products in fp32 (narrow.h). */
static Workload *fp8_workload_in_fp32(const Workload *workload) {
  Workload *exact = workload_new(workload->model, workload->plan, workload->placement);
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
