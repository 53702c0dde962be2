/* The pipeline order a plan asks for: a schedule of the table, one made for its costs (auto), or one read from a file
 * (file:orders.csv). Before a plan is complete it must know its chunks and pipes, which the schedule decides. */
#pragma once
#include "schedules.h"
#include "workload.h"

typedef struct {
  const ScheduleInfo *info; /* NULL: auto, or read */
  Order *read;              /* owned; NULL: not from a file */
} PlanOrder;

/* NULL-terminated: the schedules of the table, and "auto". */
const char *const *plan_order_names(void);

/* What stands there for a name spelled otherwise, 1F1B or zb_h1; any other name is returned as it is. */
const char *plan_order_spelling(const char *name);

/* The file of "file:orders.csv", in the string given; NULL for any other name. */
const char *plan_order_file(const char *schedule);
/* A schedule of the table, or none for auto: choice->info. INPUT for any other name: the valid ones and the nearest. */
gboolean plan_order_find(PlanOrder *choice, const char *name, GError **error);
/* Fill what the schedule decides: plan->schedule, chunks, n_pipes, overlap_p2p and grad_norm_barrier where they were
 * left open. INPUT for an unknown name (the valid ones and the nearest) or a file that cannot be read; IMPOSSIBLE when
 * the file clashes with the plan's pp or chunks. Clear in any case. */
gboolean plan_order_open(PlanOrder *choice, Plan *plan, GError **error);
void plan_order_clear(PlanOrder *choice);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PlanOrder, plan_order_clear)

/* What auto makes an order for: a V on two chunks, else a loop. Owned by the caller. */
Placement *plan_order_auto_placement(int n_ranks, int n_chunks);
/* Open, and plan_complete() with its errors. */
gboolean plan_order_complete(PlanOrder *choice, const Model *model, const Cluster *cluster, Plan *plan, GError **error);
/* Of a plan so completed, the workload where the order places its stages. Owned by the caller. */
Workload *plan_order_place(const PlanOrder *choice, const Model *model, const Plan *plan);
/* Both, one after the other; `cluster` as plan_complete() has it. */
Workload *plan_order_workload(PlanOrder *choice, const Model *model, const Cluster *cluster, Plan *plan,
                              GError **error);
gboolean plan_order_is_auto(const PlanOrder *choice);
/* The order, of a complete plan whose schedule is not auto. Owned by the caller. IMPOSSIBLE as order_new(), or when a
 * file has other counts than the plan. */
Order *plan_order_make(PlanOrder *choice, const Plan *plan, GError **error);
/* Micro-batches of a group of the order's, which its lists run again and again (ScheduleInfo.repeats); 0: they do not.
 */
gint64 plan_order_group(const PlanOrder *choice, const Plan *plan);
