/* Tensors are carved one after the other; those that plan or model do not use are NULL and take no bytes. */
#include "carve.h"

#include "precision.h"

enum { ALIGN_BYTES = 256 };

void *carve(Carver *carver, double n, int element_bytes) {
  gint64 bytes = ((gint64)n * element_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
  char *at = carver->base != NULL ? carver->base + carver->bytes : NULL;
  carver->bytes += bytes;
  return at;
}

double carve_stream_elements(const LocalSizes *local) {
  return (double)local->split_tokens * local->model->hidden;
}

int carve_element_bytes(const LocalSizes *local) {
  return (int)local->element_bytes;
}

gboolean carve_is_flash(const LocalSizes *local) {
  return local->method->attention == ATTENTION_FLASH;
}

static gboolean is_ulysses(const LocalSizes *local) {
  return local->cp > 1 && local->method->cp_comm == CP_ULYSSES;
}

static LayerKind layer_kind(const LocalSizes *local, gboolean has_experts) {
  const gint64 per_column = local->model->gated ? 2 : 1;
  if (!has_experts)
    return (LayerKind){.ffn_width = local->ffn_width, .up_width = local->up_width};
  return (LayerKind){local->shared_width, per_column * local->shared_width, TRUE, local->model->experts.shared_gate};
}

LayerKind carve_kind_of(const LocalSizes *local, const StageLayers *layers, int layer) {
  return layer_kind(local, local->n_experts > 0 && layer >= layers->n_dense);
}

LayerKind carve_any_kind(const LocalSizes *local) {
  const Model *model = local->model;
  LayerKind kind = layer_kind(local, local->n_experts > 0);
  kind.is_scratch = TRUE;
  if (local->n_experts > 0 && model_dense_layers(model, 0, model->n_layers) > 0) {
    kind.ffn_width = MAX(kind.ffn_width, local->ffn_width);
    kind.up_width = MAX(kind.up_width, local->up_width);
  }
  return kind;
}

static gboolean drops_mlp(LayerKind kind, guint dropped) {
  const guint modules =
      kind.has_experts ? MODULE_BIT(MODULE_SHARED_EXPERTS) | MODULE_BIT(MODULE_MOE) : MODULE_BIT(MODULE_MLP);
  return (dropped & modules) != 0;
}

static gboolean drops_experts(LayerKind kind, guint dropped) {
  return kind.has_experts && (dropped & MODULE_BIT(MODULE_MOE)) != 0;
}

static gboolean drops_expert_activation(LayerKind kind, guint dropped) {
  return kind.has_experts && (dropped & (MODULE_BIT(MODULE_MOE) | MODULE_BIT(MODULE_MOE_ACT))) != 0;
}

/* --- fp8 ---------------------------------------------------------------------------------------------------------- */

static gboolean is_latent(const LocalSizes *local) {
  return local->model->latent.kv_rank > 0;
}

static NarrowShape latent_shape(const LocalSizes *local, NarrowLinear linear) {
  const ModelLatent *latent = &local->model->latent;
  const gint64 made_width = local->heads * (local->model->head_dim - latent->rope_dim) + local->v_width;
  switch (linear) {
  case NARROW_Q_DOWN:
    return latent->q_rank > 0 ? (NarrowShape){1, local->split_tokens, local->model->hidden, latent->q_rank}
                              : (NarrowShape){0};
  case NARROW_Q_UP:
    return (NarrowShape){1, local->tokens, latent->q_rank > 0 ? latent->q_rank : local->model->hidden, local->q_width};
  case NARROW_KV_DOWN:
    return (NarrowShape){1, local->split_tokens, local->model->hidden, latent->kv_rank + latent->rope_dim};
  default: /* NARROW_KV_UP */
    return (NarrowShape){1, local->tokens, latent->kv_rank, made_width};
  }
}

static NarrowShape mlp_shape(const LocalSizes *local, LayerKind kind, NarrowLinear linear) {
  const gint64 hidden = local->model->hidden, up = kind.up_width, ffn = kind.ffn_width;
  if (linear == NARROW_MLP_UP || linear == NARROW_MLP_DOWN) {
    if (ffn == 0)
      return (NarrowShape){0};
    return linear == NARROW_MLP_UP ? (NarrowShape){1, local->tokens, hidden, up}
                                   : (NarrowShape){1, local->tokens, ffn, hidden};
  }
  if (!kind.has_experts)
    return (NarrowShape){0};
  return linear == NARROW_EXPERT_UP
             ? (NarrowShape){local->n_experts, local->expert_tokens, hidden, 2 * local->expert_width}
             : (NarrowShape){local->n_experts, local->expert_tokens, local->expert_width, hidden};
}

NarrowShape carve_narrow_shape(const LocalSizes *local, LayerKind kind, NarrowLinear linear) {
  if (linear == NARROW_QKV)
    return is_latent(local) ? (NarrowShape){0}
                            : (NarrowShape){1, local->tokens, local->model->hidden, local_qkv_width(local)};
  if (linear == NARROW_ATTN_OUT)
    return (NarrowShape){1, local->tokens, local->out_width, local->model->hidden};
  if (linear < NARROW_ATTN_OUT)
    return is_latent(local) ? latent_shape(local, linear) : (NarrowShape){0};
  return mlp_shape(local, kind, linear);
}

/* What a linear reads, turned, for W. */
static void carve_input(const LocalSizes *local, NarrowInput input, NarrowSize size, Carver *carver,
                        SavedLayer *saved) {
  if (local->casts)
    saved->narrow[input] = carve(carver, (double)narrow_bytes(local, narrow_turned(size), FALSE), 1);
}

/* NULL, and no bytes, for what only W reads in fp8, unless it is gathered first. */
static void *carve_wide(const LocalSizes *local, LayerKind kind, gboolean is_read, Carver *carver, double n) {
  const gboolean is_kept = !local->casts || kind.is_scratch || is_read;
  return is_kept ? carve(carver, n, carve_element_bytes(local)) : NULL;
}

/* Whether a linear that tp cuts reads the output of the norm before attention; a down projection reads it too. */
static gboolean is_norm1_cut(const LocalSizes *local) {
  return !is_latent(local) || local->model->latent.q_rank == 0 || local->shared_norm;
}

static void carve_norm1(const LocalSizes *local, LayerKind kind, Carver *carver, SavedLayer *saved) {
  const gboolean is_gathered = local->sequence_parallel && is_norm1_cut(local);
  saved->norm1 = carve_wide(local, kind, is_gathered, carver, carve_stream_elements(local));
}

/* The router reads it too. */
static void carve_norm2(const LocalSizes *local, LayerKind kind, Carver *carver, SavedLayer *saved) {
  saved->norm2 =
      carve_wide(local, kind, local->sequence_parallel || kind.has_experts, carver, carve_stream_elements(local));
}

/* The same, or the stream where there are no norms before the branches, turned. */
static void carve_branch_inputs(const LocalSizes *local, LayerKind kind, Carver *carver, SavedLayer *saved) {
  const NarrowSize size = {1, local->split_tokens, local->model->hidden};
  if (!local->sequence_parallel || is_latent(local))
    carve_input(local, INPUT_NORM1, size, carver, saved);
  if (!local->sequence_parallel && !local->shared_norm && kind.ffn_width > 0)
    carve_input(local, INPUT_NORM2, size, carver, saved);
}

static void carve_activation(const LocalSizes *local, LayerKind kind, Carver *carver, SavedLayer *saved) {
  saved->activation = carve_wide(local, kind, FALSE, carver, (double)local->tokens * kind.ffn_width);
  if (kind.ffn_width > 0)
    carve_input(local, INPUT_ACTIVATION, (NarrowSize){1, local->tokens, kind.ffn_width}, carver, saved);
}

static void carve_expert_rows(const LocalSizes *local, LayerKind kind, Carver *carver, SavedLayer *saved) {
  saved->experts.rows = carve_wide(local, kind, FALSE, carver, (double)local->expert_rows * local->model->hidden);
  carve_input(local, INPUT_ROWS, (NarrowSize){local->n_experts, local->expert_tokens, local->model->hidden}, carver,
              saved);
}

static void carve_expert_activation(const LocalSizes *local, LayerKind kind, Carver *carver, SavedLayer *saved) {
  saved->experts.activation = carve_wide(local, kind, FALSE, carver, (double)local->expert_rows * local->expert_width);
  carve_input(local, INPUT_EXPERT_ACTIVATION, (NarrowSize){local->n_experts, local->expert_tokens, local->expert_width},
              carver, saved);
}

/* After their norms; the shared o columns are stored with K and V's latent, as they are gathered together. */
static void carve_latent_inputs(const LocalSizes *local, LayerKind kind, Carver *carver, SavedLayer *saved) {
  const ModelLatent *latent = &local->model->latent;
  const double t = local->split_tokens;
  saved->q_latent = carve_wide(local, kind, local->sequence_parallel, carver, t * latent->q_rank);
  saved->kv_latent =
      carve_wide(local, kind, local->sequence_parallel, carver, t * (latent->kv_rank + latent->rope_dim));
  if (local->sequence_parallel)
    return;
  if (latent->q_rank > 0)
    carve_input(local, INPUT_Q_LATENT, (NarrowSize){1, local->tokens, latent->q_rank}, carver, saved);
  carve_input(local, INPUT_KV_LATENT, (NarrowSize){1, local->tokens, latent->kv_rank}, carver, saved);
}

NarrowScratch carve_narrow_scratch(const LocalSizes *local, gboolean has_weight, Carver *carver) {
  gint64 as_is = 0, turned = 0, weight = 0;
  for (int linear = 0; linear < N_NARROW_LINEARS && local->casts; linear++) {
    const NarrowShape shape = carve_narrow_shape(local, carve_any_kind(local), (NarrowLinear)linear);
    const NarrowSize input = narrow_input_size(shape), of_weight = narrow_weight_size(shape);
    as_is = MAX(as_is, narrow_bytes(local, input, FALSE));
    as_is = MAX(as_is, narrow_bytes(local, narrow_gradient_size(shape), FALSE));
    if (narrow_is_gathered(local, (NarrowLinear)linear))
      turned = MAX(turned, narrow_bytes(local, narrow_turned(input), FALSE));
    weight =
        MAX(weight, MAX(narrow_bytes(local, of_weight, TRUE), narrow_bytes(local, narrow_turned(of_weight), TRUE)));
  }
  return (NarrowScratch){.as_is = carve(carver, (double)as_is, 1),
                         .turned = carve(carver, (double)turned, 1),
                         .weight = carve(carver, has_weight ? (double)weight : 0, 1)};
}

/* --- a layer ------------------------------------------------------------------------------------------------------ */

/* The gate belongs to the shared expert and is dropped with it. */
static void carve_experts(const LocalSizes *local, LayerKind kind, guint dropped, Carver *for_i, Carver *for_w,
                          SavedLayer *saved) {
  const double rows = local->expert_rows;
  SavedExperts *experts = &saved->experts;
  if (kind.has_gate && !drops_mlp(kind, dropped))
    experts->gate = carve(for_i, local->tokens, 4);
  if (!kind.has_experts || drops_experts(kind, dropped))
    return;
  carve_expert_rows(local, kind, for_w, saved);
  if (!drops_expert_activation(kind, dropped))
    carve_expert_activation(local, kind, for_w, saved);
  experts->place = carve(for_i, local->routed_tokens, 4);
  experts->weights = carve(for_i, local->routed_tokens, 4);
  experts->row_weights = local_n_sources(local) > 1 ? carve(for_i, rows, 4) : experts->weights;
  experts->up = carve(for_i, 2 * rows * local->expert_width, carve_element_bytes(local));
}

static SavedNorm carve_qk_norm(const LocalSizes *local, gint64 width, Carver *for_i) {
  const gboolean of_heads = local->model->qk_norms != QK_NORMS_WHOLE, has_mean = local->model->norm == NORM_LAYERNORM;
  const double rows = (double)local->tokens * (of_heads ? width / local->model->head_dim : 1);
  if (local->model->qk_norms == QK_NORMS_NONE)
    return (SavedNorm){0};
  return (SavedNorm){.kept = carve(for_i, (double)local->tokens * width, carve_element_bytes(local)),
                     .mean = has_mean ? carve(for_i, rows, 4) : NULL,
                     .rstd = carve(for_i, rows, 4)};
}

/* The latents that Q, K and V are computed from. */
static void carve_latents(const LocalSizes *local, LayerKind kind, guint dropped, Carver *for_i, Carver *for_w,
                          SavedLayer *saved) {
  const ModelLatent *latent = &local->model->latent;
  const int e = carve_element_bytes(local);
  const double t = local->split_tokens;
  if (latent->kv_rank == 0)
    return;
  saved->q_norm.kept = carve(for_i, t * latent->q_rank, e);
  saved->q_norm.rstd = carve(for_i, latent->q_rank > 0 ? t : 0, 4);
  saved->k_norm.kept = carve(for_i, t * latent->kv_rank, e);
  saved->k_norm.rstd = carve(for_i, t, 4);
  if ((dropped & MODULE_BIT(MODULE_MLA_UP_PROJ)) != 0) {
    saved->rotated = carve(for_i, t * latent->rope_dim, e);
    return;
  }
  carve_latent_inputs(local, kind, for_w, saved);
}

/* NULL, and no bytes, if the tensor belongs to a module that is not kept. */
static void *carve_unless(guint dropped, RecomputeModule module, Carver *carver, double n, int element_bytes) {
  return (dropped & MODULE_BIT(module)) == 0 ? carve(carver, n, element_bytes) : NULL;
}

gboolean carve_reads_stream(const LocalSizes *local) {
  return local->n_norms == 0;
}

gboolean carve_w_reads_input(const LocalSizes *local) {
  return carve_reads_stream(local) && (!local->casts || local->sequence_parallel);
}

static void carve_norms_before(const LocalSizes *local, LayerKind kind, guint dropped, Carver *for_i, Carver *for_w,
                               SavedLayer *saved) {
  const double rows = local->split_tokens;
  const gboolean is_kept = (dropped & MODULE_BIT(MODULE_LAYERNORM)) == 0;
  if (is_kept)
    carve_norm1(local, kind, for_w, saved);
  saved->mean1 = carve(for_i, rows, 4);
  saved->rstd1 = carve(for_i, rows, 4);
  if (local->shared_norm)
    return;
  if (is_kept)
    carve_norm2(local, kind, for_w, saved);
  saved->mean2 = carve(for_i, rows, 4);
  saved->rstd2 = carve(for_i, rows, 4);
}

/* Attention's output: in fp8 only fused attention reads it again, unless it has been exchanged. */
static void carve_attention(const LocalSizes *local, LayerKind kind, Carver *for_i, Carver *for_w, SavedLayer *saved) {
  const double t = local->tokens;
  saved->attention = carve_wide(local, kind, carve_is_flash(local) && !is_ulysses(local), local->casts ? for_i : for_w,
                                t * local->out_width);
  carve_input(local, INPUT_ATTENTION, (NarrowSize){1, local->tokens, local->out_width}, for_w, saved);
}

/* NULL without adapters. */
static char *carve_adapters(const LocalSizes *local, Carver *carver) {
  const TrainedParts *training = &local->method->training;
  int n = 0;
  for (int adapted = 0; adapted < N_ADAPTED; adapted++)
    n += training_adapts(training, (Adapted)adapted);
  return n > 0 ? carve(carver, (double)n * (double)local->tokens * training->rank, carve_element_bytes(local)) : NULL;
}

char *carve_adapted(const LocalSizes *local, Carver *carver) {
  const gint64 widest = MAX(MAX(local->model->hidden, local->up_width), MAX(local->q_width, local->ffn_width));
  return local->method->training.rank > 0
             ? carve(carver, (double)local->tokens * (double)widest, carve_element_bytes(local))
             : NULL;
}

SavedLayer carve_layer(const LocalSizes *local, LayerKind kind, guint dropped, Carver *for_i, Carver *for_w) {
  const int e = carve_element_bytes(local);
  const double t = local->tokens, stream = carve_stream_elements(local);
  const gboolean parallel = local->model->parallel_block;
  SavedLayer saved = {0};
  if (local->n_norms > 0)
    carve_norms_before(local, kind, dropped, for_i, for_w, &saved);
  if ((dropped & MODULE_BIT(MODULE_LAYERNORM)) == 0)
    carve_branch_inputs(local, kind, for_w, &saved);
  carve_attention(local, kind, for_i, for_w, &saved);
  const gboolean keeps_mlp = !drops_mlp(kind, dropped);
  if (keeps_mlp)
    carve_activation(local, kind, for_w, &saved);
  for (int i = 0; i < local->n_post_norms; i++)
    saved.post_norms[i] = (SavedNorm){.kept = carve(for_i, stream, e),
                                      .mean = carve(for_i, local->split_tokens, 4),
                                      .rstd = carve(for_i, local->split_tokens, 4)};
  saved.qkv = carve_unless(dropped, MODULE_MLA_UP_PROJ, for_i, t * local_dealt_width(local), e);
  saved.q_norm = carve_qk_norm(local, local->q_width, for_i);
  saved.k_norm = carve_qk_norm(local, local->kv_width, for_i);
  carve_latents(local, kind, dropped, for_i, for_w, &saved);
  saved.scores = carve_is_flash(local) ? NULL : carve_unless(dropped, MODULE_CORE_ATTN, for_i, local->scores, e);
  if (local->model->dropout_rate.attention > 0)
    saved.dropped = carve_is_flash(local) ? NULL : carve_unless(dropped, MODULE_CORE_ATTN, for_i, local->scores, e);
  saved.lse = carve_is_flash(local) ? carve(for_i, (double)local->sequences * local->heads * local->seq_len, 4) : NULL;
  saved.all_tokens = is_ulysses(local) ? carve(for_i, t * local->out_width, e) : NULL;
  saved.x2 = parallel ? NULL : carve(carve_w_reads_input(local) ? for_w : for_i, stream, e);
  saved.up = keeps_mlp ? carve(for_i, t * kind.up_width, e) : NULL;
  carve_experts(local, kind, dropped, for_i, for_w, &saved);
  saved.adapters = carve_adapters(local, for_w);
  return saved;
}

SavedLayer carve_again(const LocalSizes *local, LayerKind kind, guint dropped, Carver *made) {
  SavedLayer again = {0};
  if (dropped & MODULE_BIT(MODULE_LAYERNORM)) {
    carve_norm1(local, kind, made, &again);
    carve_norm2(local, kind, made, &again);
    carve_branch_inputs(local, kind, made, &again);
  }
  if (dropped & MODULE_BIT(MODULE_MLA_UP_PROJ))
    carve_latent_inputs(local, kind, made, &again);
  if (drops_mlp(kind, dropped))
    carve_activation(local, kind, made, &again);
  if (drops_experts(kind, dropped))
    carve_expert_rows(local, kind, made, &again);
  if (drops_expert_activation(kind, dropped))
    carve_expert_activation(local, kind, made, &again);
  return again;
}

void carve_drop_mlp(LayerKind kind, guint dropped, const SavedLayer *scratch, SavedLayer *saved) {
  const gboolean is_whole = drops_mlp(kind, dropped);
  float *gate = is_whole ? scratch->experts.gate : saved->experts.gate;
  if (drops_experts(kind, dropped))
    saved->experts = scratch->experts;
  else if (drops_expert_activation(kind, dropped))
    saved->experts.activation = scratch->experts.activation;
  saved->experts.gate = gate;
  if (!is_whole)
    return;
  saved->activation = scratch->activation;
  saved->up = scratch->up;
}

SavedLayer carve_every_other(const LocalSizes *local, LayerKind kind, Carver *for_i, Carver *for_w) {
  const int e = carve_element_bytes(local);
  const double t = local->tokens, stream = carve_stream_elements(local);
  const gboolean gated = local->model->gated;
  SavedLayer saved = {.attention = carve(for_w, t * local->out_width, e),
                      .lse = carve(for_i, (double)local->sequences * local->heads * local->seq_len, 4)};
  saved.products.qv = carve(for_i, t * (local->q_width + local->v_width), e);
  if (gated)
    saved.products.gate = carve(for_i, t * kind.ffn_width, e);
  else
    saved.up = carve(for_i, t * kind.up_width, e);
  if (local->sequence_parallel)
    saved.products.out = carve(for_i, stream, e);
  if (local->sequence_parallel || gated)
    saved.products.down = carve(for_i, stream, e);
  return saved;
}

SavedLayer carve_again_every_other(const LocalSizes *local, LayerKind kind, Carver *made) {
  const int e = carve_element_bytes(local);
  const double stream = carve_stream_elements(local);
  return (SavedLayer){.norm1 = carve(made, stream, e),
                      .norm2 = carve(made, stream, e),
                      .activation = carve(made, (double)local->tokens * kind.ffn_width, e)};
}

/* Whether W reads the gradients of linears' outputs themselves: in fp8 only for biases. */
static gboolean w_reads_wide(const LocalSizes *local) {
  const Model *model = local->model;
  return !local->casts || model->qkv_bias || model_has_out_bias(model) || model_has_mlp_bias(model);
}

static void carve_attention_gradients(const LocalSizes *local, Carver *carver, LayerGradients *gradients) {
  const ModelLatent *latent = &local->model->latent;
  const int e = carve_element_bytes(local);
  const double t = local->tokens, split = local->split_tokens,
               plain = (double)(local->model->head_dim - latent->rope_dim);
  if (latent->kv_rank == 0) {
    gradients->d_qkv = carve(carver, t * local_qkv_width(local), e);
    return;
  }
  gradients->d_q = carve(carver, t * local->q_width, e);
  gradients->d_kv_up = carve(carver, t * (local->heads * plain + local->v_width), e);
  gradients->d_q_down = carve(carver, split * latent->q_rank, e);
  gradients->d_kv_down = carve(carver, split * (latent->kv_rank + latent->rope_dim), e);
}

gboolean carve_has_branch_gradients(const LocalSizes *local) {
  return local->model->dropout_rate.hidden > 0 || local->n_post_norms > 0;
}

gboolean carve_w_reads_stream(const LocalSizes *local) {
  return !local->sequence_parallel && !carve_has_branch_gradients(local) && w_reads_wide(local);
}

/* Of the linears' outputs, of a layer without experts or beside them. */
static void carve_output_gradients(const LocalSizes *local, LayerKind kind, gboolean for_w, Carver *carver,
                                   LayerGradients *gradients) {
  const int e = carve_element_bytes(local);
  const double t = local->tokens, h = local->model->hidden;
  const gboolean parallel = local->model->parallel_block;
  const double stream = carve_stream_elements(local);
  if (!parallel && (!for_w || carve_w_reads_stream(local)))
    gradients->d_x2 = carve(carver, stream, e);
  if (carve_has_branch_gradients(local) && !(for_w && local->sequence_parallel)) {
    gradients->d_mlp_branch = carve(carver, stream, e);
    gradients->d_attention_branch = parallel ? NULL : carve(carver, stream, e);
  }
  gradients->d_down = local->sequence_parallel && kind.ffn_width > 0 ? carve(carver, t * h, e) : NULL;
  gradients->d_out = local->sequence_parallel && !parallel ? carve(carver, t * h, e) : NULL;
  gradients->d_up = carve(carver, t * kind.up_width, e);
  carve_attention_gradients(local, carver, gradients);
}

/* Turned. Both branches of a parallel block get the same gradient. */
static void carve_narrow_gradients(const LocalSizes *local, LayerKind kind, Carver *carver, LayerGradients *gradients) {
  for (int linear = 0; linear < N_NARROW_LINEARS && local->casts; linear++) {
    const NarrowSize size = narrow_gradient_size(carve_narrow_shape(local, kind, (NarrowLinear)linear));
    if (linear != NARROW_ATTN_OUT || !local->model->parallel_block)
      gradients->narrow[linear] = carve(carver, (double)narrow_bytes(local, narrow_turned(size), FALSE), 1);
  }
  if (local->model->parallel_block)
    gradients->narrow[NARROW_ATTN_OUT] = gradients->narrow[NARROW_MLP_DOWN];
}

LayerGradients carve_gradients(const LocalSizes *local, LayerKind kind, gboolean for_w, Carver *carver) {
  const int e = carve_element_bytes(local);
  LayerGradients gradients = {0};
  if (!for_w || w_reads_wide(local))
    carve_output_gradients(local, kind, for_w, carver, &gradients);
  carve_narrow_gradients(local, kind, carver, &gradients);
  gradients.d_adapters = carve_adapters(local, carver);
  if (!kind.has_experts)
    return gradients;
  if (!for_w || !local->casts) {
    gradients.d_rows = carve(carver, (double)local->expert_rows * local->model->hidden, e);
    gradients.d_expert_up = carve(carver, 2.0 * local->expert_rows * local->expert_width, e);
  }
  gradients.d_scores = carve(carver, (double)local->split_tokens * local->model->experts.n, e);
  gradients.d_gate = kind.has_gate ? carve(carver, local->tokens, e) : NULL;
  return gradients;
}

SavedHead carve_head(const LocalSizes *local, Carver *input, Carver *for_i, Carver *for_w) {
  const int e = carve_element_bytes(local);
  const double t = local->tokens;
  return (SavedHead){
      .x = carve(input, carve_stream_elements(local), e),
      .norm = carve(for_w, carve_stream_elements(local), e),
      .mean = carve(for_i, local->split_tokens, 4),
      .rstd = carve(for_i, local->split_tokens, 4),
      .probabilities = carve(for_i, t * local->vocab_width, 4),
      .row_max = carve(for_i, t, 4),
      .row_sum = carve(for_i, t, 4),
      .row_target = carve(for_i, t, 4),
      .capped = local->model->capped_logits ? carve(for_i, t * local->vocab_width, e) : NULL,
  };
}

SavedMtp carve_mtp(const LocalSizes *local, Carver *for_i, Carver *for_w) {
  const int e = carve_element_bytes(local);
  SavedMtp mtp = {.words = carve(for_i, carve_stream_elements(local), e)};
  for (int half = 0; half < 2; half++) {
    mtp.norms[half] = carve(for_w, carve_stream_elements(local), e);
    mtp.mean[half] = carve(for_i, local->split_tokens, 4);
    mtp.rstd[half] = carve(for_i, local->split_tokens, 4);
  }
  return mtp;
}

MtpGradients carve_mtp_gradients(const LocalSizes *local, Carver *carver) {
  const int e = carve_element_bytes(local);
  const double t = local->tokens, h = local->model->hidden;
  return (MtpGradients){.d_columns = local->tp > 1 ? carve(carver, t * h / local->tp, e) : NULL,
                        .d_embedding = carve(carver, t * h, e)};
}

SavedNorm carve_embedding(const LocalSizes *local, Carver *for_i) {
  if (!local->model->embedding_norm)
    return (SavedNorm){0};
  return (SavedNorm){.kept = carve(for_i, carve_stream_elements(local), carve_element_bytes(local)),
                     .mean = carve(for_i, local->split_tokens, 4),
                     .rstd = carve(for_i, local->split_tokens, 4)};
}

BranchScratch carve_branch_scratch(const LocalSizes *local, Carver *carver) {
  const int e = carve_element_bytes(local);
  const double stream = carve_stream_elements(local);
  if (!local->model->parallel_block)
    return (BranchScratch){0};
  return (BranchScratch){.partial = carve(carver, (double)local->tokens * local->model->hidden, e),
                         .reduced = local->shared_norm ? NULL : carve(carver, stream, e),
                         .gradient = local->shared_norm ? NULL : carve(carver, stream, e)};
}

LatentScratch carve_latent_scratch(const LocalSizes *local, Carver *carver) {
  const ModelLatent *latent = &local->model->latent;
  const int e = carve_element_bytes(local);
  const double t = local->tokens, kv = latent->kv_rank + latent->rope_dim;
  const double gathered = local->sequence_parallel ? t : 0, partial = local->tp > 1 ? t : 0;
  if (latent->kv_rank == 0)
    return (LatentScratch){0};
  return (LatentScratch){.made = carve(carver, t * (local->kv_width + local->v_width), e),
                         .d_kv = carve(carver, t * (local->kv_width + local->v_width), e),
                         .q_all = carve(carver, gathered * latent->q_rank, e),
                         .kv_all = carve(carver, gathered * kv, e),
                         .d_q_partial = carve(carver, partial * latent->q_rank, e),
                         .d_kv_partial = carve(carver, partial * kv, e),
                         .d_from_kv = carve(carver, carve_stream_elements(local), e)};
}

MtpScratch carve_mtp_scratch(const LocalSizes *local, Carver *carver) {
  const int e = carve_element_bytes(local);
  const double wide = (double)local->tokens * local->model->hidden, stream = carve_stream_elements(local);
  const double split = local->sequence_parallel ? wide : 0, is_cut = local->tp > 1;
  if (local->method->mtp_layers == 0)
    return (MtpScratch){0};
  return (MtpScratch){.gathered = {carve(carver, split, e), carve(carver, split, e)},
                      .columns = carve(carver, is_cut * wide / local->tp, e),
                      .all_columns = carve(carver, is_cut * wide, e),
                      .partial = carve(carver, wide, e),
                      .reduced = carve(carver, is_cut * stream, e),
                      .tokens = carve(carver, split, e),
                      .d_words = carve(carver, stream, e),
                      .d_x = carve(carver, stream, e)};
}

static void carve_gathered(const LocalSizes *local, Carver *carver, ExpertScratch *scratch) {
  const int e = carve_element_bytes(local);
  const gint64 table = local->split_tokens * local->model->experts.n;
  const double sources = (double)local->method->ep * local->method->expert_tp;
  scratch->chosen_bytes = (table + 3) / 4 * 4;
  for (int i = 0; i < 2; i++) {
    scratch->chosen[i] = carve(carver, (i > 0 ? sources : 1) * (double)scratch->chosen_bytes, 1);
    scratch->dense[i] = carve(carver, (i > 0 ? sources : 1) * (double)table, e);
  }
  scratch->all_tokens = carve(carver, sources * (double)local->split_tokens * local->model->hidden, e);
}

ExpertScratch carve_expert_scratch(const LocalSizes *local, Carver *carver) {
  const int e = carve_element_bytes(local);
  ExpertScratch scratch = {0};
  for (int i = 0; i < 2 && local->n_experts > 0; i++) {
    scratch.rows[i] = carve(carver, (double)local->expert_rows * local->model->hidden, e);
    scratch.columns[i] = carve(carver, local->expert_rows, 4);
    scratch.sums[i] = carve(carver, carve_stream_elements(local), e);
  }
  scratch.scores = carve(carver, (double)local->split_tokens * local->model->experts.n, e);
  scratch.d_activation = carve(carver, (double)local->expert_rows * local->expert_width, e);
  const double gated = local->model->experts.shared_gate ? local->tokens : 0;
  scratch.gate = carve(carver, gated, e);
  scratch.d_gate = carve(carver, gated, 4);
  if (local->n_experts > 0 && local->method->gathers_tokens)
    carve_gathered(local, carver, &scratch);
  return scratch;
}

ContextScratch carve_context_scratch(const LocalSizes *local, Carver *carver) {
  const int e = carve_element_bytes(local);
  const double kv = (double)local->tokens * (local->kv_width + local->v_width);
  const double q = (double)local->tokens * local->q_width, out = (double)local->tokens * local->out_width;
  ContextScratch context = {0};
  if (local->cp == 1)
    return context;
  if (is_ulysses(local)) {
    context.sent = carve(carver, (double)local->tokens * local_dealt_width(local), e);
    context.got = carve(carver, (double)local->tokens * local_dealt_width(local), e);
    context.d_out = carve(carver, out, e);
    return context;
  }
  const gboolean is_ring = local->method->cp_comm == CP_RING;
  for (int i = 0; i < 2; i++) {
    context.kv[i] = carve(carver, (is_ring ? 1 : (double)local->cp) * kv, e);
    context.d_kv[i] = is_ring ? carve(carver, kv, e) : i == 0 ? carve(carver, (double)local->cp * kv, e) : NULL;
  }
  context.part = is_ring ? carve(carver, MAX(q, out), e) : NULL;
  context.part_lse = is_ring ? carve(carver, (double)local->sequences * local->heads * local->seq_len, 4) : NULL;
  return context;
}
