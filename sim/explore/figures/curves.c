/* A point is a run: of a bare order if stages are uniform, else of the plan with one thing replaced. All runs of a
 * figure are prepared first and predicted in parallel; the points are then read off in run order. */
#include "curves.h"

#include <math.h>

#include "error.h"
#include "order_run.h"
#include "sort_doubles.h"
#include "vary.h"

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

/* Mean time of each kind of pass, per rank and micro-batch; a B that is not split counts as I and W in equal parts,
 * which no closed form of a schedule with whole B's tells from other parts. */
static PhaseTimes mean_passes(const Trace *trace) {
  double ns[N_ACTIONS] = {0};
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    const OpList *list = trace_list(trace, rank);
    for (int i = 0; i < list->n_ops; i++) {
      gsize record = trace->first[rank] + (gsize)i;
      if (list->ops[i].kind == OP_COMPUTE && trace->start_ns[record] >= 0)
        ns[list->ops[i].action] += (double)(trace->end_ns[record] - trace->start_ns[record]);
    }
  }
  const Program *program = trace->program;
  double n = (double)trace->n_ranks * program->n_micro_batches * program->n_steps;
  PhaseTimes times = {.f = ns[ACTION_F] / n,
                      .i = (ns[ACTION_I] + 0.5 * ns[ACTION_B]) / n,
                      .w = (ns[ACTION_W] + 0.5 * ns[ACTION_B]) / n};
  times.pair = times.f + times.i + times.w;
  return times;
}

static double closed_form(const Prediction *prediction) {
  const Plan *plan = prediction->workload->plan;
  const ScheduleFacts *schedule = schedule_find(plan->schedule, NULL);
  if (schedule == NULL)
    return NAN;
  const PhaseTimes times = mean_passes(prediction->trace);
  const OrderShape shape = {plan->pp, plan->chunks, (int)plan->n_micro_batches, plan->group};
  const Bubble bubble = schedule_bubble(schedule, shape, &times);
  return bubble.is_exact ? bubble.time / (bubble.time + shape.n_micro_batches * times.pair) : NAN;
}

static void look_at_bubble(gint64 i, const Prediction *prediction, gpointer points) {
  BubblePoint *point = (BubblePoint *)points + i;
  point->simulated = prediction->metrics->bubble_fraction;
  point->closed_form = closed_form(prediction);
}

GArray *curves_bubble_predicted(const BubbleAxes *axes, const Model *model, const Cluster *cluster, const Plan *plan,
                                int n_threads, LeftOut *left_out, GError **error) {
  g_autoptr(GArray) runs = variants_new(), drawn = g_array_new(FALSE, FALSE, sizeof(BubblePoint));
  for (char **name = axes->schedules; *name != NULL; name++) {
    const ScheduleFacts *schedule = schedule_find(*name, error);
    if (schedule == NULL)
      return NULL;
    int chunks = chunks_of(schedule, axes->chunks, axes->pp);
    for (guint i = 0; i < axes->counts->len; i++) {
      const gint64 n = g_array_index(axes->counts, gint64, i);
      Plan *varied = plan_copy(plan);
      plan_set_schedule(varied, *name);
      varied->chunks = chunks;
      varied->global_batch = n * plan->micro_batch * dp_of(plan);
      variants_add(runs, model, cluster, varied)->label = g_strdup(*name);
      const BubblePoint point = {.schedule = series_of(schedule, chunks), .n_micro_batches = (int)n};
      g_array_append_val(drawn, point);
    }
  }
  const VaryHow how = {.n_threads = n_threads, .look = look_at_bubble, .data = drawn->data};
  if (!variants_predict(runs, &how, error))
    return NULL;
  GArray *points = g_array_new(FALSE, FALSE, sizeof(BubblePoint));
  for (guint i = 0; i < runs->len; i++) {
    const Variant *run = variants_get(runs, i);
    const BubblePoint *point = &g_array_index(drawn, BubblePoint, i);
    if (run->problem != NULL)
      leave_out(left_out, run->label, "micro-batches", point->n_micro_batches, run->problem->message);
    else
      g_array_append_val(points, *point);
  }
  return points;
}

/* The runs predicted, a point each under its label. */
static GArray *mfu_points(GArray *runs, int n_threads, LeftOut *left_out, PointWarnings *warnings, GError **error) {
  if (!variants_predict(runs, &(VaryHow){.n_threads = n_threads}, error))
    return NULL;
  GArray *points = g_array_new(FALSE, FALSE, sizeof(GpusPoint));
  for (guint i = 0; i < runs->len; i++) {
    const Variant *run = variants_get(runs, i);
    if (run->problem != NULL) {
      leave_out(left_out, run->label, "GPUs", run->plan->gpus, run->problem->message);
      continue;
    }
    for (guint k = 0; warnings != NULL && k < run->warnings->len; k++)
      g_ptr_array_add(warnings, g_strdup_printf("%s at %d GPUs: %s", run->label, run->plan->gpus,
                                                (const char *)run->warnings->pdata[k]));
    const double mfu = run->outcome->mfu, step_s = run->outcome->step_time_s;
    const Interval *interval = &run->outcome->interval;
    const GpusPoint point = {.series = g_intern_string(run->label),
                             .n_gpus = run->plan->gpus,
                             .value = mfu,
                             .low = mfu * step_s / interval->high_s,
                             .high = mfu * step_s / interval->low_s,
                             .fits = run->outcome->fits};
    g_array_append_val(points, point);
  }
  return points;
}

GArray *curves_mfu(const Model *model, const Cluster *cluster, const Plan *plan, const GArray *gpus, int n_threads,
                   LeftOut *left_out, PointWarnings *warnings, GError **error) {
  gint64 batch = plan->global_batch, most = 1;
  for (guint i = 0; i < gpus->len; i++)
    most = MAX(most, g_array_index(gpus, gint64, i));
  g_autofree char *strong = g_strdup_printf("strong scaling: %" G_GINT64_FORMAT " sequences per step", batch);
  g_autofree char *weak = g_strdup_printf("weak scaling: %.4g sequence%s per step and GPU",
                                          (double)batch / (double)most, batch == most ? "" : "s");
  g_autoptr(GArray) runs = variants_new();
  for (guint i = 0; i < gpus->len; i++)
    variants_add(runs, model, cluster, vary_size(plan, g_array_index(gpus, gint64, i), batch))->label =
        g_strdup(strong);
  for (guint i = 0; i < gpus->len; i++) {
    gint64 n = g_array_index(gpus, gint64, i);
    const gint64 in_proportion = batch / most * n + batch % most * n / most;
    variants_add(runs, model, cluster, vary_size(plan, n, MAX(1, in_proportion)))->label = g_strdup(weak);
  }
  return mfu_points(runs, n_threads, left_out, warnings, error);
}

GArray *curves_strong_scaling(const GArray *lines, const GArray *gpus, int n_threads, LeftOut *left_out,
                              PointWarnings *warnings, GError **error) {
  g_autoptr(GArray) runs = variants_new();
  for (guint i = 0; i < lines->len; i++) {
    const Variant *line = variants_get(lines, i);
    for (guint k = 0; k < gpus->len; k++)
      variants_add(runs, line->model, line->cluster,
                   vary_size(line->plan, g_array_index(gpus, gint64, k), line->plan->global_batch))
          ->label = g_strdup(line->label);
  }
  return mfu_points(runs, n_threads, left_out, warnings, error);
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
