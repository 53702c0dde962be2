#include "plan_program.h"

Program *program_of_plan(const Workload *workload, GError **error) {
  const Plan *plan = workload->plan;
  const ScheduleInfo *schedule = schedule_find(plan->schedule, error);
  g_autoptr(Order) order =
      schedule ? order_new(schedule, (OrderShape){plan->pp, plan->chunks, (int)plan->n_micro_batches, 0}, error) : NULL;
  if (order == NULL)
    return NULL;
  const Lowering lowering = {.order = order, .workload = workload, .n_steps = plan->steps};
  g_autoptr(Program) whole = lower(&lowering, NULL, NULL, error);
  return whole != NULL ? program_expand(whole, workload) : NULL;
}
