/* Costs are durations in a Timing: items inside pieces (kernels and tp collectives), works made of them, transfers.
 * Items are changed first and works summed up from them again, so that a launch-bound step stays one. */
#include "what_if.h"

#include <math.h>
#include <string.h>

#include "mixed_gpus.h"

static const char *const names[N_WHAT_IFS] = {
    [WHAT_IF_FREE_TP] = "no tp communication",           [WHAT_IF_FREE_CP] = "no cp communication",
    [WHAT_IF_FREE_EP] = "no ep communication",           [WHAT_IF_FREE_DP] = "no dp communication",
    [WHAT_IF_FREE_PP] = "no sends between stages",       [WHAT_IF_FREE_LAUNCHES] = "no kernel launches",
    [WHAT_IF_FUSED] = "memory-bound kernels fused away", [WHAT_IF_AT_PEAK] = "products and attention at peak",
    [WHAT_IF_FREE_OPTIMIZER] = "no optimizer",           [WHAT_IF_FREE_OFFLOAD] = "no copies to and from the host",
};

const char *what_if_name(WhatIf what) {
  g_assert(what < N_WHAT_IFS);
  return names[what];
}

static gboolean is_without(guint without, WhatIf what) {
  return (without & (1u << what)) != 0;
}

/* --- durations --- */

static gint64 peak_ns(const Prediction *prediction, const WorkItem *item) {
  double peak_flops = prediction->cluster->gpu.peak_flops[item->number];
  return peak_flops > 0 ? (gint64)ceil(item->flops / peak_flops * 1e9) : G_MAXINT64;
}

static const WhatIf of_axis[N_ITEM_AXES] = {
    [AXIS_TP] = WHAT_IF_FREE_TP, [AXIS_CP] = WHAT_IF_FREE_CP, [AXIS_EP] = WHAT_IF_FREE_EP};

static gint64 item_ns(const Prediction *prediction, const WorkItem *item, gint64 duration_ns, guint without) {
  switch ((ItemKind)item->kind) {
  case ITEM_MATMUL:
  case ITEM_ATTENTION:
    return is_without(without, WHAT_IF_AT_PEAK) ? MIN(duration_ns, peak_ns(prediction, item)) : duration_ns;
  case ITEM_MEMORY:
    return is_without(without, WHAT_IF_FUSED) ? 0 : duration_ns;
  case ITEM_COLLECTIVE:
    return is_without(without, of_axis[item->axis]) ? 0 : duration_ns;
  default:
    return duration_ns;
  }
}

static void change_list(const Prediction *prediction, const WorkList *work, TimedList *list, guint without) {
  for (int i = 0; i < list->n_items; i++) {
    TimedItem *item = &list->items[i];
    item->duration_ns = item_ns(prediction, &work->items[i], item->duration_ns, without);
    item->latency_ns = MIN(item->latency_ns, item->duration_ns);
    if (is_without(without, WHAT_IF_FREE_LAUNCHES))
      item->launch_ns = 0;
  }
  timed_list_finish(list);
}

static OpTime changed(OpTime time, gboolean is_free, gboolean has_no_launch) {
  gint64 run_ns = is_free ? 0 : time.run_ns, host_ns = has_no_launch ? 0 : time.host_ns;
  return (OpTime){.run_ns = run_ns, .tail_ns = host_ns + run_ns, .host_ns = host_ns};
}

/* Optimizer and transfers are one launch and one duration. */
static void change_works(const Program *program, Timing *timing, guint without) {
  for (int i = 0; i < timing->n_works; i++) {
    const Work *work = &g_array_index(program->works, Work, i);
    if (work->phase != PHASE_OPTIMIZER)
      timing->works[i] = timing_of_work(timing, work);
    else
      timing->works[i] = changed(timing->works[i], is_without(without, WHAT_IF_FREE_OPTIMIZER),
                                 is_without(without, WHAT_IF_FREE_LAUNCHES));
  }
}

static gboolean is_free_transfer(const Program *program, const Transfer *transfer, guint without) {
  if (transfer->group < 0)
    return is_without(without, WHAT_IF_FREE_PP);
  const Group *group = &g_array_index(program->groups, Group, transfer->group);
  if (strcmp(group->name, "world") == 0)
    return FALSE; /* the norm of all gradients */
  if (group->route != 0)
    return is_without(without, WHAT_IF_FREE_OFFLOAD);
  switch ((Axis)group->charge) {
  case AXIS_TP:
    return is_without(without, WHAT_IF_FREE_TP);
  case AXIS_CP:
    return is_without(without, WHAT_IF_FREE_CP);
  case AXIS_EP:
    return is_without(without, WHAT_IF_FREE_EP);
  case AXIS_DP:
    return is_without(without, WHAT_IF_FREE_DP);
  case AXIS_PP:
    return is_without(without, WHAT_IF_FREE_PP);
  default:
    return FALSE;
  }
}

static void change_transfers(const Program *program, Timing *timing, guint without) {
  for (int i = 0; i < timing->n_transfers; i++) {
    gboolean is_free = is_free_transfer(program, &g_array_index(program->transfers, Transfer, i), without);
    timing->transfers[i] = changed(timing->transfers[i], is_free, is_without(without, WHAT_IF_FREE_LAUNCHES));
    if (is_free && timing->loads != NULL)
      timing->loads[i] = (WayLoad){0};
  }
}

static Timing *copy_of(const Timing *timing) {
  Timing *copy = g_memdup2(timing, sizeof *timing);
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < N_PHASES; phase++) {
      const TimedList *list = &timing->lists[piece][phase];
      copy->lists[piece][phase].items = g_memdup2(list->items, list->n_items * sizeof *list->items);
    }
  copy->works = g_memdup2(timing->works, timing->n_works * sizeof *timing->works);
  copy->transfers = g_memdup2(timing->transfers, timing->n_transfers * sizeof *timing->transfers);
  copy->loads = g_memdup2(timing->loads, (timing->n_transfers + 1) * sizeof *timing->loads);
  copy->taxes = g_memdup2(timing->taxes, timing->n_transfers * sizeof *timing->taxes);
  return copy;
}

/* Owned by the caller. */
static Timing *timing_without(const Prediction *prediction, guint without) {
  Timing *timing = copy_of(prediction->timing);
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < N_PHASES; phase++)
      change_list(prediction, &prediction->workload->work[piece][phase], &timing->lists[piece][phase], without);
  change_works(prediction->program, timing, without);
  change_transfers(prediction->program, timing, without);
  if (is_without(without, WHAT_IF_FREE_TP))
    timing->tp = (WayLoad){0};
  timing->host_sync = changed(timing->host_sync, FALSE, is_without(without, WHAT_IF_FREE_LAUNCHES));
  if (is_without(without, WHAT_IF_FREE_LAUNCHES))
    timing->host_sync = (OpTime){0}, timing->step_ns = 0;
  return timing;
}

/* --- runs --- */

static double *speeds(const Prediction *prediction) {
  const Workload *workload = prediction->workload;
  const GArray *slow = workload->plan->slow_ranks;
  if (slow->len == 0 && cluster_other_gpus(prediction->cluster, workload->layout.n_ranks) == 0)
    return NULL;
  double *speed = g_new(double, workload->layout.n_ranks);
  for (int rank = 0; rank < workload->layout.n_ranks; rank++)
    speed[rank] = 1;
  mixed_gpus_scale(workload, prediction->cluster, speed);
  for (guint i = 0; i < slow->len; i++)
    speed[g_array_index(slow, SlowRank, i).rank] *= g_array_index(slow, SlowRank, i).factor;
  return speed;
}

Metrics *what_if_run(const Prediction *prediction, guint without) {
  const Plan *plan = prediction->workload->plan;
  g_autofree double *speed = speeds(prediction);
  g_autoptr(Timing) timing = timing_without(prediction, without);
  const Simulation simulation = {.program = prediction->program,
                                 .timing = timing,
                                 .layout = &prediction->workload->layout,
                                 .folded = plan->fold,
                                 .eager_bytes = prediction->cluster->eager_bytes,
                                 .speed = speed,
                                 .jitter = plan->jitter,
                                 .seed = plan->seed,
                                 .contended = plan->contention};
  EngineStats stats;
  g_autoptr(Trace) trace = engine_run(&simulation, &stats);
  return metrics_new(trace);
}

static WhatIfStep step_without(const Prediction *prediction, guint without) {
  g_autoptr(Metrics) metrics = what_if_run(prediction, without);
  WhatIfStep step = {.without = without, .step_ns = metrics->step_ns};
  memcpy(step.breakdown_s, metrics->mean_s, sizeof step.breakdown_s);
  return step;
}

static int by_step(gconstpointer a, gconstpointer b) {
  const WhatIfStep *x = a, *y = b;
  if (x->step_ns != y->step_ns)
    return x->step_ns < y->step_ns ? -1 : 1;
  return (x->without > y->without) - (x->without < y->without);
}

GArray *what_if_each(const Prediction *prediction) {
  GArray *steps = g_array_new(FALSE, FALSE, sizeof(WhatIfStep));
  for (int what = 0; what < N_WHAT_IFS; what++) {
    WhatIfStep step = step_without(prediction, 1u << what);
    if (step.step_ns != prediction->metrics->step_ns)
      g_array_append_val(steps, step);
  }
  g_array_sort(steps, by_step);
  return steps;
}

GArray *what_if_chain(const Prediction *prediction, double least_gain) {
  GArray *steps = g_array_new(FALSE, FALSE, sizeof(WhatIfStep));
  WhatIfStep now = {.step_ns = prediction->metrics->step_ns};
  for (;;) {
    WhatIfStep best = now;
    for (int what = 0; what < N_WHAT_IFS; what++) {
      if (is_without(now.without, (WhatIf)what))
        continue;
      WhatIfStep step = step_without(prediction, now.without | 1u << what);
      if (step.step_ns < best.step_ns)
        best = step;
    }
    if ((double)(now.step_ns - best.step_ns) < least_gain * (double)now.step_ns || best.without == now.without)
      return steps;
    g_array_append_val(steps, best);
    now = best;
  }
}

gint64 what_if_no_bubble_ns(const Metrics *metrics) {
  gint64 most_ns = 0;
  for (int rank = 0; rank < metrics->n_ranks; rank++)
    most_ns = MAX(most_ns, metrics->step_ns - metrics->ranks[rank].ns[BREAKDOWN_BUBBLE]);
  return most_ns;
}
