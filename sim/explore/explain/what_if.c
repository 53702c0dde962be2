/* Costs are durations in a Timing: items inside pieces (kernels and tp collectives), works made of them, transfers.
 * Items are changed first and works summed up from them again, so that a launch-bound step stays one. */
#include "what_if.h"

#include <math.h>
#include <string.h>

#include "plan_run.h"
#include "vary.h"

static const struct {
  const char *away, *cost;
} names[N_WHAT_IFS] = {
    [WHAT_IF_FREE_TP] = {"no tp communication", "tp communication"},
    [WHAT_IF_FREE_CP] = {"no cp communication", "cp communication"},
    [WHAT_IF_FREE_EP] = {"no ep communication", "ep communication"},
    [WHAT_IF_FREE_DP] = {"no dp communication", "dp communication"},
    [WHAT_IF_FREE_PP] = {"no sends between stages", "sends between stages"},
    [WHAT_IF_FREE_LAUNCHES] = {"no kernel launches", "kernel launches"},
    [WHAT_IF_FUSED] = {"memory-bound kernels fused away", "memory-bound kernels"},
    [WHAT_IF_AT_PEAK] = {"products and attention at peak", "products and attention"},
    [WHAT_IF_FREE_OPTIMIZER] = {"no optimizer", "optimizer"},
    [WHAT_IF_FREE_OFFLOAD] = {"no copies to and from the host", "copies to and from the host"},
};

const char *what_if_name(WhatIf what) {
  g_assert(what < N_WHAT_IFS);
  return names[what].away;
}

const char *what_if_cost_name(WhatIf what) {
  g_assert(what < N_WHAT_IFS);
  return names[what].cost;
}

/* Some costs take so many times as long; 0: they are away. */
typedef struct {
  guint of; /* bits 1 << WhatIf */
  double times;
} Change;

static double times_of(const Change *change, WhatIf what) {
  return (change->of & (1u << what)) != 0 ? change->times : 1;
}

static gint64 scaled(gint64 duration_ns, double times) {
  return times == 1 ? duration_ns : (gint64)ceil((double)duration_ns * times);
}

/* --- durations --- */

static gint64 peak_ns(const Prediction *prediction, const WorkItem *item) {
  double peak_flops = prediction->cluster->gpu.peak_flops[item->number];
  return peak_flops > 0 ? (gint64)ceil(item->flops / peak_flops * 1e9) : G_MAXINT64;
}

static const WhatIf of_axis[N_ITEM_AXES] = {
    [AXIS_TP] = WHAT_IF_FREE_TP, [AXIS_CP] = WHAT_IF_FREE_CP, [AXIS_EP] = WHAT_IF_FREE_EP};

static gint64 item_ns(const Prediction *prediction, const WorkItem *item, gint64 duration_ns, const Change *change) {
  switch ((ItemKind)item->kind) {
  case ITEM_MATMUL:
  case ITEM_ATTENTION:
    if (times_of(change, WHAT_IF_AT_PEAK) == 0)
      return MIN(duration_ns, peak_ns(prediction, item));
    return scaled(duration_ns, times_of(change, WHAT_IF_AT_PEAK));
  case ITEM_MEMORY:
    return scaled(duration_ns, times_of(change, WHAT_IF_FUSED));
  case ITEM_COLLECTIVE:
    return scaled(duration_ns, times_of(change, of_axis[item->axis]));
  default:
    return duration_ns;
  }
}

static void change_list(const Prediction *prediction, const WorkList *work, TimedList *list, const Change *change) {
  for (int i = 0; i < list->n_items; i++) {
    TimedItem *item = &list->items[i];
    item->duration_ns = item_ns(prediction, &work->items[i], item->duration_ns, change);
    item->latency_ns = MIN(item->latency_ns, item->duration_ns);
    item->launch_ns = scaled(item->launch_ns, times_of(change, WHAT_IF_FREE_LAUNCHES));
  }
  timed_list_finish(list);
}

static OpTime changed(OpTime time, double run_times, double host_times) {
  gint64 run_ns = scaled(time.run_ns, run_times), host_ns = scaled(time.host_ns, host_times);
  return (OpTime){.run_ns = run_ns, .tail_ns = host_ns + run_ns, .host_ns = host_ns};
}

/* Optimizer and transfers are one launch and one duration. */
static void change_works(const Program *program, Timing *timing, const Change *change) {
  for (int i = 0; i < timing->n_works; i++) {
    const Work *work = &g_array_index(program->works, Work, i);
    if (work->phase != PHASE_OPTIMIZER)
      timing->works[i] = timing_of_work(timing, work);
    else
      timing->works[i] =
          changed(timing->works[i], times_of(change, WHAT_IF_FREE_OPTIMIZER), times_of(change, WHAT_IF_FREE_LAUNCHES));
  }
}

static double transfer_times(const Program *program, const Transfer *transfer, const Change *change) {
  if (transfer->group < 0)
    return times_of(change, WHAT_IF_FREE_PP);
  const Group *group = &g_array_index(program->groups, Group, transfer->group);
  if (strcmp(group->name, "world") == 0)
    return 1; /* the norm of all gradients */
  if (group->route != 0)
    return times_of(change, WHAT_IF_FREE_OFFLOAD);
  switch ((Axis)group->charge) {
  case AXIS_TP:
    return times_of(change, WHAT_IF_FREE_TP);
  case AXIS_CP:
    return times_of(change, WHAT_IF_FREE_CP);
  case AXIS_EP:
    return times_of(change, WHAT_IF_FREE_EP);
  case AXIS_DP:
    return times_of(change, WHAT_IF_FREE_DP);
  case AXIS_PP:
    return times_of(change, WHAT_IF_FREE_PP);
  default:
    return 1;
  }
}

static void change_transfers(const Program *program, Timing *timing, const Change *change) {
  for (int i = 0; i < timing->n_transfers; i++) {
    const double times = transfer_times(program, &g_array_index(program->transfers, Transfer, i), change);
    timing->transfers[i] = changed(timing->transfers[i], times, times_of(change, WHAT_IF_FREE_LAUNCHES));
    if (times == 0 && timing->loads != NULL)
      timing->loads[i] = (WayLoad){0};
  }
}

static Timing *copy_of(const Timing *timing) {
  Timing *copy = g_memdup2(timing, sizeof *timing);
  gsize n_items = 0;
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < N_PHASES; phase++)
      n_items += (gsize)timing->lists[piece][phase].n_items;
  copy->items = g_memdup2(timing->items, n_items * sizeof *timing->items);
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < N_PHASES; phase++)
      if (timing->lists[piece][phase].items != NULL)
        copy->lists[piece][phase].items = copy->items + (timing->lists[piece][phase].items - timing->items);
  copy->works = g_memdup2(timing->works, timing->n_works * sizeof *timing->works);
  copy->transfers = g_memdup2(timing->transfers, timing->n_transfers * sizeof *timing->transfers);
  copy->loads = g_memdup2(timing->loads, (timing->n_transfers + 1) * sizeof *timing->loads);
  copy->taxes = g_memdup2(timing->taxes, timing->n_transfers * sizeof *timing->taxes);
  copy->server_routes = g_memdup2(timing->server_routes, timing->n_transfers * sizeof *timing->server_routes);
  copy->kernels_ns = g_memdup2(timing->kernels_ns, timing->n_transfers * sizeof *timing->kernels_ns);
  return copy;
}

/* Owned by the caller. */
static Timing *changed_timing(const Prediction *prediction, const Change *change) {
  Timing *timing = copy_of(prediction->timing);
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < N_PHASES; phase++)
      change_list(prediction, &prediction->workload->work[piece][phase], &timing->lists[piece][phase], change);
  change_works(prediction->program, timing, change);
  change_transfers(prediction->program, timing, change);
  if (times_of(change, WHAT_IF_FREE_TP) == 0)
    timing->tp = (WayLoad){0};
  const double launches = times_of(change, WHAT_IF_FREE_LAUNCHES);
  timing->host_sync = changed(timing->host_sync, launches, launches);
  timing->step_ns = scaled(timing->step_ns, launches);
  return timing;
}

/* --- runs --- */

/* `speed` as Simulation has it; may be NULL. */
static Metrics *run(const Prediction *prediction, const Change *change, const double *speed) {
  const Plan *plan = prediction->workload->plan;
  g_autoptr(Timing) timing = changed_timing(prediction, change);
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
  return plan_run_metrics(prediction->workload->method, trace);
}

Metrics *what_if_times(const Prediction *prediction, guint of, double times) {
  g_autofree double *speed = plan_run_speeds(prediction->workload, prediction->cluster);
  return run(prediction, &(Change){of, times}, speed);
}

Metrics *what_if_slow_rank(const Prediction *prediction, int rank, double times) {
  g_assert(!prediction->workload->plan->fold);
  g_autofree double *speed = plan_run_speeds(prediction->workload, prediction->cluster);
  if (speed == NULL) {
    speed = g_new(double, prediction->workload->layout.n_ranks);
    for (int i = 0; i < prediction->workload->layout.n_ranks; i++)
      speed[i] = 1;
  }
  speed[rank] *= times;
  return run(prediction, &(Change){0, 1}, speed);
}

static WhatIfStep step_without(const Prediction *prediction, guint without) {
  g_autoptr(Metrics) metrics = what_if_times(prediction, without, 0);
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
      if ((now.without & (1u << what)) != 0)
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

/* --- faster parts --- */

/* A part made faster; FALSE: nothing would follow from that. `of_pcie`: its name where GPUs of a node meet over PCIe.
 */
typedef struct {
  const char *what, *of_pcie;
  gboolean (*quicken)(Cluster *cluster);
} Part;

static gboolean has_known_links(const Cluster *cluster) {
  return cluster->measured == NULL && cluster->fitted == NULL;
}

static gboolean quicken_nics(Cluster *cluster) {
  cluster->nic_Bps *= FASTER_TIMES;
  return has_known_links(cluster) && cluster->nics_per_node > 0;
}

static gboolean quicken_scale_up(Cluster *cluster) {
  cluster->scale_up_Bps *= FASTER_TIMES;
  return has_known_links(cluster) && cluster->domain_gpus > 1;
}

static gboolean quicken_memory(Cluster *cluster) {
  cluster->gpu.hbm_Bps *= FASTER_TIMES;
  return cluster->gpu.measured == NULL;
}

static gboolean quicken_products(Cluster *cluster) {
  for (int number = 0; number < N_NUMBERS; number++)
    cluster->gpu.peak_flops[number] *= FASTER_TIMES;
  return cluster->gpu.measured == NULL;
}

static const Part parts[] = {
    {"NICs and their slots twice as fast", NULL, quicken_nics},
    {"scale-up links twice as fast", "a node's PCIe twice as fast", quicken_scale_up},
    {"GPU memory twice as fast", NULL, quicken_memory},
    {"matrix units twice as fast", NULL, quicken_products},
};

GArray *faster_hardware_new(const Prediction *prediction, const Plan *plan, int n_threads) {
  GArray *steps = g_array_new(FALSE, FALSE, sizeof(FasterStep));
  const Workload *workload = prediction->workload;
  g_autoptr(GArray) variants = variants_new();
  g_autoptr(GPtrArray) clusters = g_ptr_array_new_with_free_func((GDestroyNotify)cluster_free);
  for (gsize i = 0; i < G_N_ELEMENTS(parts); i++) {
    Cluster *cluster = cluster_read(prediction->cluster->file, NULL);
    g_ptr_array_add(clusters, cluster);
    if (cluster == NULL || !parts[i].quicken(cluster))
      continue;
    Plan *same = plan_copy(plan);
    same->gpus = workload->plan->gpus;
    same->global_batch = workload->plan->global_batch;
    const gboolean is_pcie = cluster->scale_up == SCALE_UP_PCIE && parts[i].of_pcie != NULL;
    variants_add(variants, workload->model, cluster, same)->option = is_pcie ? parts[i].of_pcie : parts[i].what;
  }
  variants_predict(variants, &(VaryHow){.n_threads = n_threads}, NULL);
  for (guint i = 0; i < variants->len; i++) {
    const Variant *faster = variants_get(variants, i);
    const FasterStep step = {faster->option, faster->outcome != NULL ? faster->outcome->step_time_s : 0};
    if (faster->outcome != NULL && step.step_time_s != prediction->step_time_s)
      g_array_append_val(steps, step);
  }
  return steps;
}
