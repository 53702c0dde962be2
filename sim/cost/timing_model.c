/* Each distinct thing is costed once, so a Program's size does not matter:
 *
 *     Workload  piece × phase → items ──kernel_cost, collective_cost──→ TimedList ──┐
 *     Program   works      ──────────────────── timing_of_work ←────────────────────┘ → OpTime
 *               transfers  ── send: worst placement of its two pipeline ranks ───────→ OpTime
 *                          ── collective: worst group on the machine ────────────────→ OpTime
 *
 * A folded run stands for all ranks of a stage, so a transfer takes as long as the worst-placed of them
 * (worst_placement.h). */
#include "timing_model.h"

#include <math.h>

#include "collective_cost.h"
#include "copy_cost.h"
#include "expert_exchange.h"
#include "framework_cost.h"
#include "kernel_cost.h"
#include "transfer_tax.h"
#include "way_load.h"
#include "worst_placement.h"

/* Times are capped at this (292 years / 2^10) so that sums of them stay in 64 bits. */
static const double longest_ns = (double)(G_MAXINT64 >> 10);

/* A distinct matrix product and its time. */
typedef struct {
  WorkItem item;
  double time_s;
  CostSource source;
} Product;

/* A distinct collective of a group of the program, with its collective_cost(). */
typedef struct {
  const GroupShape *shape;
  Axis axis;
  Collective collective;
  double bytes; /* of one call */
  CollectiveCost cost;
} GroupCollective;

/* A distinct collective of an item and its time. */
typedef struct {
  Collective collective;
  AxisSet axes;
  double bytes;
  double time_s, latency_s;
} ItemCollective;

typedef struct {
  const Workload *workload;
  const Cluster *cluster;
  Gpu gpu; /* as the framework reaches it; shares the tables of the cluster's GPU */
  gint64 launch_ns;
  GArray *products;    /* of Product; a few tens: searched linearly */
  GArray *collectives; /* of ItemCollective; a handful, likewise */
  GArray *grouped;     /* of GroupCollective, at most the latest MOST_GROUPED; likewise */
  GArray *ranks;       /* of int: the ranks of pipeline rank 0 that represent all of it */
  GroupShape *shapes;  /* [groups of the program]; owned */
  GroupShape groups[N_ITEM_AXES];
  GroupShape ep_and_tp; /* where items span both; otherwise unset */
  int n_sharing;        /* GPUs of the plan on a node, which share what copies use */
  int block_gpus;       /* a domain, or 1 GPU where a level of the fabric splits domains */
  gboolean tp_meets;    /* transfers of the program use links that tp's collectives use */
} Costing;

/* Rounds up to whole nanoseconds, but ignores the noise of binary sums: 1007 us must not become 1007001 ns. */
static inline gint64 ns_of(double seconds) {
  return (gint64)MIN(ceil(seconds * 1e9 * (1 - 1e-14)), longest_ns);
}

static inline OpTime launched(double run_s, gint64 launch_ns) {
  gint64 run_ns = ns_of(run_s);
  return (OpTime){.run_ns = run_ns, .tail_ns = launch_ns + run_ns, .host_ns = launch_ns};
}

/* The GPUs of a send, for one of the representative ranks. */
typedef struct {
  guint next; /* index into these ranks */
  int from, to;
} SendPlace;

/* --- sends and collectives of a program --- */

/* A collective of a layer, over a group of one axis. */
static CollectiveCost axis_collective(const Costing *costing, Axis axis, Collective collective, const GroupShape *group,
                                      double bytes) {
  const Workload *workload = costing->workload;
  if (axis == AXIS_EP && collective == COLLECTIVE_ALL_TO_ALL && workload->method->dispatches_once)
    return expert_exchange_cost(costing->cluster, &workload->model->experts, group, bytes);
  return collective_cost(costing->cluster, collective, group, bytes, -1);
}

/* The all-gather after a send of parts: the receiver waits for it, but the send has left its ways. */
static double parts_gather_s(const Costing *costing) {
  const GroupShape *group = &costing->groups[AXIS_TP];
  if (!costing->workload->method->splits_stage_tensors)
    return 0;
  const double bytes = group->n * costing->workload->boundary_bytes;
  return collective_cost(costing->cluster, COLLECTIVE_ALL_GATHER, group, bytes, -1).time_s;
}

/* The size in GPUs of the largest blocks within which no level of the fabric distinguishes GPUs. */
static int block_gpus_of(const Cluster *cluster) {
  for (int i = 0; i < cluster_n_levels(cluster); i++)
    if (cluster_level(cluster, i).span_gpus % cluster->domain_gpus != 0)
      return 1;
  return cluster->domain_gpus;
}

/* The next place of a send; FALSE after the last. From one block to another a send costs the same between any two
 * GPUs, so of consecutive such places only the first is returned. */
static gboolean next_place(const Costing *costing, const Transfer *transfer, SendPlace *place) {
  const Layout *layout = &costing->workload->layout;
  const int stride = layout->stride[AXIS_PP], block = costing->block_gpus;
  while (place->next < costing->ranks->len) {
    const SendPlace last = *place;
    const int rank = g_array_index(costing->ranks, int, place->next++);
    place->from = layout_gpu(layout, rank + transfer->source * stride);
    place->to = layout_gpu(layout, rank + transfer->target * stride);
    if (last.next == 0 || last.from / block == last.to / block || place->from / block != last.from / block ||
        place->to / block != last.to / block)
      return TRUE;
  }
  return FALSE;
}

/* Seconds of a send; `load` and `tax` are those of the worst-placed one. */
static double send_s(const Costing *costing, const Transfer *transfer, WayLoad *load, double *tax) {
  const double gather_s = parts_gather_s(costing);
  double worst_s = -1;
  for (SendPlace at = {0}; next_place(costing, transfer, &at);) {
    double time_s = send_cost_s(costing->cluster, at.from, at.to, transfer->bytes);
    if (time_s <= worst_s)
      continue;
    worst_s = time_s;
    load->latency_ns = ns_of(MIN(time_s, send_way_load(costing->cluster, at.from, at.to, load)) + gather_s);
    *tax = send_tax(costing->cluster, at.from, at.to);
  }
  return worst_s + gather_s;
}

/* Whether the group is one of tp without pp. */
static gboolean is_tp_alone(const Group *group) {
  return !group->spans_pp && group->axes == AXIS_BIT(AXIS_TP);
}

/* For collectives made from lists of tensors: the passes over memory on the data they move. */
static double list_passes_s(const Costing *costing, const Transfer *transfer) {
  if (transfer->n_calls == 0)
    return 0;
  return kernel_cost_memory_s(&costing->gpu, costing->workload->method->time.zero3.memory_passes * transfer->bytes);
}

/* A small cache: whether tp's collectives meet others is decided from the same costs before they are timed. */
static CollectiveCost grouped_cost(const Costing *costing, Axis axis, Collective collective, const GroupShape *shape,
                                   double bytes) {
  enum { MOST_GROUPED = 16 };
  GArray *grouped = costing->grouped;
  for (guint i = grouped->len; i-- > 0;) {
    const GroupCollective *known = &g_array_index(grouped, GroupCollective, i);
    if (known->shape == shape && known->axis == axis && known->collective == collective && known->bytes == bytes)
      return known->cost;
  }
  const GroupCollective found = {shape, axis, collective, bytes,
                                 axis_collective(costing, axis, collective, shape, bytes)};
  if (grouped->len == MOST_GROUPED)
    g_array_set_size(grouped, 0);
  g_array_append_val(grouped, found);
  return found.cost;
}

/* Seconds of a collective of the program. Collectives of tp alone use links only in expanded programs, and there only
 * if anything else does (tp_meets); elsewhere their time is part of the kernels'. (With collectives of cp, which may
 * cross nodes beside gradients and activations, a run is always expanded.) */
static double transfer_collective_s(const Costing *costing, const Program *program, const Transfer *transfer,
                                    WayLoad *load, double *tax) {
  const GroupShape *shape = &costing->shapes[transfer->group];
  const Group *group = &g_array_index(program->groups, Group, transfer->group);
  if (group->route != 0) { /* uses no link of another rank; copies of one direction run one after another */
    copy_way_load(costing->cluster, costing->n_sharing, group->route, load);
    return copy_cost_s(costing->cluster, costing->n_sharing, group->route, transfer->bytes);
  }
  const gboolean is_of_experts = transfer->is_item && group->charge == AXIS_EP;
  const Axis axis = is_of_experts || group->axes == AXIS_BIT(AXIS_EP) ? AXIS_EP : N_AXES;
  const int n_calls = MAX(transfer->n_calls, 1);
  CollectiveCost cost = grouped_cost(costing, axis, transfer->collective, shape, transfer->bytes / n_calls);
  if (costing->tp_meets || !is_tp_alone(group))
    collective_way_load(costing->cluster, shape, cost.algorithm == ALGORITHM_DIRECT, load);
  const double time_s = is_tp_alone(group) && transfer->is_item
                            ? framework_collective_s(&costing->workload->method->time, cost.time_s, shape->n)
                            : n_calls * cost.time_s + list_passes_s(costing, transfer);
  load->latency_ns = ns_of(MIN(n_calls * cost.latency_s, time_s));
  *tax = collective_tax(costing->cluster, &cost);
  return time_s;
}

/* A collective that was an item of a piece is issued like one. */
static gint64 transfer_launch_ns(const Costing *costing, const Transfer *transfer) {
  const FrameworkTime *framework = &costing->workload->method->time;
  if (costing->workload->method->cuda_graphs == CUDA_GRAPHS_FULL)
    return 0;
  if (transfer->n_calls > 0)
    return transfer->n_calls *
           (costing->launch_ns + ns_of(framework->zero3.list_entry_s * costing->shapes[transfer->group].n));
  if (transfer->is_item && transfer->piece == PIECE_LAYER && model_has_experts(costing->workload->model) &&
      framework->expert_host.is_stated)
    return ns_of(framework_expert_collective_s(framework, 1e-9 * (double)costing->launch_ns));
  return transfer->is_item && framework->host.is_stated ? ns_of(framework->host.collective_s) : costing->launch_ns;
}

static void time_transfers(const Costing *costing, const Program *program, Timing *timing) {
  timing->n_transfers = (int)program->transfers->len;
  timing->transfers = g_new0(OpTime, timing->n_transfers);
  timing->loads = g_new0(WayLoad, timing->n_transfers + 1); /* non-NULL even without transfers: the loads are known */
  g_autofree double *taxes = g_new0(double, timing->n_transfers);
  for (int i = 0; i < timing->n_transfers; i++) {
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, i);
    WayLoad *load = &timing->loads[i];
    double time_s = transfer->group < 0 ? send_s(costing, transfer, load, &taxes[i])
                                        : transfer_collective_s(costing, program, transfer, load, &taxes[i]);
    timing->transfers[i] = launched(time_s, transfer_launch_ns(costing, transfer));
  }
  timing->taxes = transfer_tax_is_stated(costing->cluster) ? g_steal_pointer(&taxes) : NULL;
}

/* --- whether tp's collectives, which are inside compute ops, share their links with other transfers for long enough to
 * matter --- */

/* Below this share the other transfers are ignored. It compares the time that they take on the links of tp's
 * collectives with the time of the step's products (6 FLOPs per parameter and token) at the GPUs' peak. What either
 * side could lose to the other is less than twice that. */
static const double least_meeting = 0.005;

static gboolean shares_ways(const WayLoad *load, const WayLoad *tp) {
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    if (tp->share[way] > 0 && load->share[way] > 0)
      return TRUE;
  return FALSE;
}

static gboolean send_may_share(const Costing *costing, const Transfer *transfer, const WayLoad *tp) {
  WayLoad load;
  for (SendPlace at = {0}; next_place(costing, transfer, &at);) {
    send_way_load(costing->cluster, at.from, at.to, &load);
    if (shares_ways(&load, tp))
      return TRUE;
  }
  return FALSE;
}

static gboolean collective_may_share(const Costing *costing, const Group *group, const GroupShape *shape,
                                     const WayLoad *tp) {
  for (int direct = 0; direct < 2 && group->route == 0; direct++) {
    WayLoad load = {0};
    collective_way_load(costing->cluster, shape, direct, &load);
    if (shares_ways(&load, tp))
      return TRUE;
  }
  return group->route != 0;
}

/* Whether a transfer uses any way of tp's collectives, in any place and by any algorithm. Usually none does, as tp
 * fills a domain and other transfers leave it; then their time need not be computed. */
static gboolean may_share(const Costing *costing, const Program *program, const Transfer *transfer, const WayLoad *tp) {
  if (transfer->group < 0)
    return send_may_share(costing, transfer, tp);
  return collective_may_share(costing, &g_array_index(program->groups, Group, transfer->group),
                              &costing->shapes[transfer->group], tp);
}

/* What a transfer takes of the ways of tp's collectives, in seconds of a whole way. */
static double taken_of_tp_s(const Costing *costing, const Program *program, const Transfer *transfer,
                            const WayLoad *tp) {
  WayLoad load = {0};
  double time_s, tax;
  if (!may_share(costing, program, transfer, tp))
    return 0;
  if (transfer->group < 0)
    time_s = send_s(costing, transfer, &load, &tax);
  else
    time_s = transfer_collective_s(costing, program, transfer, &load, &tax);
  double taken = 0;
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    if (tp->share[way] > 0)
      taken = MAX(taken, load.share[way]);
  return time_s * taken / TIMING_WHOLE_WAY;
}

static double taken_by_ops_s(const OpList *list, gint32 first, gint32 end, const double *taken_s) {
  double sum_s = 0;
  for (gint32 i = first; i < end; i++)
    if (list->ops[i].kind != OP_COMPUTE && list->ops[i].kind != OP_HOST)
      sum_s += taken_s[list->ops[i].work];
  return sum_s;
}

/* The most of any pipeline rank in a step, with n_more more groups of micro-batches; repeats NULL: none. */
static double busiest_taken_s(const Program *program, const ProgramRepeats *repeats, double n_more,
                              const double *taken_s) {
  double most_s = 0;
  for (int rank = 0; rank < program->n_ranks; rank++) {
    const OpList *list = &program->ranks[rank];
    double sum_s = taken_by_ops_s(list, 0, list->n_ops, taken_s);
    for (int step = 0; repeats != NULL && step < program->n_steps; step++) {
      const RepeatedOps *own = program_repeats_of(repeats, rank, step);
      sum_s += n_more * taken_by_ops_s(list, own->first, own->first + own->n_ops, taken_s);
    }
    most_s = MAX(most_s, sum_s / program->n_steps);
  }
  return most_s;
}

/* Whether other transfers use the links of tp's collectives for long enough that each of these must be simulated.
 * This follows from the plan, not from the form of the Program, so that whole and expanded programs agree. Fills
 * `met`, [transfers]. */
static gboolean meets_tp(const Costing *costing, const Program *program, const ProgramRepeats *repeats, double n_more,
                         gboolean *met) {
  if (costing->groups[AXIS_TP].n < 2)
    return FALSE;
  const Method *method = costing->workload->method;
  const double peak_flops = costing->cluster->gpu.peak_flops[precision_info(method->precision)->linear];
  const double tokens = (double)method->global_batch * (double)method->seq_len;
  const double least_step_s = 6 * model_parameters(costing->workload->model) * tokens / method->gpus / peak_flops;
  const int n = (int)program->transfers->len;
  WayLoad tp;
  collective_way_load(costing->cluster, &costing->groups[AXIS_TP], FALSE, &tp);
  g_autofree double *taken_s = g_new(double, n + 1);
  double sum_s = 0;
  for (int i = 0; i < n; i++) {
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, i);
    const double all_s = taken_of_tp_s(costing, program, transfer, &tp);
    met[i] = !transfer->is_item && all_s > 0;
    const gboolean is_of_tp =
        transfer->group >= 0 && is_tp_alone(&g_array_index(program->groups, Group, transfer->group));
    sum_s += taken_s[i] = is_of_tp ? 0 : all_s;
  }
  return sum_s > 0 && busiest_taken_s(program, repeats, n_more, taken_s) > least_meeting * least_step_s;
}

/* Returns `met` as in timing_model_unless_met(); sets tp_meets. */
static gboolean *look_at_tp(Costing *costing, const Program *program, const ProgramRepeats *repeats, double n_more) {
  g_autofree gboolean *met = g_new(gboolean, program->transfers->len + 1);
  costing->tp_meets = TRUE; /* so that transfers of tp alone count too: they may run beside tp's collectives inside
                               kernels */
  return meets_tp(costing, program, repeats, n_more, met) ? g_steal_pointer(&met) : NULL;
}

/* --- works --- */

static gboolean same_product(const WorkItem *a, const WorkItem *b) {
  return a->number == b->number && a->batch == b->batch && a->m == b->m && a->n == b->n && a->k == b->k &&
         a->layout == b->layout && a->accumulate == b->accumulate && a->bytes == b->bytes &&
         a->behind_bytes == b->behind_bytes;
}

static double product_s(Costing *costing, const WorkItem *item) {
  for (guint i = 0; i < costing->products->len; i++) {
    const Product *known = &g_array_index(costing->products, Product, i);
    if (same_product(&known->item, item))
      return known->time_s;
  }
  Product product = {.item = *item};
  product.time_s = kernel_cost_s(&costing->gpu, item, &product.source);
  g_array_append_val(costing->products, product);
  return product.time_s;
}

static double item_collective_s(Costing *costing, const WorkItem *item, double *latency_s) {
  for (guint i = 0; i < costing->collectives->len; i++) {
    const ItemCollective *known = &g_array_index(costing->collectives, ItemCollective, i);
    if (known->collective == item->collective && known->axes == work_item_axes(item) && known->bytes == item->bytes) {
      *latency_s = known->latency_s;
      return known->time_s;
    }
  }
  const GroupShape *group = item->spans_tp ? &costing->ep_and_tp : &costing->groups[item->axis];
  const CollectiveCost cost = axis_collective(costing, item->axis, item->collective, group, item->bytes);
  const double time_s = item->axis == AXIS_TP
                            ? framework_collective_s(&costing->workload->method->time, cost.time_s, group->n)
                            : cost.time_s;
  ItemCollective found = {item->collective, work_item_axes(item), item->bytes, time_s, MIN(cost.latency_s, time_s)};
  g_array_append_val(costing->collectives, found);
  *latency_s = found.latency_s;
  return time_s;
}

static double item_s(Costing *costing, const WorkItem *item, double *latency_s) {
  *latency_s = 0;
  if (item->kind == ITEM_COLLECTIVE)
    return item_collective_s(costing, item, latency_s);
  if (item->kind == ITEM_MATMUL)
    return product_s(costing, item);
  return kernel_cost_s(&costing->gpu, item, NULL);
}

static void time_list(Costing *costing, Piece piece, Phase phase, TimedList *list) {
  const WorkList *work = &costing->workload->work[piece][phase];
  const Method *method = costing->workload->method;
  const WorkList *again = method->recompute == RECOMPUTE_SELECTIVE ? &costing->workload->work[piece][PHASE_F] : NULL;
  const gboolean is_of_experts =
      piece == PIECE_LAYER && method->time.expert_host.is_stated && model_has_experts(costing->workload->model);
  LaunchTimes launches =
      framework_launches(method, work, again, piece, phase, is_of_experts, costing->gpu.host_launch_s);
  list->n_items = work->n_items;
  list->items = g_new0(TimedItem, work->n_items);
  for (int i = 0; i < work->n_items; i++) {
    const WorkItem *item = &work->items[i];
    double latency_s, time_s = item_s(costing, item, &latency_s);
    list->items[i] = (TimedItem){
        .name = item->name,
        .duration_ns = ns_of(time_s),
        .latency_ns = ns_of(latency_s),
        .launch_ns = framework_replays(method, work, i) ? 0 : ns_of(framework_launch_s(&launches, item)),
        .after = item->after,
        .is_collective = item->kind == ITEM_COLLECTIVE,
        .recompute = item->recompute,
        .axis = item->axis,
    };
  }
  timed_list_finish(list);
}

/* Bytes of gradients read and written per parameter between the last backward and Adam; Adam's own read is part of
 * its item. If Adam uses copies, its item's read counts as that of the copying: what is added here is writing the
 * copies, unscaling them, the passes over them, and Adam's reading them. */
static double update_gradient_bytes(const Method *method) {
  const Recipe *recipe = &method->recipe;
  const double passes = method->time.gradient_passes;
  if (!method->unscales_gradients)
    return recipe->gradients * passes;
  const double unscaled = 2 * recipe->master;
  return 2 * method->copied_gradient_bytes + unscaled + recipe->master * passes;
}

static OpTime time_work(const Costing *costing, const Timing *timing, const Work *work) {
  if (work->phase != PHASE_OPTIMIZER)
    return timing_of_work(timing, work);
  const Method *method = costing->workload->method;
  WorkItem item = workload_optimizer_item(costing->workload, work->parameters);
  if (work->on_host) {
    const gint64 run_ns = ns_of(copy_cost_update_s(costing->cluster, costing->n_sharing, item.bytes));
    return (OpTime){.run_ns = run_ns, .tail_ns = run_ns};
  }
  item.bytes += update_gradient_bytes(method) * work->parameters + method->recipe.gradients * work->passed;
  return launched(kernel_cost_s(&costing->gpu, &item, NULL), costing->launch_ns);
}

static void time_works(const Costing *costing, const Program *program, Timing *timing) {
  timing->n_works = (int)program->works->len;
  timing->works = g_new0(OpTime, timing->n_works);
  for (int i = 0; i < timing->n_works; i++)
    timing->works[i] = time_work(costing, timing, &g_array_index(program->works, Work, i));
}

static void count_products(const GArray *products, Timing *timing) {
  int *counts[N_COST_SOURCES] = {[COST_MODELLED] = &timing->n_modelled,
                                 [COST_INTERPOLATED] = &timing->n_interpolated,
                                 [COST_MEASURED] = &timing->n_measured};
  for (guint i = 0; i < products->len; i++)
    ++*counts[g_array_index(products, Product, i).source];
}

static void costing_init(Costing *costing, const Program *program, const Workload *workload, const Cluster *cluster) {
  const Gpu gpu = measured_cost_gpu(&cluster->gpu, workload->method->framework != NULL);
  *costing = (Costing){
      .workload = workload,
      .cluster = cluster,
      .gpu = framework_gpu(&workload->method->time, &gpu),
      .launch_ns = ns_of(gpu.host_launch_s),
      .products = g_array_new(FALSE, FALSE, sizeof(Product)),
      .collectives = g_array_new(FALSE, FALSE, sizeof(ItemCollective)),
      .grouped = g_array_new(FALSE, FALSE, sizeof(GroupCollective)),
      .ranks = worst_placement_ranks(&workload->layout, cluster),
      .n_sharing = copy_cost_sharing(&workload->layout, cluster),
      .block_gpus = block_gpus_of(cluster),
  };
  costing->shapes = worst_placement_shapes(&workload->layout, cluster, costing->ranks, program);
  for (int axis = 0; axis < N_ITEM_AXES; axis++) /* for a group of one rank only tp's shape is used */
    if (axis == AXIS_TP || layout_group_size(&workload->layout, AXIS_BIT(axis)) > 1)
      costing->groups[axis] = layout_group_shape(&workload->layout, cluster, AXIS_BIT(axis));
  if (workload->method->gathers_tokens && workload->method->ep > 1 && workload->method->expert_tp > 1)
    costing->ep_and_tp = layout_group_shape(&workload->layout, cluster, AXIS_BIT(AXIS_EP) | AXIS_BIT(AXIS_TP));
}

static void costing_clear(Costing *costing) {
  g_array_unref(costing->products);
  g_array_unref(costing->collectives);
  g_array_unref(costing->grouped);
  g_array_unref(costing->ranks);
  g_free(costing->shapes);
}

static Timing *time_program(Costing *costing, const Program *program, gboolean tp_meets) {
  const Workload *workload = costing->workload;
  costing->tp_meets = tp_meets;
  Timing *timing = g_new0(Timing, 1);
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < N_PHASES; phase++)
      time_list(costing, piece, phase, &timing->lists[piece][phase]);
  time_works(costing, program, timing);
  time_transfers(costing, program, timing);
  collective_way_load(costing->cluster, &costing->groups[AXIS_TP], FALSE, &timing->tp);
  /* reading a value back costs the host about as much as issuing a kernel: both are one call into the driver */
  timing->host_sync =
      (OpTime){.run_ns = costing->launch_ns, .tail_ns = costing->launch_ns, .host_ns = costing->launch_ns};
  timing->step_ns = ns_of(workload->method->time.step_s);
  count_products(costing->products, timing);
  return timing;
}

Timing *timing_model_unless_met(const Program *program, const ProgramRepeats *repeats, double n_more,
                                const Workload *workload, const Cluster *cluster, gboolean **met) {
  Costing costing;
  costing_init(&costing, program, workload, cluster);
  *met = workload->method->contention ? look_at_tp(&costing, program, repeats, n_more) : NULL;
  const gboolean is_timed = *met == NULL && program->expansion == EXPANSION_NONE;
  Timing *timing = is_timed ? time_program(&costing, program, FALSE) : NULL;
  costing_clear(&costing);
  return timing;
}

Timing *timing_model_beyond(const Program *program, const ProgramRepeats *repeats, double n_more,
                            const Workload *workload, const Cluster *cluster) {
  Costing costing;
  costing_init(&costing, program, workload, cluster);
  g_autofree gboolean *met =
      program->expansion != EXPANSION_NONE ? look_at_tp(&costing, program, repeats, n_more) : NULL;
  Timing *timing = time_program(&costing, program, met != NULL);
  costing_clear(&costing);
  return timing;
}

Timing *timing_model(const Program *program, const Workload *workload, const Cluster *cluster) {
  return timing_model_beyond(program, NULL, 0, workload, cluster);
}
