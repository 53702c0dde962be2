#include "plan_program.h"

#include "error.h"
#include "plan_order.h"

Program *program_of_plan(const Workload *workload, GError **error) {
  g_autoptr(Plan) plan = plan_copy(workload->plan);
  g_auto(PlanOrder) choice = {0};
  if (!plan_order_open(&choice, plan, error))
    return NULL;
  if (plan_order_is_auto(&choice)) {
    fail_impossible(error, "schedule auto is made for predicted times: let stepsim simulate … --schedule auto --dump "
                           "program.txt make it, and run that with --program program.txt, and with the "
                           "--schedule, if it names one, and the --chunks that it reports");
    return NULL;
  }
  g_autoptr(Order) order = plan_order_make(&choice, workload->method, error);
  if (order == NULL)
    return NULL;
  const Lowering lowering = {.order = order, .workload = workload, .n_steps = plan->steps};
  g_autoptr(Program) whole = lower(&lowering, NULL, NULL, error);
  return whole != NULL ? program_expand(whole, workload) : NULL;
}
