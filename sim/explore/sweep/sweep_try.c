/* What becomes of an index:
 *
 *     values clash, plan_complete() refuses, the order cannot be     impossible, with the reason
 *     it holds more than a GPU has at some moment, whatever          too large, with the bound
 *     predicted, and the peak does not fit                           out of memory, with all numbers
 *     predicted                                                      ran
 *
 * Plans that differ in what they recompute alone stand one behind the other. Where that is nothing, whatever they call
 * it, the second has the first one's numbers. */
#include "sweep_try.h"

#include <math.h>

#include "error.h"
#include "memory_bound.h"
#include "mixed_gpus.h"
#include "step_of_prediction.h"
#include "units.h"

struct SweepWorker {
  const SweepSetup *setup;
  const SweepTable *table;
  SpaceReader *reader;
  ShortOrder *order;
  Predictor *predictor;
  int *axes;        /* [n_axes of the space]: the column of each, −1: none; owned */
  Prediction *last; /* recomputes nothing; owned. NULL: the last one does, or was not run */
  gint64 last_index;
};

SweepWorker *sweep_worker_new(const SweepSetup *setup, const SweepTable *table) {
  SweepWorker *worker = g_new0(SweepWorker, 1);
  worker->setup = setup;
  worker->table = table;
  worker->reader = space_reader_new(setup->space);
  worker->order = short_order_new();
  worker->predictor = predictor_new();
  worker->axes = g_new(int, space_n_axes(setup->space));
  for (int axis = 0; axis < space_n_axes(setup->space); axis++)
    worker->axes[axis] = sweep_table_find_axis(table, space_axis_name(setup->space, axis));
  return worker;
}

void sweep_worker_free(SweepWorker *worker) {
  if (worker == NULL)
    return;
  prediction_free(worker->last);
  space_reader_free(worker->reader);
  short_order_free(worker->order);
  predictor_free(worker->predictor);
  g_free(worker->axes);
  g_free(worker);
}

/* `price` below 0: the cluster's own. */
static void set_cost(const SweepTable *table, const Prediction *prediction, double price, SweepRow *row) {
  price = price >= 0 ? price : prediction->cluster->dollars_per_gpu_hour;
  if (!(price > 0))
    return;
  const double dollars_per_s = price / 3600 * prediction->workload->plan->gpus;
  sweep_row_set_real(row, table, SWEEP_DOLLARS_PER_GPU_HOUR, price);
  sweep_row_set_real(row, table, SWEEP_DOLLARS_PER_MILLION_TOKENS, dollars_per_s / prediction->tokens_per_s * 1e6);
}

static char *text_of_bytes(double bytes) {
  return units_format(bytes, UNIT_BYTES);
}

static void set_too_large(const SweepWorker *worker, const Plan *plan, const MemoryBound *bound, SweepRow *row) {
  g_autofree char *least = text_of_bytes(bound->least_bytes), *state = text_of_bytes(bound->state_bytes);
  g_autofree char *activations = text_of_bytes(bound->activation_bytes), *room = text_of_bytes(bound->room_bytes);
  sweep_row_set_plan(row, worker->table, plan);
  sweep_row_set_real(row, worker->table, SWEEP_LEAST_BYTES, bound->least_bytes);
  sweep_row_set_reason(row, SWEEP_TOO_LARGE,
                       g_strdup_printf("pipeline rank %d holds at least %s (%s of weights, gradients and optimizer, %s "
                                       "of activations), a GPU has %s for them",
                                       bound->rank, least, state, activations, room));
}

static void set_impossible(const SweepWorker *worker, const Plan *plan, const GError *reason, SweepRow *row) {
  sweep_row_set_plan(row, worker->table, plan);
  sweep_row_set_reason(row, SWEEP_IMPOSSIBLE, g_strdup(reason->message));
}

/* An outline. NULL: it is known, without a run, that the plan cannot be or does not fit; then the row says so. Of
 * auto's candidates the first that may fit, or the reasons of the one that holds least. */
static Workload *workload_to_run(const SweepWorker *worker, const SpacePoint *point, SweepRow *row) {
  g_autoptr(GPtrArray) plans = plan_candidates(point->plan);
  g_autoptr(GError) reason = NULL;
  g_autoptr(Workload) large = NULL; /* the first that is possible */
  MemoryBound least = {.least_bytes = INFINITY};
  for (guint i = 0; i < plans->len; i++) {
    MemoryBound bound;
    g_autoptr(Workload) workload =
        workload_outline(point->model, point->cluster, plans->pdata[i], i == 0 ? &reason : NULL);
    if (workload == NULL)
      continue;
    if (memory_bound_fits(workload, point->cluster, worker->order, &bound))
      return g_steal_pointer(&workload);
    if (bound.least_bytes < least.least_bytes)
      least = bound;
    if (large == NULL)
      large = g_steal_pointer(&workload);
  }
  if (large != NULL)
    set_too_large(worker, large->plan, &least, row);
  else
    set_impossible(worker, point->plan, reason, row);
  return NULL;
}

/* Of a plan that does not: the GPU, or else the first tier beyond it that holds too much. Owned by the caller. */
static char *why_it_does_not_fit(const StepReport *report, double total_bytes, double margin_bytes) {
  if (!step_report_fits_gpu(report)) {
    g_autofree char *held = text_of_bytes(total_bytes), *capacity = text_of_bytes(report->capacity_bytes);
    return g_strdup_printf("rank %d holds %s at its peak with what libraries reserve, a GPU has %s%s",
                           report->worst_rank, held, capacity, margin_bytes > 0 ? " beside its margin" : "");
  }
  const MemoryTier tier = report->tiers[TIER_HOST].fits ? TIER_NVME : TIER_HOST;
  const TierUse *use = &report->tiers[tier];
  g_autofree char *held = text_of_bytes(use->bytes), *capacity = text_of_bytes(use->capacity_bytes);
  return g_strdup_printf("the ranks of node %d hold %s %s at their peak, a node has %s", use->node, held,
                         tier == TIER_HOST ? "in host memory" : "on drives", capacity);
}

void sweep_row_set_prediction(SweepRow *row, const SweepTable *table, const Prediction *prediction, const Plan *plan,
                              double price) {
  StepReport report = step_of_prediction(prediction, NULL);
  const gboolean fits = report.fits;
  report.plan = plan;
  report.fits = step_report_fits_gpu(&report); /* as memory.fits of --json: tiers beyond the GPU have their own */
  sweep_row_set_plan(row, table, report.plan);
  sweep_row_set_report(row, table, &report);
  set_cost(table, prediction, price, row);
  const double margin_bytes = mixed_gpus_smallest(prediction->workload, prediction->cluster)->margin_bytes;
  const double total_bytes = report.peak_bytes + report.reserved_bytes;
  sweep_row_set_real(row, table, SWEEP_MEMORY_TOTAL_BYTES, total_bytes);
  sweep_row_set_real(row, table, SWEEP_MEMORY_USED, total_bytes / (report.capacity_bytes + margin_bytes));
  row->status = SWEEP_RAN;
  if (!fits)
    sweep_row_set_reason(row, SWEEP_OUT_OF_MEMORY, why_it_does_not_fit(&report, total_bytes, margin_bytes));
}

/* Whether the complete `plan` of `index` is the last one's, but for the name of what is recomputed: nothing. An auto
 * schedule is what it was found to be once it is predicted, and has no twin. */
static gboolean is_twin(const SweepWorker *worker, gint64 index, const SpacePoint *point, const Plan *plan) {
  const Space *space = worker->setup->space;
  if (worker->last == NULL || !plan_recomputes_nothing(plan) || schedule_is_auto(point->plan->schedule) ||
      g_strcmp0(plan->schedule, worker->last->workload->plan->schedule) != 0)
    return FALSE;
  for (int axis = 0; axis < space_n_axes(space); axis++)
    if (!g_str_equal(space_axis_name(space, axis), "recompute") &&
        !g_str_equal(space_axis_value(space, axis, index), space_axis_value(space, axis, worker->last_index)))
      return FALSE;
  return TRUE;
}

/* Takes over the workload of the point, NULL: not known. */
static void predict_point(SweepWorker *worker, gint64 index, const SpacePoint *point, Workload *workload,
                          SweepRow *row) {
  g_autoptr(GError) error = NULL;
  g_clear_pointer(&worker->last, prediction_free);
  g_autoptr(Prediction) prediction =
      predict_numbers_of(worker->predictor, point->model, point->cluster, point->plan, workload, &error);
  if (prediction == NULL) {
    set_impossible(worker, point->plan, error, row);
    return;
  }
  sweep_row_set_prediction(row, worker->table, prediction, prediction->workload->plan, worker->setup->price);
  if (!plan_recomputes_nothing(prediction->workload->plan))
    return;
  worker->last = g_steal_pointer(&prediction);
  worker->last_index = index;
}

/* The values of the axes: `all`, for a configuration without a plan, or those that no plan has. */
static void set_asked(const SweepWorker *worker, gint64 index, gboolean all, SweepRow *row) {
  const Space *space = worker->setup->space;
  for (int axis = 0; axis < space_n_axes(space); axis++) {
    const int column = worker->axes[axis];
    if (column >= 0 && (all || !sweep_table_is_of_plan(worker->table, column)))
      sweep_row_set_asked(row, worker->table, column, space_axis_value(space, axis, index));
  }
}

void sweep_worker_try(SweepWorker *worker, gint64 index, SweepRow *row) {
  g_autoptr(GError) error = NULL;
  SpacePoint point;
  const gboolean has_plan = space_reader_read(worker->reader, index, &point, &error);
  sweep_row_init(row, worker->table, index);
  set_asked(worker, index, !has_plan, row);
  if (!has_plan) {
    sweep_row_set_reason(row, SWEEP_IMPOSSIBLE, g_strdup(error->message));
    return;
  }
  g_autoptr(Workload) workload = worker->setup->prune ? workload_to_run(worker, &point, row) : NULL;
  if (worker->setup->prune && workload == NULL)
    return;
  if (workload != NULL && is_twin(worker, index, &point, workload->plan))
    sweep_row_set_prediction(row, worker->table, worker->last, workload->plan, worker->setup->price);
  else
    predict_point(worker, index, &point, g_steal_pointer(&workload), row);
}
