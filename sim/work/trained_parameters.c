/* Counts by dimensions of the model alone; a rank's share of them is in workload.c. */
#include "trained_parameters.h"

static double mlp_widths(const Model *model, const TrainedParts *training, double width) {
  const int n = training_adapts(training, ADAPTED_UP) + training_adapts(training, ADAPTED_DOWN) +
                (model->gated && training_adapts(training, ADAPTED_GATE));
  return n * (model->hidden + width);
}

static double latent_widths(const Model *model, const TrainedParts *training) {
  const ModelLatent *latent = &model->latent;
  const double h = model->hidden, q = model->n_heads * model->head_dim;
  const double made = (double)model->n_heads * (model->head_dim - latent->rope_dim + latent->v_head_dim);
  double widths = 0;
  if (training_adapts(training, ADAPTED_Q))
    widths += latent->q_rank > 0 ? h + 2 * latent->q_rank + q : h + q;
  if (training_adapts(training, ADAPTED_K) || training_adapts(training, ADAPTED_V))
    widths += h + 2 * latent->kv_rank + latent->rope_dim + made;
  return widths;
}

static double qkv_widths(const Model *model, const TrainedParts *training) {
  const double h = model->hidden, q = model->n_heads * model->head_dim, k = model->n_kv_heads * model->head_dim;
  const double v = (double)model->n_kv_heads * model_v_head_dim(model);
  return (training_adapts(training, ADAPTED_Q) ? h + q : 0) + (training_adapts(training, ADAPTED_K) ? h + k : 0) +
         (training_adapts(training, ADAPTED_V) ? h + v : 0);
}

double adapter_widths(const Model *model, const TrainedParts *training, gint64 n_experts) {
  const double out = (double)model->n_heads * model_v_head_dim(model), shared = model->experts.shared_ffn_hidden;
  const double attention = (model->latent.kv_rank > 0 ? latent_widths : qkv_widths)(model, training) +
                           (training_adapts(training, ADAPTED_O) ? out + model->hidden : 0);
  if (n_experts == 0)
    return attention + mlp_widths(model, training, model->ffn_hidden);
  return attention + (double)n_experts * mlp_widths(model, training, model->experts.ffn_hidden) +
         (shared > 0 ? mlp_widths(model, training, shared) : 0);
}

/* Of a kind, those with experts or those without, from the model's layer `first` on. */
static double n_layers_from(const Model *model, gint64 first, gboolean with_experts) {
  const gint64 n = model->n_layers - first,
               n_dense = model_has_experts(model) ? model_dense_layers(model, first, n) : n;
  return (double)(with_experts ? n - n_dense : n_dense);
}

/* Without a model's ends. */
static double layer_parameters(const Model *model, gboolean with_experts) {
  const double n_with = n_layers_from(model, 0, TRUE), n_without = n_layers_from(model, 0, FALSE);
  const double of_one = (double)model_layer_parameters(model);
  const double all =
      (double)(model_parameters(model) - model_embedding_parameters(model) - model_head_parameters(model));
  return with_experts || !model_has_experts(model) ? of_one : n_without > 0 ? (all - n_with * of_one) / n_without : 0;
}

static double experts_of_layer(const Model *model) {
  const double n_with = n_layers_from(model, 0, TRUE);
  return n_with > 0 ? (double)model_expert_parameters(model) / n_with : 0;
}

/* Of one layer's; adapters in experts are a share of all. */
static double trained_of_layer(const Model *model, const TrainedParts *training, gboolean with_experts,
                               gboolean of_experts) {
  const gint64 n = with_experts ? model->experts.n : 0;
  if (training->rank == 0)
    return of_experts ? (with_experts ? experts_of_layer(model) : 0) : layer_parameters(model, with_experts);
  return training->rank * (of_experts ? (double)n * mlp_widths(model, training, model->experts.ffn_hidden)
                                      : adapter_widths(model, training, n));
}

double trained_parameters(const Model *model, const TrainedParts *training, gboolean of_experts) {
  const gint64 first = training->frozen_layers;
  double trained = n_layers_from(model, first, FALSE) * trained_of_layer(model, training, FALSE, of_experts);
  if (model_has_experts(model))
    trained += n_layers_from(model, first, TRUE) * trained_of_layer(model, training, TRUE, of_experts);
  if (of_experts || training->rank > 0)
    return trained;
  if ((training->frozen & FREEZE_EMBEDDING) == 0)
    trained += (double)model_embedding_parameters(model);
  if ((training->frozen & FREEZE_HEAD) == 0)
    trained += (double)model_head_parameters(model);
  return trained;
}

double frozen_weight_bytes(const Model *model, const TrainedParts *training, const Recipe *recipe, double element_bytes,
                           gboolean of_experts) {
  const gboolean adds = training->rank > 0; /* adapters are none of the model's */
  const double trained = adds ? 0 : trained_parameters(model, training, of_experts);
  const double all = (double)(of_experts ? model_expert_parameters(model) : model_parameters(model));
  if (recipe->frozen == 0 || of_experts)
    return (recipe->frozen > 0 ? recipe->frozen : recipe->weights) * (all - trained);
  double ends = 0;
  if (adds || (training->frozen & FREEZE_EMBEDDING) != 0)
    ends += (double)model_embedding_parameters(model);
  if (adds || (training->frozen & FREEZE_HEAD) != 0)
    ends += (double)model_head_parameters(model);
  return recipe->frozen * (all - trained - ends) + element_bytes * ends;
}
