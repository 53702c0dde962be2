/* Each distinct thing is costed once, so a Program's size does not matter:
 *
 *     Workload  piece × phase → items ──kernel_cost, collective_cost──→ TimedList ──┐
 *     Program   works      ──────────────────── timing_of_work ←────────────────────┘ → OpTime
 *               transfers  ── send: worst placement of its two pipeline ranks ───────→ OpTime
 *                          ── collective: worst group on the machine ────────────────→ OpTime
 *
 * A folded run stands for all ranks of a stage, so a transfer takes as long as the worst-placed of them
 * (worst_placement.h). */
#include "costing.h"

#include "copy_cost.h"
#include "framework_cost.h"
#include "worst_placement.h"

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
  const CollectiveCost cost = costing_collective(costing, item->axis, item->collective, group, item->bytes);
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
      .block_gpus = costing_block_gpus(cluster),
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
  costing_time_transfers(costing, program, timing);
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
  *met = workload->method->contention ? costing_look_at_tp(&costing, program, repeats, n_more) : NULL;
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
      program->expansion != EXPANSION_NONE ? costing_look_at_tp(&costing, program, repeats, n_more) : NULL;
  Timing *timing = time_program(&costing, program, met != NULL);
  costing_clear(&costing);
  return timing;
}

Timing *timing_model(const Program *program, const Workload *workload, const Cluster *cluster) {
  return timing_model_beyond(program, NULL, 0, workload, cluster);
}
