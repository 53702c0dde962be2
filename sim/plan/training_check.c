/* Whether a plan can train what it names of its model. */
#include "error.h"
#include "plan.h"

/* The first product named that the model does not have; NULL: none. */
static const char *missing_product(const TrainedParts *training, const Model *model) {
  const gboolean names_gate = training->rank > 0 && (training->modules & ADAPTED_BIT(ADAPTED_GATE)) != 0;
  return names_gate && !model->gated ? adapted_name(ADAPTED_GATE) : NULL;
}

static gboolean check_model(const Plan *plan, const Model *model, GError **error) {
  const TrainedParts *training = &plan->training;
  const gboolean freezes_head = (training->frozen & FREEZE_HEAD) != 0,
                 freezes_embedding = (training->frozen & FREEZE_EMBEDDING) != 0;
  if (training->frozen_layers > model->n_layers)
    return fail_impossible(error, "freeze layers:%d is more than the %" INT64 " layers of model %s",
                           training->frozen_layers, model->n_layers, model->name);
  const gboolean has_ends = training->rank == 0 && !(freezes_head && freezes_embedding);
  if (training->frozen_layers == model->n_layers && !has_ends) {
    g_autofree char *frozen = training_freeze_text(training);
    return fail_impossible(error, "freeze %s leaves nothing of model %s to train", frozen, model->name);
  }
  if (training->rank == 0 && model->tied && freezes_head && !freezes_embedding)
    return fail_impossible(error,
                           "freeze head: model %s uses its word table for the output layer too, expected "
                           "freeze embedding+head",
                           model->name);
  const char *missing = missing_product(training, model);
  return missing == NULL || fail_impossible(error, "train lora: model %s has no %s", model->name, missing);
}

gboolean plan_check_training(const Plan *plan, const Model *model, GError **error) {
  const TrainedParts *training = &plan->training;
  if (training_is_of_all(training))
    return plan->recipe.frozen == 0 ||
           fail_impossible(error,
                           "recipe %s keeps frozen weights in %g bytes, and all are trained: expected --train "
                           "lora:RANK or --freeze",
                           plan->recipe.name, plan->recipe.frozen);
  const char *what = training->rank > 0 ? "train lora" : "freeze";
  const PrecisionInfo *precision = precision_info(plan->precision);
  if (plan->mtp_layers > 0)
    return fail_impossible(error, "%s is not modelled with mtp-layers %d", what, plan->mtp_layers);
  if (training->rank > 0 && precision->linear_bytes < precision->element_bytes)
    return fail_impossible(error, "%s is not modelled with products in %s: expected precision bf16, fp16 or fp32", what,
                           precision->name);
  if (plan->recompute == RECOMPUTE_SELECTIVE && plan->memory.selective == SELECTIVE_PRODUCTS)
    return fail_impossible(error,
                           "%s is not modelled with recompute selective under framework %s, which keeps every other "
                           "product: use none or full",
                           what, plan->framework);
  if (plan->offload.optimizer != TIER_GPU)
    return fail_impossible(error, "%s is not modelled with offload-optimizer %s", what,
                           offload_names()[plan->offload.optimizer]);
  if (plan->offload.weights != TIER_GPU)
    return fail_impossible(error, "%s is not modelled with offload-weights %s", what,
                           offload_names()[plan->offload.weights]);
  return model == NULL || check_model(plan, model, error);
}
