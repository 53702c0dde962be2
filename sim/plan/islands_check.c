/* What islands of local SGD make of a run's steps, and whether they go with the rest of the plan. */
#include "error.h"
#include "plan.h"

int plan_outer_period(const Plan *plan) {
  return plan->islands > 1 ? plan->local_steps / plan->outer.fragments : 1;
}

int plan_outer_window(const Plan *plan) {
  return plan->islands > 1 ? MAX(plan->outer.delay, 1) : 1;
}

int plan_steps_before_outer(const Plan *plan) {
  const int window = plan_outer_window(plan), period = plan_outer_period(plan);
  return window - 1 + (period > window || (plan->islands > 1 && plan->outer.delay > 0));
}

static gboolean check_sizes(const Plan *plan, GError **error) {
  if (plan->islands == 1 && plan->local_steps > 1)
    return fail_impossible(error,
                           "local-steps %d needs islands that meet after so many: found dp %d in one island; expected "
                           "--islands 2 or more",
                           plan->local_steps, plan->dp);
  if (plan->islands == 1 && (plan->outer.fragments > 1 || plan->outer.delay > 0))
    return fail_impossible(error, "outer %s needs --islands 2 or more", outer_step_text(&plan->outer));
  if (plan->local_steps % plan->outer.fragments != 0)
    return fail_impossible(error, "outer %s: its fragments do not divide local-steps %d, in which each has its turn",
                           outer_step_text(&plan->outer), plan->local_steps);
  return plan->islands == 1 || plan->outer.delay <= plan_outer_period(plan) ||
         fail_impossible(
             error,
             "outer %s: a sum would still run when the next begins, %d step%s later; expected a delay of at "
             "most that",
             outer_step_text(&plan->outer), plan_outer_period(plan), plan_outer_period(plan) > 1 ? "s" : "");
}

static gboolean check_others(const Plan *plan, GError **error) {
  if (offload_is_any(&plan->offload))
    return fail_impossible(error,
                           "islands %d and offloading clash: the outer step is modelled on the GPUs; leave out "
                           "what is offloaded",
                           plan->islands);
  if (plan->pp > 1 && !plan->grad_norm_barrier)
    return fail_impossible(
        error,
        "islands %d need --grad-norm-barrier on in a pipeline: stages that run on into the next step "
        "would run past an outer step",
        plan->islands);
  if (plan->n_pipes > 1)
    return fail_impossible(error, "islands %d: schedule %s has two copies of the model, expected one that has one",
                           plan->islands, plan->schedule);
  return plan->steps > plan_steps_before_outer(plan) ||
         fail_impossible(error,
                         "steps %d: with local-steps %d and outer %s a run needs at least %d, to show a step with "
                         "an outer one and what comes before",
                         plan->steps, plan->local_steps, outer_step_text(&plan->outer),
                         plan_steps_before_outer(plan) + 1);
}

gboolean plan_check_islands(const Plan *plan, GError **error) {
  return check_sizes(plan, error) && (plan->islands == 1 || check_others(plan, error));
}
