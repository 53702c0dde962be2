/* Before each optimizer step every rank writes down what it holds: for each tensor the part of its gradient and weights
 * that lies in this rank's shard, as records that say where in the whole matrix they belong.
 *
 *     record   | name, kind, step, place in the whole matrix, range | values, fp32 |
 *
 * Rank 0 collects them all, runs the model alone, and lays every record over the whole matrices. Any number no record
 * has covered is missing. */
#include "numerics.h"

#include "error.h"
#include "executor_private.h"
#include "measured_trace.h"
#include "plan_program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RECORD_GRADIENT, RECORD_WEIGHT, N_RECORDS };

typedef struct {
  char name[64];
  gint32 kind, step;
  gint64 columns, first_row, first_column, whole_rows, whole_columns; /* of the part held; of the whole */
  gint64 begin, end;                                                  /* elements of the part that follow */
} Record;

/* A whole matrix of the one-rank run, and how far the records are from it. */
typedef struct {
  float *values; /* owned */
  gint64 n;
  guint8 *is_covered; /* owned */
  double error2, norm2;
} Whole;

/* --- writing down ----------------------------------------------------------------------------------------------------- */

static gboolean read_floats(Trainer *trainer, const void *from, Number number, gint64 n, float *to, GError **error) {
  g_autofree char *raw = g_malloc((gsize)n * 4 + 1);
  if (!executor_read(trainer->device, trainer->streams[STREAM_COMPUTE], raw, from, n * kernel_element_bytes(number),
                     error))
    return FALSE;
  for (gint64 i = 0; i < n; i++) {
    guint32 bits = number == NUMBER_FP32 ? ((const guint32 *)(const void *)raw)[i]
                                         : (guint32)((const guint16 *)(const void *)raw)[i] << 16;
    memcpy(&to[i], &bits, sizeof bits);
  }
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

static gboolean write_block(Trainer *trainer, const Block *block, int step, GByteArray *out, GError **error) {
  const Parameters *parameters = trainer->parameters;
  g_autofree float *values = g_new(float, (gsize)block->shard_n + 1);
  const void *gradient = parameters->zero >= 2
                             ? block->gradient
                             : element(block->gradient, block->shard_first, parameters->gradient_number);
  if (!read_floats(trainer, gradient, parameters->gradient_number, block->shard_n, values, error))
    return FALSE;
  write_records(out, block, RECORD_GRADIENT, step, values);
  const void *weight = block->master != NULL     ? (const void *)block->master
                       : parameters->zero == 3   ? block->weight
                                                 : element(block->weight, block->shard_first, parameters->number);
  if (!read_floats(trainer, weight, block->master != NULL ? NUMBER_FP32 : parameters->number, block->shard_n, values,
                   error))
    return FALSE;
  write_records(out, block, RECORD_WEIGHT, step, values);
  return TRUE;
}

static gboolean write_down(Trainer *trainer, int step, gpointer data, GError **error) {
  for (int i = 0; i < trainer->parameters->n_blocks; i++) {
    const Block *block = &trainer->parameters->blocks[i];
    if (block->n > 0 && !write_block(trainer, block, step, data, error))
      return FALSE;
  }
  return TRUE;
}

/* --- the one-rank run -------------------------------------------------------------------------------------------------- */

static Workload *alone_workload(const Workload *workload) {
  g_autoptr(Plan) plan = plan_copy(workload->plan);
  plan->gpus = plan->tp = plan->dp = plan->pp = plan->cp = plan->ep = plan->chunks = 1;
  plan->zero = 0;
  plan->zero_ranks = 1;
  plan->sequence_parallel = FALSE;
  plan->recompute = RECOMPUTE_NONE;
  plan->n_micro_batches = plan->global_batch / plan->micro_batch;
  g_free(plan->schedule);
  plan->schedule = g_strdup("1f1b");
  return workload_new(workload->model, plan);
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

/* --- comparing --------------------------------------------------------------------------------------------------------- */

static void whole_free(gpointer data) {
  Whole *whole = data;
  g_free(whole->values);
  g_free(whole->is_covered);
  g_free(whole);
}

static char *record_key(const Record *record) {
  return g_strdup_printf("%d %d %s", record->kind, record->step, record->name);
}

/* Calls `visit` for each record of a block of them. */
static void each_record(const guint8 *bytes, gsize n, void (*visit)(const Record *, const float *, gpointer),
                        gpointer data) {
  for (gsize at = 0; at < n;) {
    Record record;
    memcpy(&record, bytes + at, sizeof record);
    const gsize n_values = (gsize)(record.end - record.begin);
    g_autofree float *values = g_memdup2(bytes + at + sizeof record, n_values * sizeof *values);
    visit(&record, values, data);
    at += sizeof record + n_values * sizeof *values;
  }
}

static void keep_reference(const Record *record, const float *values, gpointer data) {
  Whole *whole = g_new0(Whole, 1);
  whole->n = record->whole_rows * record->whole_columns;
  whole->values = g_new0(float, (gsize)whole->n);
  whole->is_covered = g_new0(guint8, (gsize)whole->n);
  memcpy(whole->values, values, sizeof *values * (gsize)MIN(whole->n, record->end - record->begin));
  for (gint64 i = 0; i < whole->n; i++)
    whole->norm2 += (double)whole->values[i] * whole->values[i];
  g_hash_table_insert(data, record_key(record), whole);
}

/* Copies on several ranks: the worst of each element counts. */
static void compare_record(const Record *record, const float *values, gpointer data) {
  g_autofree char *key = record_key(record);
  Whole *whole = g_hash_table_lookup(data, key);
  g_assert(whole != NULL);
  for (gint64 i = record->begin; i < record->end; i++) {
    const gint64 row = record->first_row + i / record->columns, column = record->first_column + i % record->columns;
    if (row >= record->whole_rows)
      continue; /* padding */
    const gint64 at = row * record->whole_columns + column;
    const double error = (double)values[i - record->begin] - whole->values[at];
    whole->error2 += isfinite(error) ? error * error : INFINITY;
    whole->is_covered[at] = TRUE;
  }
}

typedef struct {
  CheckReport *report;
  GHashTable *wholes;
  double *mean2; /* [steps] mean square of all gradients of the step */
} Summary;

static void add_mean(gpointer key, gpointer value, gpointer data) {
  const Whole *whole = value;
  double *sums = data;
  int kind, step;
  if (sscanf(key, "%d %d", &kind, &step) == 2 && kind == RECORD_GRADIENT) {
    sums[2 * step] += whole->norm2;
    sums[2 * step + 1] += (double)whole->n;
  }
}

static void note(double error, const char *name, double *worst, char *worst_name) {
  if (!(error <= *worst)) {
    *worst = error;
    g_strlcpy(worst_name, name, 64);
  }
}

/* ‖W_k − W_0‖² of the one-rank run. */
static double update_norm2(const Summary *summary, const Whole *now, const char *name) {
  g_autofree char *first_key = g_strdup_printf("%d 0 %s", RECORD_WEIGHT, name);
  const Whole *first = g_hash_table_lookup(summary->wholes, first_key);
  double norm2 = 0;
  for (gint64 i = 0; first != NULL && i < now->n; i++) {
    const double update = (double)now->values[i] - first->values[i];
    norm2 += update * update;
  }
  return norm2;
}

/* A tensor's gradient of a step says less than the floor it is measured against. */
static double floor2(const Summary *summary, const Whole *whole, int step) {
  return 1e-6 * summary->mean2[step] * (double)whole->n;
}

static gboolean is_noise(const Summary *summary, const char *name) {
  g_autofree char *key = g_strdup_printf("%d 0 %s", RECORD_GRADIENT, name);
  const Whole *gradient = g_hash_table_lookup(summary->wholes, key);
  return gradient != NULL && gradient->norm2 < floor2(summary, gradient, 0);
}

static void sum_up(gpointer key, gpointer value, gpointer data) {
  const Whole *whole = value;
  Summary *summary = data;
  int kind, step, at = 0;
  if (sscanf(key, "%d %d %n", &kind, &step, &at) != 2)
    return;
  const char *name = (const char *)key + at;
  CheckedStep *checked = &summary->report->steps[step];
  for (gint64 i = 0; i < whole->n; i++)
    summary->report->n_missing += !whole->is_covered[i];
  summary->report->n_tensors += kind == RECORD_GRADIENT && step == 0;
  if (kind == RECORD_GRADIENT) {
    note(sqrt(whole->error2 / MAX(MAX(whole->norm2, floor2(summary, whole, step)), G_MINDOUBLE)), name,
         &checked->gradient_error, checked->gradient_worst);
  } else if (step > 0 && is_noise(summary, name)) {
    return;
  } else if (step > 0) {
    note(sqrt(whole->error2 / MAX(update_norm2(summary, whole, name), G_MINDOUBLE)), name, &checked->update_error,
         checked->update_worst);
  } else if (whole->error2 > 0) { /* not even the first weights are equal */
    note(INFINITY, name, &checked->update_error, checked->update_worst);
  }
}

static void judge(CheckReport *report) {
  report->is_passed = report->n_missing == 0;
  for (int i = 0; i < report->n_steps; i++) {
    const CheckedStep *step = &report->steps[i];
    const double loss_error = fabs(step->loss - step->reference_loss) / fabs(step->reference_loss);
    report->is_passed = report->is_passed && loss_error <= report->loss_tolerance &&
                        step->gradient_error <= report->gradient_tolerance &&
                        step->update_error <= report->update_tolerance;
  }
}

/* Records of all ranks against the one-rank run's. */
static void compare_all(CheckReport *report, const guint8 *records, gsize n, const GByteArray *reference) {
  g_autoptr(GHashTable) wholes = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, whole_free);
  each_record(reference->data, reference->len, keep_reference, wholes);
  each_record(records, n, compare_record, wholes);
  g_autofree double *sums = g_new0(double, 2 * (gsize)report->n_steps);
  g_autofree double *mean2 = g_new0(double, report->n_steps);
  g_hash_table_foreach(wholes, add_mean, sums);
  for (int i = 0; i < report->n_steps; i++)
    mean2[i] = sums[2 * i] / MAX(sums[2 * i + 1], 1);
  Summary summary = {report, wholes, mean2};
  g_hash_table_foreach(wholes, sum_up, &summary);
  judge(report);
}

/* Relative bounds. fp32: sums in another order. bf16: every stored number is rounded to 8 bits, and other cuts round
 * other partial sums; measured on small models (docs/validation.md). */
static void set_tolerances(CheckReport *report, Precision precision) {
  const gboolean is_fp32 = precision == PRECISION_FP32;
  report->loss_tolerance = is_fp32 ? 1e-5 : 2e-3;
  report->gradient_tolerance = is_fp32 ? 1e-5 : 5e-2;
  report->update_tolerance = is_fp32 ? 2e-2 : 5e-1;
}

gboolean check_numerics(const Execution *execution, CheckReport *report, GError **error) {
  const int n_steps = execution->program->n_steps;
  memset(report, 0, sizeof *report);
  g_autoptr(GByteArray) records = g_byte_array_new();
  Execution written = *execution;
  written.hook = write_down;
  written.hook_data = records;
  ExecutionResult result;
  if (!execute(&written, &result, error))
    return FALSE;
  g_autofree double *losses = measured_losses(execution->world, execution->workload, n_steps, &result);
  g_autofree double *reference_losses = g_new0(double, n_steps);
  execution_result_clear(&result);
  g_autofree gsize *sizes = NULL;
  g_autofree guint8 *all = world_gather(execution->world, records->data, records->len, &sizes);
  gboolean ok = TRUE;
  if (all != NULL) {
    g_autoptr(GByteArray) reference = g_byte_array_new();
    gsize n = 0;
    for (int rank = 0; rank < world_size(execution->world); rank++)
      n += sizes[rank];
    report->n_steps = n_steps;
    report->steps = g_new0(CheckedStep, n_steps);
    set_tolerances(report, execution->workload->plan->precision);
    ok = run_alone(execution, reference, reference_losses, error);
    for (int i = 0; i < n_steps; i++) {
      report->steps[i].loss = losses[i];
      report->steps[i].reference_loss = reference_losses[i];
    }
    if (ok)
      compare_all(report, all, n, reference);
  }
  return ok;
}

void check_report_clear(CheckReport *report) {
  g_clear_pointer(&report->steps, g_free);
}

void check_report_print(const CheckReport *report, GString *out) {
  g_string_append(out, "numerics against the same model on one rank\n"
                       "  step        loss    one rank       error   worst gradient                    worst update\n");
  for (int i = 0; i < report->n_steps; i++) {
    const CheckedStep *step = &report->steps[i];
    g_string_append_printf(out, "  %4d  %10.6f  %10.6f  %10.2e   %8.2e %-24s  %8.2e %s\n", i, step->loss,
                           step->reference_loss, fabs(step->loss - step->reference_loss) / fabs(step->reference_loss),
                           step->gradient_error, step->gradient_worst, step->update_error, step->update_worst);
  }
  if (report->n_missing > 0)
    g_string_append_printf(out, "  %" G_GINT64_FORMAT " numbers are on no rank\n", report->n_missing);
  g_string_append_printf(out, "  %s: losses within %g, gradients within %g, updates within %g (relative)\n",
                         report->is_passed ? "equal" : "NOT EQUAL", report->loss_tolerance, report->gradient_tolerance,
                         report->update_tolerance);
}
