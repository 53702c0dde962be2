/* Before each optimizer step, and after the last, every rank writes down what it holds: for each tensor the part of its
 * gradient and weights that lies in this rank's shard, as records that say where in the whole matrix they belong.
 *
 *     record   | name, kind, step, place in the whole matrix, range | values, fp32 |
 *
 * Rank 0 collects them all, runs the model alone, and lays every record over whole matrices. Any number no record has
 * covered is missing. */
#include "numerics.h"

#include "cpu_kernels.h"
#include "error.h"
#include "executor_private.h"
#include "measured_trace.h"
#include "plan_program.h"
#include "scaling.h"
#include "staging.h"

#include <math.h>
#include <string.h>

/* gradients are written down as they are without the loss's scale; the scale itself as two numbers */
enum { RECORD_GRADIENT, RECORD_WEIGHT, RECORD_SCALE, N_RECORDS };
enum { AT_SCALE, AT_SKIPPED, N_OF_SCALE };
static const char scale_name[] = "loss scale";

typedef struct {
  char name[64];
  gint32 kind, step;
  gint64 columns, first_row, first_column, whole_rows, whole_columns; /* of the part held; of the whole */
  gint64 begin, end;                                                  /* elements of the part that follow */
} Record;

/* A whole matrix, of the one-rank run or as the ranks' records make it. */
typedef struct {
  float *values; /* owned */
  gint64 n;
  guint8 *is_covered; /* owned */
  double copies2;     /* Σ of squared differences of what several ranks hold */
} Whole;

/* --- writing down --- */

static gboolean read_floats(Trainer *trainer, const void *from, Number number, gint64 n, float *to, GError **error) {
  g_autofree char *raw = g_malloc((gsize)n * 4 + 1);
  if (!staging_read(trainer->device, trainer->streams[STREAM_COMPUTE], raw, from, n * kernel_element_bytes(number),
                    error))
    return FALSE;
  cpu_widen(raw, number, n, to);
  return TRUE;
}

static void write_records(GByteArray *out, const Block *block, int kind, int step, const float *shard) {
  for (int i = 0; i < block->n_tensors; i++) {
    const Tensor *tensor = &block->tensors[i];
    const gint64 n = tensor->rows * tensor->columns;
    const gint64 begin = CLAMP(block->shard_first - tensor->offset, 0, n);
    const gint64 end = CLAMP(block->shard_first + block->shard_n - tensor->offset, 0, n);
    if (begin >= end)
      continue;
    Record record = {.kind = kind,
                     .step = step,
                     .columns = tensor->columns,
                     .first_row = tensor->first_row,
                     .first_column = tensor->first_column,
                     .whole_rows = tensor->whole_rows,
                     .whole_columns = tensor->whole_columns,
                     .begin = begin,
                     .end = end};
    g_strlcpy(record.name, tensor->name, sizeof record.name);
    g_byte_array_append(out, (const guint8 *)&record, sizeof record);
    g_byte_array_append(out, (const guint8 *)(shard + tensor->offset + begin - block->shard_first),
                        (guint)((gsize)(end - begin) * sizeof *shard));
  }
}

static const void *element(const void *base, gint64 i, Number number) {
  return (const char *)base + i * kernel_element_bytes(number);
}

/* The step's scale into the records; 1 where there is none. */
static gboolean write_scale(Trainer *trainer, int step, GByteArray *out, double *scale, GError **error) {
  LossScale state = {.scale = 1};
  if (trainer->scales != NULL && !staging_read(trainer->device, trainer->streams[STREAM_COMPUTE], &state,
                                               scaling_of(trainer, step), sizeof state, error))
    return FALSE;
  *scale = state.scale;
  if (trainer->scales == NULL)
    return TRUE;
  Record record = {.kind = RECORD_SCALE,
                   .step = step,
                   .columns = N_OF_SCALE,
                   .whole_rows = 1,
                   .whole_columns = N_OF_SCALE,
                   .end = N_OF_SCALE};
  const float values[N_OF_SCALE] = {[AT_SCALE] = (float)state.scale, [AT_SKIPPED] = (float)state.n_skipped};
  g_strlcpy(record.name, scale_name, sizeof record.name);
  g_byte_array_append(out, (const guint8 *)&record, sizeof record);
  g_byte_array_append(out, (const guint8 *)values, sizeof values);
  return TRUE;
}

static gboolean write_block(Trainer *trainer, const Block *block, int step, double scale, GByteArray *out,
                            GError **error) {
  const Parameters *parameters = trainer->parameters;
  g_autofree float *values = g_new(float, (gsize)block->shard_n + 1);
  const void *gradient =
      block->zero >= 2 ? block->gradient : element(block->gradient, block->shard_first, parameters->gradient_number);
  const gboolean has_gradient = step < trainer->program->n_steps;
  if (has_gradient && !read_floats(trainer, gradient, parameters->gradient_number, block->shard_n, values, error))
    return FALSE;
  for (gint64 i = 0; i < block->shard_n && has_gradient; i++)
    values[i] = (float)(values[i] / scale);
  if (has_gradient)
    write_records(out, block, RECORD_GRADIENT, step, values);
  const void *weight = block->master != NULL ? (const void *)block->master
                       : block->zero == 3    ? block->weight
                                             : element(block->weight, block->shard_first, parameters->number);
  if (!read_floats(trainer, weight, block->master != NULL ? NUMBER_FP32 : parameters->number, block->shard_n, values,
                   error))
    return FALSE;
  write_records(out, block, RECORD_WEIGHT, step, values);
  return TRUE;
}

static gboolean write_down(Trainer *trainer, int step, gpointer data, GError **error) {
  double scale;
  if (!write_scale(trainer, step, data, &scale, error))
    return FALSE;
  for (int i = 0; i < trainer->parameters->n_blocks; i++) {
    const Block *block = &trainer->parameters->blocks[i];
    if (block->n > 0 && !write_block(trainer, block, step, scale, data, error))
      return FALSE;
  }
  return TRUE;
}

/* --- the one-rank run --- */

static Workload *alone_workload(const Workload *workload) {
  g_autoptr(Plan) plan = plan_copy(workload->plan);
  plan->gpus = plan->tp = plan->dp = plan->pp = plan->cp = plan->ep = plan->chunks = plan->n_pipes = 1;
  plan->group = plan->expert_tp = 0;
  plan->zero = 0;
  plan->zero_ranks = 1;
  plan->sequence_parallel = FALSE;
  plan->recompute = RECOMPUTE_NONE;
  plan->recompute_modules = 0;
  plan->n_micro_batches = plan->global_batch / plan->micro_batch;
  g_clear_pointer(&plan->pipeline_layout, g_free);
  g_free(plan->schedule);
  plan->schedule = g_strdup("1f1b");
  return workload_new(workload->model, plan, NULL);
}

static gboolean run_alone(const Execution *execution, GByteArray *records, double *losses, GError **error) {
  g_autoptr(Workload) workload = alone_workload(execution->workload);
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
  alone.hook = write_down;
  alone.hook_data = records;
  ExecutionResult result;
  const gboolean ok = execute(&alone, &result, error);
  if (ok)
    memcpy(losses, result.losses, sizeof *losses * (gsize)program->n_steps);
  else
    g_prefix_error(error, "the same model on one rank: ");
  execution_result_clear(&result);
  return ok;
}

/* --- comparing --- */

static void whole_free(gpointer data) {
  Whole *whole = data;
  g_free(whole->values);
  g_free(whole->is_covered);
  g_free(whole);
}

static char *key_of(int kind, int step, const char *name) {
  return g_strdup_printf("%d %d %s", kind, step, name);
}

static const Whole *find_whole(GHashTable *wholes, int kind, int step, const char *name) {
  g_autofree char *key = key_of(kind, step, name);
  return g_hash_table_lookup(wholes, key);
}

/* Takes a record into its whole matrix, made when it is the first. */
static void lay(const Record *record, const float *values, GHashTable *wholes) {
  g_autofree char *key = key_of(record->kind, record->step, record->name);
  Whole *whole = g_hash_table_lookup(wholes, key);
  if (whole == NULL) {
    whole = g_new0(Whole, 1);
    whole->n = record->whole_rows * record->whole_columns;
    whole->values = g_new0(float, (gsize)whole->n);
    whole->is_covered = g_new0(guint8, (gsize)whole->n);
    g_hash_table_insert(wholes, g_steal_pointer(&key), whole);
  }
  gint64 row = record->first_row + record->begin / record->columns, column = record->begin % record->columns;
  double copies2 = 0;
  for (gint64 i = 0; i < record->end - record->begin && row < record->whole_rows; i++) { /* below is padding */
    const gint64 at = row * record->whole_columns + record->first_column + column;
    const double difference = whole->is_covered[at] ? (double)values[i] - whole->values[at] : 0;
    copies2 += isfinite(difference) ? difference * difference : INFINITY;
    whole->values[at] = values[i];
    whole->is_covered[at] = TRUE;
    if (++column == record->columns) {
      column = 0;
      row++;
    }
  }
  whole->copies2 += copies2;
}

/* All records of a block of them. */
static GHashTable *lay_all(const guint8 *bytes, gsize n) {
  GHashTable *wholes = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, whole_free);
  for (gsize at = 0; at < n;) {
    Record record;
    memcpy(&record, bytes + at, sizeof record);
    const gsize n_values = (gsize)(record.end - record.begin);
    g_autofree float *values = g_memdup2(bytes + at + sizeof record, n_values * sizeof *values);
    lay(&record, values, wholes);
    at += sizeof record + n_values * sizeof *values;
  }
  return wholes;
}

typedef struct {
  const Execution *execution;
  CheckReport *report;
  GHashTable *reference, *own; /* Whole by key */
  GPtrArray *names;            /* of tensors, in order */
} Comparison;

static double norm2(const Whole *whole) {
  double sum = 0;
  for (gint64 i = 0; whole != NULL && i < whole->n; i++)
    sum += (double)whole->values[i] * whole->values[i];
  return sum;
}

/* Σ g² over the model, and its mean over all numbers. */
static double model_norm2(const Comparison *c, GHashTable *wholes, int step, double *mean2) {
  double sum = 0, n = 0;
  for (guint i = 0; i < c->names->len; i++) {
    const Whole *whole = find_whole(wholes, RECORD_GRADIENT, step, g_ptr_array_index(c->names, i));
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

/* Whether a step was skipped, and on all ranks as on the one. */
static void compare_scales(const Comparison *c, int step) {
  CheckedStep *checked = &c->report->steps[step];
  const Whole *before = find_whole(c->own, RECORD_SCALE, step, scale_name);
  const Whole *after = find_whole(c->own, RECORD_SCALE, step + 1, scale_name);
  const Whole *reference = find_whole(c->reference, RECORD_SCALE, step, scale_name);
  const Whole *reference_after = find_whole(c->reference, RECORD_SCALE, step + 1, scale_name);
  if (before == NULL || after == NULL || reference == NULL || reference_after == NULL)
    return;
  checked->scale = (double)before->values[AT_SCALE];
  checked->is_skipped = after->values[AT_SKIPPED] > before->values[AT_SKIPPED];
  checked->scales_differ = distance2(before, reference) > 0 || distance2(after, reference_after) > 0;
}

static void compare_gradients(const Comparison *c, int step) {
  CheckedStep *checked = &c->report->steps[step];
  double mean2;
  model_norm2(c, c->reference, step, &mean2);
  for (guint i = 0; i < c->names->len; i++) {
    const char *name = g_ptr_array_index(c->names, i);
    const Whole *reference = find_whole(c->reference, RECORD_GRADIENT, step, name);
    const Whole *own = find_whole(c->own, RECORD_GRADIENT, step, name);
    c->report->n_missing += n_missing(reference, own);
    const double least2 = c->report->noise * c->report->noise * mean2 * (double)reference->n;
    if (own != NULL && !checked->is_skipped)
      note(sqrt(distance2(own, reference) / MAX(MAX(norm2(reference), least2), G_MINDOUBLE)), name,
           &checked->gradient_error, checked->gradient_worst);
  }
}

/* --- updates --- */

/* Half a unit in the last place of what the optimizer writes. */
static double rounding(const Plan *plan, double value) {
  if (plan->recipe.master > 0 || plan->precision == PRECISION_FP32)
    return ldexp(fabs(value), -24);
  return plan->precision == PRECISION_FP16 ? MAX(ldexp(fabs(value), -11), ldexp(1, -25)) : ldexp(fabs(value), -8);
}

/* What Adam does to every tensor's gradients before it looks at any element. */
static double clipping(const Comparison *c, int step) {
  const double most = c->execution->training.max_norm;
  double mean2;
  const double norm = sqrt(model_norm2(c, c->own, step, &mean2));
  return c->execution->workload->plan->grad_norm_barrier && norm > most ? most / norm : 1;
}

/* The made-th step of Adam, from 0, for a tensor, whose moments m, v go on; the error of what the ranks have made of
 * it. */
static double update_error(const Comparison *c, int made, const Whole *gradient, const Whole *before,
                           const Whole *after, double scale, double *m, double *v) {
  const Training *t = &c->execution->training;
  const Plan *plan = c->execution->workload->plan;
  const double correction1 = 1 - pow(t->beta1, made + 1), correction2 = 1 - pow(t->beta2, made + 1);
  double error2 = after->copies2, sum2 = 0;
  for (gint64 i = 0; i < gradient->n; i++) {
    const double g = scale * gradient->values[i];
    m[i] = t->beta1 * m[i] + (1 - t->beta1) * g;
    v[i] = t->beta2 * v[i] + (1 - t->beta2) * g * g;
    const double update =
        -t->lr * (m[i] / correction1 / (sqrt(v[i] / correction2) + t->epsilon) + t->decay * before->values[i]);
    const double found = (double)after->values[i] - before->values[i];
    const double error = fabs(found - update) - rounding(plan, (double)after->values[i]);
    error2 += isfinite(error) ? MAX(error, 0) * MAX(error, 0) : INFINITY;
    sum2 += update * update;
  }
  return error2 > 0 ? sqrt(error2 / MAX(sum2, G_MINDOUBLE)) : 0;
}

static void compare_updates(const Comparison *c, const char *name, const double *scales) {
  const int n_steps = c->report->n_steps;
  const Whole *first = find_whole(c->reference, RECORD_WEIGHT, 0, name);
  const Whole *before = find_whole(c->own, RECORD_WEIGHT, 0, name);
  g_autofree double *m = g_new0(double, first->n), *v = g_new0(double, first->n);
  if (before == NULL || distance2(before, first) > 0) /* not even the first weights are equal */
    note(INFINITY, name, &c->report->steps[0].update_error, c->report->steps[0].update_worst);
  for (int step = 0, made = 0; step < n_steps; step++) {
    CheckedStep *checked = &c->report->steps[step];
    const Whole *gradient = find_whole(c->own, RECORD_GRADIENT, step, name);
    const Whole *after = find_whole(c->own, RECORD_WEIGHT, step + 1, name);
    c->report->n_missing += n_missing(first, after);
    if (gradient == NULL || before == NULL || after == NULL)
      return; /* counted */
    if (checked->is_skipped && distance2(after, before) > 0)
      note(INFINITY, name, &checked->update_error, checked->update_worst); /* it is to stay what it was */
    if (!checked->is_skipped)
      note(update_error(c, made++, gradient, before, after, scales[step], m, v), name, &checked->update_error,
           checked->update_worst);
    before = after;
  }
}

/* --- the whole check --- */

/* Names of the tensors of the one-rank run, in the order of its records. */
static GPtrArray *tensor_names(const GByteArray *records) {
  GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
  for (gsize at = 0; at < records->len;) {
    Record record;
    memcpy(&record, records->data + at, sizeof record);
    if (record.kind == RECORD_GRADIENT && record.step == 0)
      g_ptr_array_add(names, g_strdup(record.name));
    at += sizeof record + (gsize)(record.end - record.begin) * sizeof(float);
  }
  return names;
}

static void compare_all(const Execution *execution, CheckReport *report, GHashTable *reference, GHashTable *own,
                        GPtrArray *names) {
  const Comparison c = {execution, report, reference, own, names};
  report->n_tensors = names->len;
  g_autofree double *scales = g_new(double, report->n_steps);
  for (int step = 0; step < report->n_steps; step++) {
    compare_scales(&c, step);
    compare_gradients(&c, step);
    scales[step] = clipping(&c, step);
  }
  for (guint i = 0; i < names->len; i++)
    compare_updates(&c, g_ptr_array_index(names, i), scales);
  check_report_judge(report);
}

/* Runs the Program, collects what every rank holds. `own`, `losses`: on rank 0, NULL elsewhere. */
static gboolean run_written(const Execution *execution, GHashTable **own, double **losses, GError **error) {
  g_autoptr(GByteArray) records = g_byte_array_new();
  Execution written = *execution;
  written.hook = write_down;
  written.hook_data = records;
  ExecutionResult result;
  if (!execute(&written, &result, error))
    return FALSE;
  *losses = measured_losses(execution->world, execution->workload, execution->program->n_steps, &result);
  execution_result_clear(&result);
  g_autofree gsize *sizes = NULL;
  g_autofree guint8 *all = world_gather(execution->world, records->data, records->len, &sizes);
  gsize n = 0;
  for (int rank = 0; all != NULL && rank < world_size(execution->world); rank++)
    n += sizes[rank];
  *own = all != NULL ? lay_all(all, n) : NULL;
  return TRUE;
}

/* The same model on one rank; NULL with the error set when it cannot run. */
static GHashTable *run_reference(const Execution *execution, GPtrArray **names, double *losses, GError **error) {
  g_autoptr(GByteArray) records = g_byte_array_new();
  if (!run_alone(execution, records, losses, error))
    return NULL;
  *names = tensor_names(records);
  return lay_all(records->data, records->len);
}

gboolean check_numerics(const Execution *execution, CheckReport *report, GError **error) {
  const int n_steps = execution->program->n_steps;
  memset(report, 0, sizeof *report);
  g_autoptr(GHashTable) own = NULL;
  g_autofree double *losses = NULL;
  if (!run_written(execution, &own, &losses, error))
    return FALSE;
  if (own == NULL)
    return TRUE;
  g_autofree double *reference_losses = g_new0(double, n_steps);
  g_autoptr(GPtrArray) names = NULL;
  g_autoptr(GHashTable) reference = run_reference(execution, &names, reference_losses, error);
  if (reference == NULL)
    return FALSE;
  check_report_init(report, n_steps, execution->workload->plan);
  for (int i = 0; i < n_steps; i++) {
    report->steps[i].loss = losses[i];
    report->steps[i].reference_loss = reference_losses[i];
  }
  compare_all(execution, report, reference, own, names);
  return TRUE;
}
