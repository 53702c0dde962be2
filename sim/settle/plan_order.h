/* The pipeline order that a plan asks for: a schedule of the table, one searched for its costs (auto), or one read
 * from a file (file:orders.csv). The schedule decides chunks and pipes, which plan_complete() needs to know. */
#pragma once
#include "plan.h"
#include "schedules.h"
#include "workload.h"

typedef struct {
  const ScheduleFacts *info; /* NULL: auto, or read from a file */
  Order *read;               /* owned; NULL: not from a file */
} PlanOrder;

/* Sets choice->info to a schedule of the table, NULL for auto. INPUT for any other name: the valid ones and the
 * nearest. */
gboolean plan_order_find(PlanOrder *choice, const char *name, GError **error);
/* Fills in what the schedule decides: n_pipes, and plan->schedule, chunks, overlap_p2p and grad_norm_barrier where
 * left open. INPUT for an unknown name (the valid ones and the nearest) or an unreadable file; IMPOSSIBLE if the
 * schedule does not allow the plan's chunks, if a pipeline of one rank has several (only an order from a file says what
 * those would be), or if the file contradicts the plan's pp or chunks. Clear `choice` in any case. */
gboolean plan_order_open(PlanOrder *choice, Plan *plan, GError **error);
/* IMPOSSIBLE when the plan, of a model with experts, asks for forwards and backwards that take turns and its schedule
 * has none, or the reverse. Checks only what was asked for; a framework's default has no effect if there are no such
 * pairs. */
gboolean plan_order_check_turns(const Plan *plan, GError **error);
/* What a plan may be run as: of Plan; owned by the caller. A plan whose schedule is not auto: itself. Auto's have gone
 * through plan_order_open(). In this order:
 *
 *     auto           the order to be made, on the plan's chunks or, if these are left open, on one and on two
 *     1f1b …         each schedule of the table that allows the plan's chunks, else on its own default; as it runs under
 *                    its own name, and where auto decides otherwise about sends and the gradient norm, also like that */
GPtrArray *plan_order_candidates(const Plan *plan);
void plan_order_clear(PlanOrder *choice);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PlanOrder, plan_order_clear)

enum { AUTO_CHUNKS = 2 }; /* where chunks are left open, auto makes an order of one per rank, and one of so many */
/* The placement that auto searches an order for: a V with two chunks, else a loop. Owned by the caller. */
Placement *plan_order_auto_placement(int n_ranks, int n_chunks);
/* plan_order_open(), then plan_complete(), with the errors of both. */
gboolean plan_order_complete(PlanOrder *choice, const Model *model, const Cluster *cluster, Plan *plan, GError **error);
/* For a plan completed this way: the workload, with stages placed as the order places them. Owned by the caller. */
Workload *plan_order_place(const PlanOrder *choice, const Model *model, const Plan *plan);
/* Both of the above; `cluster` as for plan_complete(). */
Workload *plan_order_workload(PlanOrder *choice, const Model *model, const Cluster *cluster, Plan *plan,
                              GError **error);
gboolean plan_order_is_auto(const PlanOrder *choice);
/* The order of a complete plan whose schedule is not auto. Owned by the caller. IMPOSSIBLE as order_new(), or if a
 * file's counts differ from the plan's. */
Order *plan_order_make(PlanOrder *choice, const Method *method, GError **error);
/* Micro-batches per group that the order's lists repeat (schedule_repeats()); 0: no repeats. */
gint64 plan_order_group(const PlanOrder *choice, const Method *method);
