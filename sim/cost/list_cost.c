#include "list_cost.h"

#include "kernel_cost.h"

/* A product's time depends neither on what it is called nor on what is around it. */
static ProductCost *product_cost(Costs *costs, const Machine *machine, const WorkItem *item) {
  struct {
    gsize of;
    const Machine *machine;
    WorkItem item;
  } key = {COST_OF_PRODUCT, machine, *item};
  key.item.name = NULL;
  key.item.n_launches = 0;
  key.item.recompute = key.item.mtp = key.item.host_waits = 0;
  key.item.after = 0;
  gboolean is_new;
  ProductCost *product = costs_at(costs, (CostKey){&key, sizeof key}, sizeof *product, &is_new);
  if (is_new) {
    product->counted = 0;
    product->time_s = kernel_cost_s(&machine->gpu, &key.item, &product->source);
  }
  return product;
}

static double collective_s(Costs *costs, const ItemGroups *groups, const WorkItem *item, double *latency_s) {
  const GroupShape *shape = item->spans_tp ? &groups->ep_and_tp : &groups->of_axis[item->axis];
  const CollectiveCost cost = site_collective(costs, groups, item->axis, item->collective, shape, item->bytes);
  const double time_s =
      item->axis == AXIS_TP ? framework_collective_s(groups->machine->time, cost.time_s, shape->n) : cost.time_s;
  *latency_s = MIN(cost.latency_s, time_s);
  return time_s;
}

static double item_s(Costs *costs, const ItemGroups *groups, const WorkItem *item, ListCost *list, double *latency_s) {
  *latency_s = 0;
  if (item->kind == ITEM_COLLECTIVE)
    return collective_s(costs, groups, item, latency_s);
  if (item->kind != ITEM_MATMUL)
    return kernel_cost_s(&groups->machine->gpu, item, NULL);
  list->products[list->n_products] = product_cost(costs, groups->machine, item);
  return list->products[list->n_products++]->time_s;
}

static void time_items(Costs *costs, const ItemGroups *groups, const LaunchTimes *launches, CudaGraphs graphs,
                       const WorkList *work, ListCost *cost) {
  *cost = (ListCost){
      .list = {.items = costs_alloc(costs, (gsize)work->n_items * sizeof(TimedItem)), .n_items = work->n_items},
      .products = costs_alloc(costs, (gsize)work->n_items * sizeof(ProductCost *))};
  for (int i = 0; i < work->n_items; i++) {
    const WorkItem *item = &work->items[i];
    double latency_s, time_s = item_s(costs, groups, item, cost, &latency_s);
    cost->list.items[i] = (TimedItem){
        .name = item->name,
        .duration_ns = site_ns(time_s),
        .latency_ns = site_ns(latency_s),
        .launch_ns = framework_replays(graphs, work, i) ? 0 : site_ns(framework_launch_s(launches, item)),
        .after = item->after,
        .is_collective = item->kind == ITEM_COLLECTIVE,
        .recompute = item->recompute,
        .axis = item->axis,
    };
  }
  timed_list_finish(&cost->list);
}

const ListCost *list_cost(Costs *costs, const ItemGroups *groups, const LaunchTimes *launches, CudaGraphs graphs,
                          const WorkItem *items, int n_items) {
  const struct {
    gsize of;
    const ItemGroups *groups;
    LaunchTimes launches;
    gsize graphs;
  } key = {COST_OF_LIST, groups, *launches, graphs};
  gboolean is_new;
  const CostKey all = {&key, sizeof key, items, (gsize)n_items * sizeof *items};
  ListCost *cost = costs_at(costs, all, sizeof *cost, &is_new);
  if (is_new)
    time_items(costs, groups, launches, graphs, &(WorkList){.items = (WorkItem *)items, .n_items = n_items}, cost);
  return cost;
}
