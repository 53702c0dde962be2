/* Which layers and modules a plan recomputes, and whether its model has them. */
#include "error.h"
#include "plan.h"

#include <math.h>

guint plan_recompute_modules(const Plan *plan) {
  if (plan->recompute != RECOMPUTE_SELECTIVE)
    return 0;
  return plan->recompute_modules != 0 ? plan->recompute_modules : MODULE_BIT(MODULE_CORE_ATTN);
}

char *plan_recompute_text(const Plan *plan) {
  const gboolean is_products = plan->memory.selective == SELECTIVE_PRODUCTS;
  return recompute_modules_text(is_products ? 0 : plan_recompute_modules(plan), "+");
}

gboolean plan_recomputes_nothing(const Plan *plan) {
  if (plan->recompute != RECOMPUTE_SELECTIVE)
    return plan->recompute == RECOMPUTE_NONE;
  return plan->memory.selective == SELECTIVE_SCORES && plan->attention == ATTENTION_FLASH &&
         plan_recompute_modules(plan) == MODULE_BIT(MODULE_CORE_ATTN);
}

/* Layers of the largest stage where they are dealt out evenly. */
static int stage_layers(const Plan *plan, const Model *model) {
  const gint64 n_stages = (gint64)plan->pp * plan->chunks / plan->n_pipes;
  return (int)((model->n_layers + n_stages - 1) / n_stages);
}

static gboolean complete_layers(Plan *plan, const Model *model, GError **error) {
  const gboolean is_counted = plan->recompute_layers > 0, is_sqrt = plan->recompute == RECOMPUTE_SQRT;
  const char *name = recompute_names()[plan->recompute];
  if (is_counted && (!recompute_is_of_layers(plan->recompute) || is_sqrt))
    return fail_impossible(error, "recompute-num-layers %d needs --recompute full, block or every: found %s",
                           plan->recompute_layers, name);
  if (!is_counted && (plan->recompute == RECOMPUTE_BLOCK || plan->recompute == RECOMPUTE_EVERY))
    return fail_impossible(error, "recompute %s needs --recompute-num-layers, or %s:N", name, name);
  if (!is_sqrt || model == NULL)
    return TRUE;
  plan->recompute = RECOMPUTE_FULL;
  plan->recompute_layers = (int)MAX(1, lround(sqrt(stage_layers(plan, model))));
  return TRUE;
}

/* Why a model cannot recompute a module; NULL: it can. */
static const char *why_not(RecomputeModule module, const Model *model) {
  switch (module) {
  case MODULE_MLA_UP_PROJ:
    return model->latent.kv_rank == 0 ? "has no latent attention" : NULL;
  case MODULE_MOE:
  case MODULE_MOE_ACT:
    return !model_has_experts(model) ? "has no experts" : NULL;
  case MODULE_SHARED_EXPERTS:
    return model->experts.shared_ffn_hidden == 0 ? "has no shared expert" : NULL;
  case MODULE_MLP:
    if (model_has_experts(model) && model_dense_layers(model, 0, model->n_layers) == 0)
      return "has experts in every layer (their module is moe)";
    return model->parallel_block ? "has its MLP beside attention, which is not modelled" : NULL;
  case MODULE_LAYERNORM:
    if (model->norms_behind)
      return "has its norms behind its branches, where nothing is kept of what they make";
    return model->parallel_block ? "has its MLP beside attention, which is not modelled" : NULL;
  default:
    return NULL;
  }
}

static gboolean check_model(guint modules, const Model *model, GError **error) {
  for (RecomputeModule module = 0; module < N_RECOMPUTE_MODULES; module++) {
    const char *why = modules & MODULE_BIT(module) ? why_not(module, model) : NULL;
    if (why != NULL)
      return fail_impossible(error, "recompute-modules %s: model %s %s", recompute_module_name(module), model->name,
                             why);
  }
  return TRUE;
}

gboolean plan_complete_recompute(Plan *plan, const Model *model, GError **error) {
  const guint modules = plan_recompute_modules(plan);
  const guint inside_moe = modules & (MODULE_BIT(MODULE_MOE_ACT) | MODULE_BIT(MODULE_SHARED_EXPERTS));
  if (plan->recompute_modules != 0 && plan->recompute != RECOMPUTE_SELECTIVE) {
    g_autofree char *given = recompute_modules_text(plan->recompute_modules, "+");
    return fail_impossible(error, "recompute-modules %s needs --recompute selective: found %s", given,
                           recompute_names()[plan->recompute]);
  }
  if (plan->recompute_modules != 0 && plan->memory.selective == SELECTIVE_PRODUCTS)
    return fail_impossible(error,
                           "recompute-modules and framework %s clash: its selective recompute keeps every other "
                           "product, whatever module it is of",
                           plan->framework);
  if ((modules & MODULE_BIT(MODULE_MOE)) && inside_moe != 0) {
    g_autofree char *inside = recompute_modules_text(inside_moe, "+");
    return fail_impossible(error, "recompute-modules moe and %s clash: moe makes all of the experts' layer again",
                           inside);
  }
  return complete_layers(plan, model, error) && (model == NULL || check_model(modules, model, error));
}
