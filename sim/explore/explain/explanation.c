#include "explanation.h"

static const double least_gain = 0.005; /* of the step, for a link of the chain */

/* Everything a step does once (bubble, gradients, optimizer) then counts an eighth. */
static double large_batch_s(const Prediction *prediction, const Plan *plan) {
  g_autoptr(Plan) large = plan_copy(plan);
  large->gpus = prediction->workload->plan->gpus;
  large->global_batch = EXPLAIN_BATCH_FACTOR * prediction->workload->plan->global_batch;
  g_autoptr(Prediction) then = predict_numbers(prediction->workload->model, prediction->cluster, large, NULL);
  return then != NULL ? then->step_time_s / EXPLAIN_BATCH_FACTOR : 0;
}

/* What slow ranks and jitter cost: the plan without them, whose ranks may be folded then. */
static double even_ranks_s(const Prediction *prediction, const Plan *plan) {
  if (plan->slow_ranks->len == 0 && plan->jitter == 0)
    return 0;
  g_autoptr(Plan) even = plan_copy(plan);
  g_array_set_size(even->slow_ranks, 0);
  even->jitter = 0;
  g_autoptr(Prediction) then = predict_numbers(prediction->workload->model, prediction->cluster, even, NULL);
  return then != NULL ? then->step_time_s : 0;
}

/* Ranks that run apart are too many to run them so often. */
static void take_steps(Explanation *explanation, const Plan *plan, int n_threads) {
  const Prediction *prediction = explanation->prediction;
  if (!prediction->workload->plan->fold)
    return;
  explanation->faster = faster_hardware_new(prediction, plan);
  const PlannerRequest request = {
      .scoring = {OBJECTIVE_TOKENS_PER_S, -1}, .framework = PLANNER_ANY_FRAMEWORK, .n_threads = n_threads};
  explanation->outcome =
      plan_outcome_new(prediction->workload->model, prediction->cluster, plan, &request.scoring, NULL);
  if (explanation->outcome != NULL)
    explanation->steps = sensitivity_new(explanation->outcome, &request);
}

Explanation *explanation_new(const Prediction *prediction, const StepReport *step, const Plan *plan,
                             const Scaling *scaling, int n_threads) {
  Explanation *explanation = g_new0(Explanation, 1);
  explanation->prediction = prediction;
  explanation->step = step;
  explanation->axes = axis_links_new(prediction);
  explanation->each = what_if_each(prediction);
  explanation->chain = what_if_chain(prediction, least_gain);
  explanation->no_bubble_ns = what_if_no_bubble_ns(prediction->metrics);
  explanation->large_batch_s = large_batch_s(prediction, plan);
  explanation->even_ranks_s = even_ranks_s(prediction, plan);
  explanation->scaling = scaling;
  if (scaling == NULL)
    take_steps(explanation, plan, n_threads);
  return explanation;
}

void explanation_free(Explanation *explanation) {
  if (explanation == NULL)
    return;
  g_clear_pointer(&explanation->steps, g_array_unref);
  g_clear_pointer(&explanation->faster, g_array_unref);
  plan_outcome_free(explanation->outcome);
  g_array_unref(explanation->axes);
  g_array_unref(explanation->each);
  g_array_unref(explanation->chain);
  g_free(explanation);
}
