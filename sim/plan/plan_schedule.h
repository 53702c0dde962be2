/* What a plan's schedule decides: one of the table, one searched for its costs (auto), or one read from a file
 * (file:orders.csv). */
#pragma once
#include "plan.h"

/* Fills in what the schedule decides: n_pipes, the order of a file, and schedule, chunks, overlap_p2p and
 * grad_norm_barrier where left open. INPUT for an unknown name (the valid ones and the nearest) or an unreadable file;
 * IMPOSSIBLE if the schedule does not allow the plan's chunks, if a pipeline of one rank has several (only an order
 * from a file says what those would be), or if the file contradicts the plan's pp or chunks. */
gboolean plan_open_schedule(Plan *plan, GError **error);
/* IMPOSSIBLE when the plan, of a model with experts, asks for forwards and backwards that take turns and its schedule
 * has none, or the reverse. Checks only what was asked for; a framework's default has no effect if there are no such
 * pairs. */
gboolean plan_check_turns(const Plan *plan, GError **error);
/* What a plan may be run as: of Plan; owned by the caller. A plan whose schedule is not auto: itself. Auto's have gone
 * through plan_open_schedule(). In this order:
 *
 *     auto           the order to be made, on the plan's chunks or, if these are left open, on one and on two
 *     1f1b …         each schedule of the table that allows the plan's chunks, else on its own default; as it runs under
 *                    its own name, and where auto decides otherwise about sends and the gradient norm, also like that */
GPtrArray *plan_candidates(const Plan *plan);
/* Of a plan whose schedule is open no more, of auto with the order to be made: where its stages lie. Owned by the
 * caller. */
Placement *plan_placement(const Plan *plan);
