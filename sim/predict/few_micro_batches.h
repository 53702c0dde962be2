/* How many of a step's micro-batches show everything that the others repeat (steady.h). */
#pragma once
#include "workload.h"

/* The number of a complete plan's micro-batches that show everything its order does: with more, a rank only repeats a
 * group of ops more often, and holds no more memory. All of them if the schedule does not alternate in groups. */
gint64 few_micro_batches_of_order(const Method *method);

/* A number of micro-batches worth trying, provided that it saves enough if it suffices. */
typedef struct {
  gint64 n;
  double least_spared; /* as a share of all micro-batches */
} FewMicroBatches;
enum { MOST_TRIES_WITH_FEW = 3 };
/* Fills in the tries in order and returns their number. `group`: as from method_group(), not 0. */
int few_micro_batches_to_try(gint64 group, const Workload *workload, FewMicroBatches tries[MOST_TRIES_WITH_FEW]);
