/* A point is a run: of a bare order if stages are uniform, else of the plan with one thing replaced. All runs of a
 * figure are prepared first and predicted in parallel; the points are then read off in run order. */
#include "curves.h"

#include <math.h>

#include "error.h"
#include "many_runs.h"
#include "order_run.h"
#include "sort_doubles.h"

static void leave_out(LeftOut *left_out, const char *series, const char *at, gint64 value, const char *why) {
  g_ptr_array_add(left_out, g_strdup_printf("%s at %" G_GINT64_FORMAT " %s: %s", series, value, at, why));
}

/* 0: the schedule's default. */
static int chunks_of(const ScheduleFacts *schedule, int chunks, int n_ranks) {
  if (chunks == 0)
    return schedule_default_chunks(schedule, n_ranks);
  return CLAMP(chunks, schedule->least_chunks, schedule->most_chunks);
}

/* Lives for ever: there are few. */
static const char *series_of(const ScheduleFacts *schedule, int chunks) {
  g_autofree char *name = chunks > 1 ? g_strdup_printf("%s, %d chunks", schedule->name, chunks) : NULL;
  return name != NULL ? g_intern_string(name) : schedule->name;
}

/* Uniform stages, the backward twice the forward, as in a transformer without recomputation. */
static gboolean uniform_point(const ScheduleFacts *schedule, OrderShape shape, BubblePoint *point, GError **error) {
  const double whole_ns = 1000.0 * shape.n_chunks; /* for every chunk too */
  const StageTimes times = {whole_ns, whole_ns, whole_ns};
  g_autoptr(Order) order = order_new(schedule, shape, error);
  g_autoptr(OrderRun) run = order != NULL ? order_run_new(order, &times, 1, NULL, NULL, error) : NULL;
  if (run == NULL)
    return FALSE;
  const double work = times.f_ns + times.i_ns + times.w_ns;
  const PhaseTimes phases = {times.f_ns, times.i_ns, times.w_ns, work};
  const Bubble bubble = schedule_bubble(schedule, shape, &phases);
  *point =
      (BubblePoint){.schedule = series_of(schedule, shape.n_chunks),
                    .n_micro_batches = shape.n_micro_batches,
                    .simulated = order_run_bubble_fraction(run),
                    .closed_form = bubble.is_exact ? bubble.time / (bubble.time + shape.n_micro_batches * work) : NAN};
  return TRUE;
}

static gboolean add_uniform(const BubbleAxes *axes, const ScheduleFacts *schedule, GArray *points, LeftOut *left_out,
                            GError **error) {
  for (guint i = 0; i < axes->counts->len; i++) {
    gint64 n = g_array_index(axes->counts, gint64, i);
    if (!order_run_check_size(axes->pp, MAX(axes->chunks, 1), n, 1, error))
      return FALSE;
    const OrderShape shape = {axes->pp, chunks_of(schedule, axes->chunks, axes->pp), (int)n, 0};
    g_autoptr(GError) problem = NULL;
    BubblePoint point;
    if (uniform_point(schedule, shape, &point, &problem)) {
      g_array_append_val(points, point);
    } else if (g_error_matches(problem, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE)) {
      leave_out(left_out, schedule->name, "micro-batches", n, problem->message);
    } else {
      g_propagate_error(error, g_steal_pointer(&problem));
      return FALSE;
    }
  }
  return TRUE;
}

GArray *curves_bubble(const BubbleAxes *axes, LeftOut *left_out, GError **error) {
  g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(BubblePoint));
  for (char **name = axes->schedules; *name != NULL; name++) {
    const ScheduleFacts *schedule = schedule_find(*name, error);
    if (schedule == NULL || !add_uniform(axes, schedule, points, left_out, error))
      return NULL;
  }
  return g_steal_pointer(&points);
}

/* Until the plan is complete its dp may be open: what is left of its GPUs. */
static gint64 dp_of(const Plan *plan) {
  gint64 others = (gint64)plan->tp * plan->cp * plan->ep * plan->pp;
  return plan->dp > 0 ? plan->dp : MAX(1, plan->gpus / MAX(others, 1));
}

GArray *curves_bubble_predicted(const BubbleAxes *axes, const Model *model, const Cluster *cluster, const Plan *plan,
                                int n_threads, LeftOut *left_out, GError **error) {
  g_autoptr(GArray) runs = many_runs_new();
  g_autoptr(GPtrArray) series = g_ptr_array_new();
  for (char **name = axes->schedules; *name != NULL; name++) {
    const ScheduleFacts *schedule = schedule_find(*name, error);
    if (schedule == NULL)
      return NULL;
    int chunks = chunks_of(schedule, axes->chunks, axes->pp);
    for (guint i = 0; i < axes->counts->len; i++) {
      Plan *varied = plan_copy(plan);
      plan_set_schedule(varied, *name);
      varied->chunks = chunks;
      varied->global_batch = g_array_index(axes->counts, gint64, i) * plan->micro_batch * dp_of(plan);
      many_runs_add(runs, *name, model, cluster, varied);
      g_ptr_array_add(series, (gpointer)series_of(schedule, chunks));
    }
  }
  if (!many_runs_predict(runs, n_threads, error))
    return NULL;
  GArray *points = g_array_new(FALSE, FALSE, sizeof(BubblePoint));
  for (guint i = 0; i < runs->len; i++) {
    const ManyRun *run = many_runs_get(runs, i);
    gint64 n = g_array_index(axes->counts, gint64, i % axes->counts->len);
    BubblePoint point = {g_ptr_array_index(series, i), (int)n, run->bubble_fraction, run->closed_form_bubble};
    if (run->problem != NULL)
      leave_out(left_out, run->label, "micro-batches", n, run->problem);
    else
      g_array_append_val(points, point);
  }
  return points;
}

static Plan *sized(const Plan *plan, int gpus, gint64 global_batch) {
  Plan *varied = plan_copy(plan);
  varied->gpus = gpus;
  varied->dp = 0;
  varied->global_batch = global_batch;
  return varied;
}

/* The runs predicted, a point each under its label. */
static GArray *mfu_points(GArray *runs, int n_threads, LeftOut *left_out, GError **error) {
  if (!many_runs_predict(runs, n_threads, error))
    return NULL;
  GArray *points = g_array_new(FALSE, FALSE, sizeof(MfuPoint));
  for (guint i = 0; i < runs->len; i++) {
    const ManyRun *run = many_runs_get(runs, i);
    MfuPoint point = {g_intern_string(run->label), run->plan->gpus, run->mfu, run->fits};
    if (run->problem != NULL)
      leave_out(left_out, run->label, "GPUs", run->plan->gpus, run->problem);
    else
      g_array_append_val(points, point);
  }
  return points;
}

GArray *curves_mfu(const Model *model, const Cluster *cluster, const Plan *plan, const GArray *gpus, int n_threads,
                   LeftOut *left_out, GError **error) {
  gint64 batch = plan->global_batch, most = 1;
  for (guint i = 0; i < gpus->len; i++)
    most = MAX(most, g_array_index(gpus, gint64, i));
  g_autofree char *strong = g_strdup_printf("strong scaling: %" G_GINT64_FORMAT " sequences per step", batch);
  g_autofree char *weak = g_strdup_printf("weak scaling: %.4g sequence%s per step and GPU",
                                          (double)batch / (double)most, batch == most ? "" : "s");
  g_autoptr(GArray) runs = many_runs_new();
  for (guint i = 0; i < gpus->len; i++)
    many_runs_add(runs, strong, model, cluster, sized(plan, (int)g_array_index(gpus, gint64, i), batch));
  for (guint i = 0; i < gpus->len; i++) {
    gint64 n = g_array_index(gpus, gint64, i);
    const gint64 in_proportion = batch / most * n + batch % most * n / most;
    many_runs_add(runs, weak, model, cluster, sized(plan, (int)n, MAX(1, in_proportion)));
  }
  return mfu_points(runs, n_threads, left_out, error);
}

GArray *curves_strong_scaling(const GArray *lines, const GArray *gpus, int n_threads, LeftOut *left_out,
                              GError **error) {
  g_autoptr(GArray) runs = many_runs_new();
  for (guint i = 0; i < lines->len; i++) {
    const ManyRun *line = many_runs_get(lines, i);
    for (guint k = 0; k < gpus->len; k++)
      many_runs_add(runs, line->label, line->model, line->cluster,
                    sized(line->plan, (int)g_array_index(gpus, gint64, k), line->plan->global_batch));
  }
  return mfu_points(runs, n_threads, left_out, error);
}

static void add_busbw(GArray *points, const Cluster *cluster, Collective op, const GroupShape *shape, int algorithm,
                      const GArray *sizes) {
  for (guint i = 0; i < sizes->len; i++) {
    double bytes = g_array_index(sizes, double, i);
    CollectiveCost cost = collective_cost(cluster, op, shape, bytes, algorithm);
    BusbwPoint point = {algorithm < 0 ? "the library's choice" : algorithm_names()[algorithm], bytes, cost.busbw_Bps};
    if (bytes > 0)
      g_array_append_val(points, point);
  }
}

GArray *curves_busbw(const Cluster *cluster, Collective op, const GroupShape *shape, int algorithm,
                     const GArray *sizes) {
  g_autoptr(GArray) sorted = g_array_copy((GArray *)sizes);
  sort_doubles((double *)(gpointer)sorted->data, sorted->len);
  GArray *points = g_array_new(FALSE, FALSE, sizeof(BusbwPoint));
  add_busbw(points, cluster, op, shape, algorithm, sorted);
  for (int a = 0; a <= ALGORITHM_DIRECT && algorithm < 0; a++)
    if (collective_algorithm_exists(cluster, op, shape, (Algorithm)a))
      add_busbw(points, cluster, op, shape, a, sorted);
  return points;
}

double curves_busbw_limit(const Cluster *cluster, Collective op, const GroupShape *shape) {
  gboolean has_ring = (collective_algorithms(op) & 1u << ALGORITHM_RING) != 0;
  return has_ring ? collective_bus_Bps(cluster, shape, NULL) : 0;
}
