/* Parameters of one GPU under tensor parallelism (LocalSizes). */
#include "pieces.h"

gint64 local_vocab_parameters(const LocalSizes *local) {
  return local->vocab_width * local->model->hidden;
}

/* Weights, and biases if any, of one expert where it is of experts. */
static gint64 linear_parameters(const Linear *linear) {
  return linear->n * (linear->k + (linear->has_bias ? 1 : 0));
}

gint64 local_linear_parameters(const LocalSizes *local, Piece piece) {
  gint64 parameters = 0;
  LinearKind kinds[N_LINEARS];
  const int n = layer_linears(local, piece, kinds);
  for (int i = 0; i < n; i++) {
    const Linear linear = linear_of(local, kinds[i]);
    parameters += linear.group * linear_parameters(&linear);
  }
  return parameters;
}

gint64 local_adapter_parameters(const LocalSizes *local, Piece piece, gboolean of_experts, gboolean summed) {
  gint64 parameters = 0;
  LinearKind kinds[N_LINEARS];
  const int n = layer_linears(local, piece, kinds);
  for (int i = 0; i < n; i++) {
    const Linear linear = linear_of(local, kinds[i]);
    Adapter adapters[MOST_ADAPTERS];
    const int n_adapters = adapters_of(local, kinds[i], &linear, adapters);
    for (int a = 0; a < n_adapters; a++)
      if ((kinds[i] == LINEAR_EXPERT_UP || kinds[i] == LINEAR_EXPERT_DOWN) == of_experts)
        parameters += adapters[a].group * local->method->training.rank *
                      (summed ? adapters[a].n_summed : adapters[a].n + adapters[a].k);
  }
  return parameters;
}

gint64 local_expert_parameters(const LocalSizes *local, Piece piece) {
  if (piece == PIECE_HEAD)
    return local->method->mtp_layers * local_expert_parameters(local, PIECE_LAYER);
  if (piece != PIECE_LAYER || local->n_experts == 0)
    return 0;
  const Linear up = linear_of(local, LINEAR_EXPERT_UP), down = linear_of(local, LINEAR_EXPERT_DOWN);
  return local->n_experts * (linear_parameters(&up) + linear_parameters(&down));
}

/* Latent attention: the two norms between its products. */
static gint64 latent_norm_parameters(const Model *model) {
  return model->latent.q_rank + model->latent.kv_rank;
}

/* A layer with experts, whole on each rank of tp: the shared expert's gate and the scores' biases. */
static gint64 router_parameters(const Model *model) {
  return (model->experts.shared_gate ? model->hidden : 0) + (model->experts.biased_scores ? model->experts.n : 0);
}

/* All norms of a layer, those after its branches included. */
static gint64 norms_parameters(const LocalSizes *local) {
  return (local->n_norms + local->n_post_norms) * model_norm_parameters(local->model);
}

static gint64 layer_parameters(const LocalSizes *local, Piece piece) {
  const Model *model = local->model;
  return norms_parameters(local) + model_qk_norm_parameters(model) + latent_norm_parameters(model) +
         (model->has_sinks ? local->heads : 0) + local_linear_parameters(local, piece) +
         (piece == PIECE_LAYER && local->n_experts > 0 ? router_parameters(model) : 0);
}

/* The embedding without the word table. */
static gint64 embedding_vectors(const Model *model) {
  const gint64 positions = model->positions == POSITIONS_LEARNED ? model->max_positions : 0;
  return positions * model->hidden + (model->embedding_norm ? model_norm_parameters(model) : 0) +
         model->other_embedding_parameters;
}

/* A head that predicts a further token: the layer, experts included, the product and three norms. */
static gint64 mtp_parameters(const LocalSizes *local) {
  const Linear proj = linear_of(local, LINEAR_MTP_PROJ);
  return layer_parameters(local, PIECE_LAYER) + proj.n * proj.k + 3 * model_norm_parameters(local->model);
}

gint64 local_piece_parameters(const LocalSizes *local, Piece piece) {
  switch (piece) {
  case PIECE_EMBEDDING:
    return local_vocab_parameters(local) + embedding_vectors(local->model);
  case PIECE_DENSE_LAYER:
  case PIECE_LAYER:
    return layer_parameters(local, piece);
  default:
    return model_norm_parameters(local->model) + local_vocab_parameters(local) +
           (local->model->head_bias ? local->vocab_width : 0) + local->method->mtp_layers * mtp_parameters(local);
  }
}

static gint64 layer_vectors(const LocalSizes *local, Piece piece) {
  const Model *model = local->model;
  const gint64 of_norm = model_norm_parameters(model) / model->hidden;
  gint64 n = (local->n_norms + local->n_post_norms) * of_norm + (model_qk_norm_parameters(model) > 0 ? 2 : 0) +
             (model->latent.q_rank > 0) + (model->latent.kv_rank > 0);
  LinearKind kinds[N_LINEARS];
  const int n_linears = layer_linears(local, piece, kinds);
  for (int i = 0; i < n_linears; i++) {
    const Linear linear = linear_of(local, kinds[i]);
    n += linear.has_bias ? linear.group : 0;
  }
  return n;
}

gint64 local_piece_vectors(const LocalSizes *local, Piece piece) {
  const Model *model = local->model;
  const gint64 of_norm = model_norm_parameters(model) / model->hidden;
  switch (piece) {
  case PIECE_EMBEDDING:
    return model->embedding_norm ? of_norm : 0;
  case PIECE_DENSE_LAYER:
  case PIECE_LAYER:
    return layer_vectors(local, piece);
  default:
    return of_norm + (model->head_bias ? 1 : 0) +
           local->method->mtp_layers * (layer_vectors(local, PIECE_LAYER) + 3 * of_norm);
  }
}

gint64 local_layer_matrices(const LocalSizes *local) {
  gint64 elements = 0;
  LinearKind kinds[N_LINEARS];
  const int n = layer_linears(local, PIECE_LAYER, kinds);
  for (int i = 0; i < n; i++) {
    const Linear linear = linear_of(local, kinds[i]);
    elements += linear.n * linear.k;
  }
  return elements;
}

/* Weights that all ranks of tp hold whole, for different tokens. */
static gint64 whole_linears(const LocalSizes *local, Piece piece) {
  gint64 parameters = 0;
  LinearKind kinds[N_LINEARS];
  const int n = layer_linears(local, piece, kinds);
  for (int i = 0; i < n; i++) {
    const Linear linear = linear_of(local, kinds[i]);
    parameters += linear.is_whole ? linear_parameters(&linear) : 0;
  }
  return parameters;
}

/* Parameters that tp does not cut; a head that predicts a further token has a layer and three norms. */
static gint64 whole_parameters(const LocalSizes *local, Piece piece) {
  const Model *model = local->model;
  switch (piece) {
  case PIECE_EMBEDDING:
    return embedding_vectors(model);
  case PIECE_DENSE_LAYER:
  case PIECE_LAYER: /* attn_out and mlp_down are cut by rows: their biases are whole */
    return norms_parameters(local) + model_qk_norm_parameters(model) + latent_norm_parameters(model) +
           (model_has_out_bias(model) + model_has_mlp_bias(model)) * model->hidden + whole_linears(local, piece) +
           (piece == PIECE_LAYER ? router_parameters(model) : 0);
  default:
    return model_norm_parameters(model) +
           local->method->mtp_layers * (whole_parameters(local, PIECE_LAYER) + 3 * model_norm_parameters(model));
  }
}

/* Norms of q and k: a rank of tp has some of the heads and computes the gradients of the norm weights from these. */
static gint64 shared_by_heads(const LocalSizes *local, Piece piece) {
  const gint64 of_layer = model_qk_norm_parameters(local->model);
  return piece == PIECE_EMBEDDING ? 0 : piece == PIECE_HEAD ? local->method->mtp_layers * of_layer : of_layer;
}

gint64 local_tp_summed_parameters(const LocalSizes *local, Piece piece) {
  if (local->tp == 1)
    return 0;
  return local->sequence_parallel ? whole_parameters(local, piece) : shared_by_heads(local, piece);
}
