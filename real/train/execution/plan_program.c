#include "plan_program.h"

#include "error.h"

Program *program_of_plan(const Workload *workload, GError **error) {
  if (method_is_auto(workload->method)) {
    fail_impossible(error, "schedule auto is made for predicted times: let stepsim simulate … --schedule auto --dump "
                           "program.txt make it, and run that with --program program.txt, and with the "
                           "--schedule, if it names one, and the --chunks that it reports");
    return NULL;
  }
  g_autoptr(Order) order = method_order(workload->method, error);
  if (order == NULL)
    return NULL;
  const Lowering lowering = {.order = order, .workload = workload, .n_steps = workload->method->steps};
  g_autoptr(Program) whole = lower(&lowering, NULL, NULL, error);
  return whole != NULL ? program_expand(whole, workload) : NULL;
}
