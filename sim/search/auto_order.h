/* An order made for given costs: F, I and W on every rank, so that a step is short within a memory limit.
 *
 * Candidates are list schedules in simulated time under several rules (auto_list.h), every schedule of the table
 * (schedule_names()) with the problem's placement, and running one micro-batch after another; the best that fits is
 * kept. So the order is never worse than a schedule of the table that fits. Sources of the rules: Qi et al., Zero
 * Bubble Pipeline Parallelism (arXiv 2401.10241) §3; Qi et al., Pipeline Parallelism with Controllable Memory (arXiv
 * 2405.15362) §3. */
#pragma once
#include "order_cost.h"
#include "schedules.h"

/* The best order found, of F, I and W only; the same problem always gives the same order. `cost` may be NULL. INPUT
 * as order_problem_check(), and for a placement of two pipes; IMPOSSIBLE if not even one micro-batch fits, naming the
 * rank, the least memory that any order holds there and the memory given. */
Order *auto_order_new(const OrderProblem *problem, OrderCost *cost, GError **error);
