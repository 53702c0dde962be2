/* What the items of a piece's phase cost. */
#pragma once
#include "framework_cost.h"
#include "site.h"

/* A distinct matrix product: one with equal bytes and everything else that its time depends on. */
typedef struct {
  double time_s;
  CostSource source;
  gint64 counted; /* the number of the latest Timing that it was counted in (costs_begin()) */
} ProductCost;

typedef struct {
  TimedList list;         /* finished */
  ProductCost **products; /* of its items; some may be the same */
  int n_products;
} ListCost;

/* Valid as what costs_at() returns. */
const ListCost *list_cost(Costs *costs, const ItemGroups *groups, const LaunchTimes *launches, CudaGraphs graphs,
                          const WorkItem *items, int n_items);
