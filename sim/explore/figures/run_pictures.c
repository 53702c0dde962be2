/* Runs become bars, cells or points in their order; one that is impossible keeps its place and says so. */
#include "run_pictures.h"

#include <math.h>

#include "error.h"
#include "stack.h"
#include "state_memory.h"
#include "vary.h"

static const struct {
  const char *label, *digits;
  double scale;
} values[N_RUN_VALUES] = {
    [RUN_MFU] = {"MFU (% of peak FLOP/s)", "%.1f", 100},
    [RUN_TOKENS_PER_S] = {"Thousand tokens per second", "%.4g", 1e-3},
    [RUN_STEP_TIME] = {"Time of a step (s)", "%.4g", 1},
};

const char *const *run_value_names(void) {
  static const char *const names[] = {"mfu", "tokens_per_s", "step_time_s", NULL};
  return names;
}

const char *run_value_label(RunValue value) {
  return values[value].label;
}

/* Owned by the caller. */
static char *label_of(const Variant *run) {
  return g_strconcat(run->label,
                     run->problem != NULL ? " (cannot be)"
                     : run->outcome->fits ? ""
                                          : " (does not fit)",
                     NULL);
}

static gboolean check_possible(const GArray *runs, GError **error) {
  if (variants_count_possible(runs) > 0)
    return TRUE;
  const Variant *first = variants_get(runs, 0);
  return fail_impossible(error, "nothing to draw, all of %u configurations are impossible; %s: %s", runs->len,
                         first->label, first->problem->message);
}

Picture *runs_breakdown_picture(const GArray *runs, const char *title, int columns, GError **error) {
  if (!check_possible(runs, error))
    return NULL;
  double longest_s = 0;
  for (guint i = 0; i < runs->len; i++)
    if (variants_get(runs, i)->outcome != NULL)
      longest_s = MAX(longest_s, variants_get(runs, i)->outcome->step_time_s);
  g_autoptr(Stack) stack = stack_new_times(title, longest_s);
  for (guint i = 0; i < runs->len; i++) {
    const Variant *run = variants_get(runs, i);
    g_autofree char *label = label_of(run);
    stack_add(stack, label, run->outcome != NULL ? run->outcome->breakdown_s : NULL);
    if (run->outcome != NULL)
      stack_set_interval(stack, run->outcome->interval.low_s, run->outcome->interval.high_s);
  }
  return stack_picture(stack, columns, error);
}

/* Of all runs where they agree, else 0. */
static double common_capacity(const GArray *runs) {
  double capacity = variants_get(runs, 0)->cluster->gpu.hbm_bytes;
  for (guint i = 1; i < runs->len; i++)
    if (variants_get(runs, i)->cluster->gpu.hbm_bytes != capacity)
      return 0;
  return capacity;
}

Picture *runs_memory_picture(const GArray *runs, const char *title, int columns, GError **error) {
  if (!check_possible(runs, error))
    return NULL;
  g_autoptr(Stack) stack = stack_new_memory(title, common_capacity(runs));
  for (guint i = 0; i < runs->len; i++) {
    const Variant *run = variants_get(runs, i);
    double bytes[N_STACK_MEMORY] = {[N_MEMORY] = run->cluster->gpu.reserved_bytes};
    for (int category = 0; category < N_MEMORY && run->outcome != NULL; category++)
      bytes[category] = run->outcome->memory_bytes[category];
    g_autofree char *label = label_of(run);
    stack_add(stack, label, run->outcome != NULL ? bytes : NULL);
  }
  return stack_picture(stack, columns, error);
}

static double value_of(const PlanOutcome *run, RunValue value) {
  const double all[N_RUN_VALUES] = {
      [RUN_MFU] = run->mfu, [RUN_TOKENS_PER_S] = run->tokens_per_s, [RUN_STEP_TIME] = run->step_time_s};
  return all[value] * values[value].scale;
}

Picture *runs_grid_picture(const GArray *runs, RunValue value, const Grid *look, GError **error) {
  g_assert(runs->len == (guint)(look->n_rows * look->n_columns));
  if (!check_possible(runs, error))
    return NULL;
  g_autofree GridCell *cells = g_new0(GridCell, runs->len);
  for (guint i = 0; i < runs->len; i++) {
    const Variant *run = variants_get(runs, i);
    cells[i].state = run->outcome == NULL ? GRID_CANNOT_BE : run->outcome->fits ? GRID_FITS : GRID_DOES_NOT_FIT;
    cells[i].value = run->outcome == NULL ? 0 : value_of(run->outcome, value);
  }
  Grid grid = *look;
  grid.cells = cells;
  grid.zlabel = values[value].label;
  grid.digits = values[value].digits;
  return grid_picture(&grid, error);
}

Picture *runs_pareto_picture(const GArray *runs, const char *title, GError **error) {
  if (!check_possible(runs, error))
    return NULL;
  g_autofree ParetoPoint *points = g_new0(ParetoPoint, runs->len);
  g_autofree gboolean *fits = g_new0(gboolean, runs->len);
  int n = 0;
  for (guint i = 0; i < runs->len; i++) {
    const Variant *run = variants_get(runs, i);
    if (run->outcome == NULL)
      continue;
    fits[n] = run->outcome->fits;
    const double tokens = run->outcome->tokens_per_s * run->outcome->step_time_s;
    points[n++] = (ParetoPoint){.label = run->label,
                                .x = run->outcome->total_bytes * 1e-9,
                                .y = run->outcome->tokens_per_s,
                                .low = tokens / run->outcome->interval.high_s,
                                .high = tokens / run->outcome->interval.low_s};
  }
  pareto_rank(points, fits, n);
  const ParetoLook look = {.title = title,
                           .xlabel = "memory of the fullest GPU (GB = 1e9 bytes)",
                           .ylabel = "tokens per second",
                           .capacity = common_capacity(runs) * 1e-9};
  return plot_pareto(points, n, &look, error);
}

/* --- state alone ------------------------------------------------------------------------------------------------- */

static gboolean state_of(const Plan *plan, double parameters, RankState *state, GError **error) {
  g_autoptr(Method) method = method_complete(NULL, NULL, plan, error);
  if (method != NULL)
    *state = rank_state(method, &(HeldParameters){.trained = parameters}, method->zero);
  return method != NULL;
}

Picture *runs_state_picture(const GArray *runs, const StateLook *look, GError **error) {
  g_autoptr(Stack) stack = stack_new_memory(look->title, look->capacity_bytes);
  for (guint i = 0; i < runs->len; i++) {
    Variant *run = variants_get(runs, i);
    RankState state = {0};
    if (!state_of(run->plan, look->parameters, &state, &run->problem) &&
        !g_error_matches(run->problem, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE)) {
      g_propagate_error(error, g_steal_pointer(&run->problem));
      return NULL;
    }
    const double bytes[N_STACK_MEMORY] = {[MEMORY_WEIGHTS] = state.on_gpu.weights_bytes,
                                          [MEMORY_GRADIENTS] = state.on_gpu.gradients_bytes,
                                          [MEMORY_OPTIMIZER] = state.on_gpu.optimizer_bytes,
                                          [MEMORY_BUFFERS] = state.made_bytes};
    g_autofree char *label = g_strconcat(run->label, run->problem == NULL ? "" : " (cannot be)", NULL);
    stack_add(stack, label, run->problem == NULL ? bytes : NULL);
  }
  return check_possible(runs, error) ? stack_picture(stack, look->columns, error) : NULL;
}

Picture *runs_state_curves(const GArray *runs, const GArray *gpus, const StateLook *look, LeftOut *left_out,
                           GError **error) {
  g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(GpusPoint));
  for (guint i = 0; i < runs->len * gpus->len; i++) {
    const Variant *run = variants_get(runs, i / gpus->len);
    const gint64 n_gpus = g_array_index(gpus, gint64, i % gpus->len);
    g_autoptr(Plan) plan = vary_size(run->plan, n_gpus, run->plan->global_batch);
    g_autoptr(GError) why = NULL;
    RankState state;
    if (!state_of(plan, look->parameters, &state, &why)) {
      g_ptr_array_add(left_out, g_strdup_printf("%s at %" INT64 " GPUs: %s", run->label, n_gpus, why->message));
      continue;
    }
    const double bytes = state_memory_total(&state.on_gpu) + state.made_bytes;
    const GpusPoint point = {run->label, (int)n_gpus, bytes * 1e-9,
                             look->capacity_bytes <= 0 || bytes <= look->capacity_bytes};
    g_array_append_val(points, point);
  }
  if (points->len == 0) {
    fail_impossible(error, "nothing to draw, no point can be: %s", (char *)g_ptr_array_index(left_out, 0));
    return NULL;
  }
  return plot_state((const GpusPoint *)(void *)points->data, (int)points->len, look->capacity_bytes * 1e-9, look->title,
                    error);
}
