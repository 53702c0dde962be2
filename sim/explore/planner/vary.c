/* Each variant is a job of its own, which writes nothing but its own entry, so that threads cannot change a number. */
#include "vary.h"

#include "error.h"
#include "parallel.h"
#include "plan_fields.h"
#include "step_of_prediction.h"
#include "warnings.h"

static void variant_clear(gpointer data) {
  Variant *variant = data;
  g_free(variant->label);
  g_free(variant->from);
  g_free(variant->to);
  plan_free(variant->plan);
  plan_outcome_free(variant->outcome);
  g_clear_pointer(&variant->warnings, g_ptr_array_unref);
  g_clear_error(&variant->problem);
}

GArray *variants_new(void) {
  GArray *variants = g_array_new(FALSE, FALSE, sizeof(Variant));
  g_array_set_clear_func(variants, variant_clear);
  return variants;
}

Variant *variants_add(GArray *variants, const Model *model, const Cluster *cluster, Plan *plan) {
  const Variant variant = {.model = model, .cluster = cluster, .plan = plan};
  g_array_append_val(variants, variant);
  return variants_get(variants, variants->len - 1);
}

Plan *vary(const Plan *plan, const char *field, const char *value) {
  g_autoptr(Plan) varied = plan_copy(plan);
  PlanTarget target = {.plan = varied};
  return plan_field_set(plan_field(plan_field_find(field)), &target, value, NULL) ? g_steal_pointer(&varied) : NULL;
}

gboolean vary_is_felt(const Plan *plan, const Model *model, const char *field) {
  const struct {
    const char *field;
    gboolean is_felt;
  } known[] = {{"ep", model_has_experts(model)},
               {"expert-dispatch", plan->ep > 1},
               {"sequence-parallel", plan->tp > 1},
               {"overlap-p2p", plan->pp > 1},
               {"overlap-grad", !plan_overlaps_shards(plan)},
               {"overlap-param", zero_shards_optimizer(plan->zero) && !plan_overlaps_shards(plan)}};
  for (gsize i = 0; i < G_N_ELEMENTS(known); i++)
    if (g_str_equal(known[i].field, field))
      return known[i].is_felt;
  return TRUE;
}

Plan *vary_size(const Plan *plan, gint64 gpus, gint64 global_batch) {
  Plan *varied = plan_copy(plan);
  varied->gpus = (int)gpus;
  varied->dp = 0;
  varied->global_batch = global_batch;
  return varied;
}

typedef struct {
  GArray *variants;
  const VaryHow *how;
  GPtrArray *predictors; /* one per thread */
} Jobs;

static void predict_variant(gint64 i, int thread, gpointer data) {
  static const PlanScoring by_throughput = {OBJECTIVE_TOKENS_PER_S, -1};
  const Jobs *jobs = data;
  const VaryHow *how = jobs->how;
  Variant *variant = variants_get(jobs->variants, (guint)i);
  if (variant->problem != NULL)
    return;
  g_autoptr(Prediction) prediction = how->look != NULL
                                         ? predict(variant->model, variant->cluster, variant->plan, &variant->problem)
                                         : predict_numbers(jobs->predictors->pdata[thread], variant->model,
                                                           variant->cluster, variant->plan, &variant->problem);
  if (prediction == NULL)
    return;
  variant->outcome = plan_outcome_of(prediction, variant->model, variant->cluster, variant->plan,
                                     how->scoring != NULL ? how->scoring : &by_throughput);
  const StepReport report = step_of_prediction(prediction, NULL);
  variant->warnings = warnings_of_step(&report);
  if (how->look != NULL)
    how->look(i, prediction, how->data);
}

gboolean variants_predict(GArray *variants, const VaryHow *how, GError **error) {
  const int n_threads = how->n_threads > 0 ? how->n_threads : parallel_threads();
  g_autoptr(GPtrArray) predictors = g_ptr_array_new_with_free_func((GDestroyNotify)predictor_free);
  for (int thread = 0; thread < n_threads; thread++)
    g_ptr_array_add(predictors, predictor_new());
  Jobs jobs = {variants, how, predictors};
  parallel_for(variants->len, n_threads, predict_variant, &jobs, NULL);
  for (guint i = 0; i < variants->len; i++) {
    const Variant *variant = variants_get(variants, i);
    if (variant->problem == NULL || g_error_matches(variant->problem, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE))
      continue;
    g_propagate_prefixed_error(error, g_error_copy(variant->problem), "%s: ", variant->label);
    return FALSE;
  }
  return TRUE;
}

guint variants_count_possible(const GArray *variants) {
  guint n = 0;
  for (guint i = 0; i < variants->len; i++)
    n += variants_get(variants, i)->problem == NULL;
  return n;
}
