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

double carve_stream_elements(const Cut *cut) {
  return (double)cut->split_tokens * cut->model->hidden;
}

int carve_element_bytes(const Cut *cut) {
  return (int)cut->element_bytes;
}

gboolean carve_is_flash(const Cut *cut) {
  return cut->method->attention == ATTENTION_FLASH;
}

static gboolean is_ulysses(const Cut *cut) {
  return cut->cp > 1 && cut->method->cp_comm == CP_ULYSSES;
}

static LayerKind layer_kind(const Cut *cut, gboolean has_experts) {
  const gint64 per_column = cut->model->gated ? 2 : 1;
  if (!has_experts)
    return (LayerKind){.ffn_width = cut->ffn_width, .up_width = cut->up_width};
  return (LayerKind){cut->shared_width, per_column * cut->shared_width, TRUE, cut->model->experts.shared_gate};
}

LayerKind carve_kind_of(const Cut *cut, const StageLayers *layers, int layer) {
  return layer_kind(cut, cut->n_experts > 0 && layer >= layers->n_dense);
}

LayerKind carve_any_kind(const Cut *cut) {
  const Model *model = cut->model;
  LayerKind kind = layer_kind(cut, cut->n_experts > 0);
  kind.is_scratch = TRUE;
  if (cut->n_experts > 0 && model_dense_layers(model, 0, model->n_layers) > 0) {
    kind.ffn_width = MAX(kind.ffn_width, cut->ffn_width);
    kind.up_width = MAX(kind.up_width, cut->up_width);
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

static gboolean is_latent(const Cut *cut) {
  return cut->model->latent.kv_rank > 0;
}

static NarrowShape latent_shape(const Cut *cut, NarrowLinear linear) {
  const ModelLatent *latent = &cut->model->latent;
  const gint64 made_width = cut->heads * (cut->model->head_dim - latent->rope_dim) + cut->v_width;
  switch (linear) {
  case NARROW_Q_DOWN:
    return latent->q_rank > 0 ? (NarrowShape){1, cut->split_tokens, cut->model->hidden, latent->q_rank}
                              : (NarrowShape){0};
  case NARROW_Q_UP:
    return (NarrowShape){1, cut->tokens, latent->q_rank > 0 ? latent->q_rank : cut->model->hidden, cut->q_width};
  case NARROW_KV_DOWN:
    return (NarrowShape){1, cut->split_tokens, cut->model->hidden, latent->kv_rank + latent->rope_dim};
  default: /* NARROW_KV_UP */
    return (NarrowShape){1, cut->tokens, latent->kv_rank, made_width};
  }
}

static NarrowShape mlp_shape(const Cut *cut, LayerKind kind, NarrowLinear linear) {
  const gint64 hidden = cut->model->hidden, up = kind.up_width, ffn = kind.ffn_width;
  if (linear == NARROW_MLP_UP || linear == NARROW_MLP_DOWN) {
    if (ffn == 0)
      return (NarrowShape){0};
    return linear == NARROW_MLP_UP ? (NarrowShape){1, cut->tokens, hidden, up}
                                   : (NarrowShape){1, cut->tokens, ffn, hidden};
  }
  if (!kind.has_experts)
    return (NarrowShape){0};
  return linear == NARROW_EXPERT_UP ? (NarrowShape){cut->n_experts, cut->expert_tokens, hidden, 2 * cut->expert_width}
                                    : (NarrowShape){cut->n_experts, cut->expert_tokens, cut->expert_width, hidden};
}

NarrowShape carve_narrow_shape(const Cut *cut, LayerKind kind, NarrowLinear linear) {
  if (linear == NARROW_QKV)
    return is_latent(cut) ? (NarrowShape){0} : (NarrowShape){1, cut->tokens, cut->model->hidden, cut_qkv_width(cut)};
  if (linear == NARROW_ATTN_OUT)
    return (NarrowShape){1, cut->tokens, cut->out_width, cut->model->hidden};
  if (linear < NARROW_ATTN_OUT)
    return is_latent(cut) ? latent_shape(cut, linear) : (NarrowShape){0};
  return mlp_shape(cut, kind, linear);
}

/* What a linear reads, turned, for W. */
static void carve_input(const Cut *cut, NarrowInput input, NarrowSize size, Carver *carver, SavedLayer *saved) {
  if (cut->casts)
    saved->narrow[input] = carve(carver, (double)narrow_bytes(cut, narrow_turned(size), FALSE), 1);
}

/* NULL, and no bytes, for what only W reads in fp8, unless it is gathered first. */
static void *carve_wide(const Cut *cut, LayerKind kind, gboolean is_read, Carver *carver, double n) {
  const gboolean is_kept = !cut->casts || kind.is_scratch || is_read;
  return is_kept ? carve(carver, n, carve_element_bytes(cut)) : NULL;
}

/* Whether a linear that tp cuts reads the output of the norm before attention; a down projection reads it too. */
static gboolean is_norm1_cut(const Cut *cut) {
  return !is_latent(cut) || cut->model->latent.q_rank == 0 || cut->shared_norm;
}

static void carve_norm1(const Cut *cut, LayerKind kind, Carver *carver, SavedLayer *saved) {
  const gboolean is_gathered = cut->sequence_parallel && is_norm1_cut(cut);
  saved->norm1 = carve_wide(cut, kind, is_gathered, carver, carve_stream_elements(cut));
}

/* The router reads it too. */
static void carve_norm2(const Cut *cut, LayerKind kind, Carver *carver, SavedLayer *saved) {
  saved->norm2 = carve_wide(cut, kind, cut->sequence_parallel || kind.has_experts, carver, carve_stream_elements(cut));
}

/* The same, or the stream where there are no norms before the branches, turned. */
static void carve_branch_inputs(const Cut *cut, LayerKind kind, Carver *carver, SavedLayer *saved) {
  const NarrowSize size = {1, cut->split_tokens, cut->model->hidden};
  if (!cut->sequence_parallel || is_latent(cut))
    carve_input(cut, INPUT_NORM1, size, carver, saved);
  if (!cut->sequence_parallel && !cut->shared_norm && kind.ffn_width > 0)
    carve_input(cut, INPUT_NORM2, size, carver, saved);
}

static void carve_activation(const Cut *cut, LayerKind kind, Carver *carver, SavedLayer *saved) {
  saved->activation = carve_wide(cut, kind, FALSE, carver, (double)cut->tokens * kind.ffn_width);
  if (kind.ffn_width > 0)
    carve_input(cut, INPUT_ACTIVATION, (NarrowSize){1, cut->tokens, kind.ffn_width}, carver, saved);
}

static void carve_expert_rows(const Cut *cut, LayerKind kind, Carver *carver, SavedLayer *saved) {
  saved->experts.rows = carve_wide(cut, kind, FALSE, carver, (double)cut->expert_rows * cut->model->hidden);
  carve_input(cut, INPUT_ROWS, (NarrowSize){cut->n_experts, cut->expert_tokens, cut->model->hidden}, carver, saved);
}

static void carve_expert_activation(const Cut *cut, LayerKind kind, Carver *carver, SavedLayer *saved) {
  saved->experts.activation = carve_wide(cut, kind, FALSE, carver, (double)cut->expert_rows * cut->expert_width);
  carve_input(cut, INPUT_EXPERT_ACTIVATION, (NarrowSize){cut->n_experts, cut->expert_tokens, cut->expert_width}, carver,
              saved);
}

/* After their norms; the shared o columns are stored with K and V's latent, as they are gathered together. */
static void carve_latent_inputs(const Cut *cut, LayerKind kind, Carver *carver, SavedLayer *saved) {
  const ModelLatent *latent = &cut->model->latent;
  const double t = cut->split_tokens;
  saved->q_latent = carve_wide(cut, kind, cut->sequence_parallel, carver, t * latent->q_rank);
  saved->kv_latent = carve_wide(cut, kind, cut->sequence_parallel, carver, t * (latent->kv_rank + latent->rope_dim));
  if (cut->sequence_parallel)
    return;
  if (latent->q_rank > 0)
    carve_input(cut, INPUT_Q_LATENT, (NarrowSize){1, cut->tokens, latent->q_rank}, carver, saved);
  carve_input(cut, INPUT_KV_LATENT, (NarrowSize){1, cut->tokens, latent->kv_rank}, carver, saved);
}

NarrowScratch carve_narrow_scratch(const Cut *cut, gboolean has_weight, Carver *carver) {
  gint64 as_is = 0, turned = 0, weight = 0;
  for (int linear = 0; linear < N_NARROW_LINEARS && cut->casts; linear++) {
    const NarrowShape shape = carve_narrow_shape(cut, carve_any_kind(cut), (NarrowLinear)linear);
    const NarrowSize input = narrow_input_size(shape), of_weight = narrow_weight_size(shape);
    as_is = MAX(as_is, narrow_bytes(cut, input, FALSE));
    as_is = MAX(as_is, narrow_bytes(cut, narrow_gradient_size(shape), FALSE));
    if (narrow_is_gathered(cut, (NarrowLinear)linear))
      turned = MAX(turned, narrow_bytes(cut, narrow_turned(input), FALSE));
    weight = MAX(weight, MAX(narrow_bytes(cut, of_weight, TRUE), narrow_bytes(cut, narrow_turned(of_weight), TRUE)));
  }
  return (NarrowScratch){.as_is = carve(carver, (double)as_is, 1),
                         .turned = carve(carver, (double)turned, 1),
                         .weight = carve(carver, has_weight ? (double)weight : 0, 1)};
}

/* --- a layer ------------------------------------------------------------------------------------------------------ */

/* The gate belongs to the shared expert and is dropped with it. */
static void carve_experts(const Cut *cut, LayerKind kind, guint dropped, Carver *for_i, Carver *for_w,
                          SavedLayer *saved) {
  const double rows = cut->expert_rows;
  SavedExperts *experts = &saved->experts;
  if (kind.has_gate && !drops_mlp(kind, dropped))
    experts->gate = carve(for_i, cut->tokens, 4);
  if (!kind.has_experts || drops_experts(kind, dropped))
    return;
  carve_expert_rows(cut, kind, for_w, saved);
  if (!drops_expert_activation(kind, dropped))
    carve_expert_activation(cut, kind, for_w, saved);
  experts->place = carve(for_i, cut->routed_tokens, 4);
  experts->weights = carve(for_i, cut->routed_tokens, 4);
  experts->row_weights = cut_n_sources(cut) > 1 ? carve(for_i, rows, 4) : experts->weights;
  experts->up = carve(for_i, 2 * rows * cut->expert_width, carve_element_bytes(cut));
}

static SavedNorm carve_qk_norm(const Cut *cut, gint64 width, Carver *for_i) {
  const gboolean of_heads = cut->model->qk_norms != QK_NORMS_WHOLE, has_mean = cut->model->norm == NORM_LAYERNORM;
  const double rows = (double)cut->tokens * (of_heads ? width / cut->model->head_dim : 1);
  if (cut->model->qk_norms == QK_NORMS_NONE)
    return (SavedNorm){0};
  return (SavedNorm){.kept = carve(for_i, (double)cut->tokens * width, carve_element_bytes(cut)),
                     .mean = has_mean ? carve(for_i, rows, 4) : NULL,
                     .rstd = carve(for_i, rows, 4)};
}

/* The latents that Q, K and V are computed from. */
static void carve_latents(const Cut *cut, LayerKind kind, guint dropped, Carver *for_i, Carver *for_w,
                          SavedLayer *saved) {
  const ModelLatent *latent = &cut->model->latent;
  const int e = carve_element_bytes(cut);
  const double t = cut->split_tokens;
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
  carve_latent_inputs(cut, kind, for_w, saved);
}

/* NULL, and no bytes, if the tensor belongs to a module that is not kept. */
static void *carve_unless(guint dropped, RecomputeModule module, Carver *carver, double n, int element_bytes) {
  return (dropped & MODULE_BIT(module)) == 0 ? carve(carver, n, element_bytes) : NULL;
}

gboolean carve_reads_stream(const Cut *cut) {
  return cut->n_norms == 0;
}

gboolean carve_w_reads_input(const Cut *cut) {
  return carve_reads_stream(cut) && (!cut->casts || cut->sequence_parallel);
}

static void carve_norms_before(const Cut *cut, LayerKind kind, guint dropped, Carver *for_i, Carver *for_w,
                               SavedLayer *saved) {
  const double rows = cut->split_tokens;
  const gboolean is_kept = (dropped & MODULE_BIT(MODULE_LAYERNORM)) == 0;
  if (is_kept)
    carve_norm1(cut, kind, for_w, saved);
  saved->mean1 = carve(for_i, rows, 4);
  saved->rstd1 = carve(for_i, rows, 4);
  if (cut->shared_norm)
    return;
  if (is_kept)
    carve_norm2(cut, kind, for_w, saved);
  saved->mean2 = carve(for_i, rows, 4);
  saved->rstd2 = carve(for_i, rows, 4);
}

/* Attention's output: in fp8 only fused attention reads it again, unless it has been exchanged. */
static void carve_attention(const Cut *cut, LayerKind kind, Carver *for_i, Carver *for_w, SavedLayer *saved) {
  const double t = cut->tokens;
  saved->attention =
      carve_wide(cut, kind, carve_is_flash(cut) && !is_ulysses(cut), cut->casts ? for_i : for_w, t * cut->out_width);
  carve_input(cut, INPUT_ATTENTION, (NarrowSize){1, cut->tokens, cut->out_width}, for_w, saved);
}

SavedLayer carve_layer(const Cut *cut, LayerKind kind, guint dropped, Carver *for_i, Carver *for_w) {
  const int e = carve_element_bytes(cut);
  const double t = cut->tokens, stream = carve_stream_elements(cut);
  const gboolean parallel = cut->model->parallel_block;
  SavedLayer saved = {0};
  if (cut->n_norms > 0)
    carve_norms_before(cut, kind, dropped, for_i, for_w, &saved);
  if ((dropped & MODULE_BIT(MODULE_LAYERNORM)) == 0)
    carve_branch_inputs(cut, kind, for_w, &saved);
  carve_attention(cut, kind, for_i, for_w, &saved);
  const gboolean keeps_mlp = !drops_mlp(kind, dropped);
  if (keeps_mlp)
    carve_activation(cut, kind, for_w, &saved);
  for (int i = 0; i < cut->n_post_norms; i++)
    saved.post_norms[i] = (SavedNorm){.kept = carve(for_i, stream, e),
                                      .mean = carve(for_i, cut->split_tokens, 4),
                                      .rstd = carve(for_i, cut->split_tokens, 4)};
  saved.qkv = carve_unless(dropped, MODULE_MLA_UP_PROJ, for_i, t * cut_dealt_width(cut), e);
  saved.q_norm = carve_qk_norm(cut, cut->q_width, for_i);
  saved.k_norm = carve_qk_norm(cut, cut->kv_width, for_i);
  carve_latents(cut, kind, dropped, for_i, for_w, &saved);
  saved.scores = carve_is_flash(cut) ? NULL : carve_unless(dropped, MODULE_CORE_ATTN, for_i, cut->scores, e);
  if (cut->model->dropout_rate.attention > 0)
    saved.dropped = carve_is_flash(cut) ? NULL : carve_unless(dropped, MODULE_CORE_ATTN, for_i, cut->scores, e);
  saved.lse = carve_is_flash(cut) ? carve(for_i, (double)cut->sequences * cut->heads * cut->seq_len, 4) : NULL;
  saved.all_tokens = is_ulysses(cut) ? carve(for_i, t * cut->out_width, e) : NULL;
  saved.x2 = parallel ? NULL : carve(carve_w_reads_input(cut) ? for_w : for_i, stream, e);
  saved.up = keeps_mlp ? carve(for_i, t * kind.up_width, e) : NULL;
  carve_experts(cut, kind, dropped, for_i, for_w, &saved);
  return saved;
}

SavedLayer carve_again(const Cut *cut, LayerKind kind, guint dropped, Carver *made) {
  SavedLayer again = {0};
  if (dropped & MODULE_BIT(MODULE_LAYERNORM)) {
    carve_norm1(cut, kind, made, &again);
    carve_norm2(cut, kind, made, &again);
    carve_branch_inputs(cut, kind, made, &again);
  }
  if (dropped & MODULE_BIT(MODULE_MLA_UP_PROJ))
    carve_latent_inputs(cut, kind, made, &again);
  if (drops_mlp(kind, dropped))
    carve_activation(cut, kind, made, &again);
  if (drops_experts(kind, dropped))
    carve_expert_rows(cut, kind, made, &again);
  if (drops_expert_activation(kind, dropped))
    carve_expert_activation(cut, kind, made, &again);
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

SavedLayer carve_every_other(const Cut *cut, LayerKind kind, Carver *for_i, Carver *for_w) {
  const int e = carve_element_bytes(cut);
  const double t = cut->tokens, stream = carve_stream_elements(cut);
  const gboolean gated = cut->model->gated;
  SavedLayer saved = {.attention = carve(for_w, t * cut->out_width, e),
                      .lse = carve(for_i, (double)cut->sequences * cut->heads * cut->seq_len, 4)};
  saved.products.qv = carve(for_i, t * (cut->q_width + cut->v_width), e);
  if (gated)
    saved.products.gate = carve(for_i, t * kind.ffn_width, e);
  else
    saved.up = carve(for_i, t * kind.up_width, e);
  if (cut->sequence_parallel)
    saved.products.out = carve(for_i, stream, e);
  if (cut->sequence_parallel || gated)
    saved.products.down = carve(for_i, stream, e);
  return saved;
}

SavedLayer carve_again_every_other(const Cut *cut, LayerKind kind, Carver *made) {
  const int e = carve_element_bytes(cut);
  const double stream = carve_stream_elements(cut);
  return (SavedLayer){.norm1 = carve(made, stream, e),
                      .norm2 = carve(made, stream, e),
                      .activation = carve(made, (double)cut->tokens * kind.ffn_width, e)};
}

/* Whether W reads the gradients of linears' outputs themselves: in fp8 only for biases. */
static gboolean w_reads_wide(const Cut *cut) {
  const Model *model = cut->model;
  return !cut->casts || model->qkv_bias || model_has_out_bias(model) || model_has_mlp_bias(model);
}

static void carve_attention_gradients(const Cut *cut, Carver *carver, LayerGradients *gradients) {
  const ModelLatent *latent = &cut->model->latent;
  const int e = carve_element_bytes(cut);
  const double t = cut->tokens, split = cut->split_tokens, plain = (double)(cut->model->head_dim - latent->rope_dim);
  if (latent->kv_rank == 0) {
    gradients->d_qkv = carve(carver, t * cut_qkv_width(cut), e);
    return;
  }
  gradients->d_q = carve(carver, t * cut->q_width, e);
  gradients->d_kv_up = carve(carver, t * (cut->heads * plain + cut->v_width), e);
  gradients->d_q_down = carve(carver, split * latent->q_rank, e);
  gradients->d_kv_down = carve(carver, split * (latent->kv_rank + latent->rope_dim), e);
}

gboolean carve_has_branch_gradients(const Cut *cut) {
  return cut->model->dropout_rate.hidden > 0 || cut->n_post_norms > 0;
}

gboolean carve_w_reads_stream(const Cut *cut) {
  return !cut->sequence_parallel && !carve_has_branch_gradients(cut) && w_reads_wide(cut);
}

/* Of the linears' outputs, of a layer without experts or beside them. */
static void carve_output_gradients(const Cut *cut, LayerKind kind, gboolean for_w, Carver *carver,
                                   LayerGradients *gradients) {
  const int e = carve_element_bytes(cut);
  const double t = cut->tokens, h = cut->model->hidden;
  const gboolean parallel = cut->model->parallel_block;
  const double stream = carve_stream_elements(cut);
  if (!parallel && (!for_w || carve_w_reads_stream(cut)))
    gradients->d_x2 = carve(carver, stream, e);
  if (carve_has_branch_gradients(cut) && !(for_w && cut->sequence_parallel)) {
    gradients->d_mlp_branch = carve(carver, stream, e);
    gradients->d_attention_branch = parallel ? NULL : carve(carver, stream, e);
  }
  gradients->d_down = cut->sequence_parallel && kind.ffn_width > 0 ? carve(carver, t * h, e) : NULL;
  gradients->d_out = cut->sequence_parallel && !parallel ? carve(carver, t * h, e) : NULL;
  gradients->d_up = carve(carver, t * kind.up_width, e);
  carve_attention_gradients(cut, carver, gradients);
}

/* Turned. Both branches of a parallel block get the same gradient. */
static void carve_narrow_gradients(const Cut *cut, LayerKind kind, Carver *carver, LayerGradients *gradients) {
  for (int linear = 0; linear < N_NARROW_LINEARS && cut->casts; linear++) {
    const NarrowSize size = narrow_gradient_size(carve_narrow_shape(cut, kind, (NarrowLinear)linear));
    if (linear != NARROW_ATTN_OUT || !cut->model->parallel_block)
      gradients->narrow[linear] = carve(carver, (double)narrow_bytes(cut, narrow_turned(size), FALSE), 1);
  }
  if (cut->model->parallel_block)
    gradients->narrow[NARROW_ATTN_OUT] = gradients->narrow[NARROW_MLP_DOWN];
}

LayerGradients carve_gradients(const Cut *cut, LayerKind kind, gboolean for_w, Carver *carver) {
  const int e = carve_element_bytes(cut);
  LayerGradients gradients = {0};
  if (!for_w || w_reads_wide(cut))
    carve_output_gradients(cut, kind, for_w, carver, &gradients);
  carve_narrow_gradients(cut, kind, carver, &gradients);
  if (!kind.has_experts)
    return gradients;
  if (!for_w || !cut->casts) {
    gradients.d_rows = carve(carver, (double)cut->expert_rows * cut->model->hidden, e);
    gradients.d_expert_up = carve(carver, 2.0 * cut->expert_rows * cut->expert_width, e);
  }
  gradients.d_scores = carve(carver, (double)cut->split_tokens * cut->model->experts.n, e);
  gradients.d_gate = kind.has_gate ? carve(carver, cut->tokens, e) : NULL;
  return gradients;
}

SavedHead carve_head(const Cut *cut, Carver *input, Carver *for_i, Carver *for_w) {
  const int e = carve_element_bytes(cut);
  const double t = cut->tokens;
  return (SavedHead){
      .x = carve(input, carve_stream_elements(cut), e),
      .norm = carve(for_w, carve_stream_elements(cut), e),
      .mean = carve(for_i, cut->split_tokens, 4),
      .rstd = carve(for_i, cut->split_tokens, 4),
      .probabilities = carve(for_i, t * cut->vocab_width, 4),
      .row_max = carve(for_i, t, 4),
      .row_sum = carve(for_i, t, 4),
      .row_target = carve(for_i, t, 4),
      .capped = cut->model->capped_logits ? carve(for_i, t * cut->vocab_width, e) : NULL,
  };
}

SavedMtp carve_mtp(const Cut *cut, Carver *for_i, Carver *for_w) {
  const int e = carve_element_bytes(cut);
  SavedMtp mtp = {.words = carve(for_i, carve_stream_elements(cut), e)};
  for (int half = 0; half < 2; half++) {
    mtp.norms[half] = carve(for_w, carve_stream_elements(cut), e);
    mtp.mean[half] = carve(for_i, cut->split_tokens, 4);
    mtp.rstd[half] = carve(for_i, cut->split_tokens, 4);
  }
  return mtp;
}

MtpGradients carve_mtp_gradients(const Cut *cut, Carver *carver) {
  const int e = carve_element_bytes(cut);
  const double t = cut->tokens, h = cut->model->hidden;
  return (MtpGradients){.d_columns = cut->tp > 1 ? carve(carver, t * h / cut->tp, e) : NULL,
                        .d_embedding = carve(carver, t * h, e)};
}

SavedNorm carve_embedding(const Cut *cut, Carver *for_i) {
  if (!cut->model->embedding_norm)
    return (SavedNorm){0};
  return (SavedNorm){.kept = carve(for_i, carve_stream_elements(cut), carve_element_bytes(cut)),
                     .mean = carve(for_i, cut->split_tokens, 4),
                     .rstd = carve(for_i, cut->split_tokens, 4)};
}

BranchScratch carve_branch_scratch(const Cut *cut, Carver *carver) {
  const int e = carve_element_bytes(cut);
  const double stream = carve_stream_elements(cut);
  if (!cut->model->parallel_block)
    return (BranchScratch){0};
  return (BranchScratch){.partial = carve(carver, (double)cut->tokens * cut->model->hidden, e),
                         .reduced = cut->shared_norm ? NULL : carve(carver, stream, e),
                         .gradient = cut->shared_norm ? NULL : carve(carver, stream, e)};
}

LatentScratch carve_latent_scratch(const Cut *cut, Carver *carver) {
  const ModelLatent *latent = &cut->model->latent;
  const int e = carve_element_bytes(cut);
  const double t = cut->tokens, kv = latent->kv_rank + latent->rope_dim;
  const double gathered = cut->sequence_parallel ? t : 0, partial = cut->tp > 1 ? t : 0;
  if (latent->kv_rank == 0)
    return (LatentScratch){0};
  return (LatentScratch){.made = carve(carver, t * (cut->kv_width + cut->v_width), e),
                         .d_kv = carve(carver, t * (cut->kv_width + cut->v_width), e),
                         .q_all = carve(carver, gathered * latent->q_rank, e),
                         .kv_all = carve(carver, gathered * kv, e),
                         .d_q_partial = carve(carver, partial * latent->q_rank, e),
                         .d_kv_partial = carve(carver, partial * kv, e),
                         .d_from_kv = carve(carver, carve_stream_elements(cut), e)};
}

MtpScratch carve_mtp_scratch(const Cut *cut, Carver *carver) {
  const int e = carve_element_bytes(cut);
  const double wide = (double)cut->tokens * cut->model->hidden, stream = carve_stream_elements(cut);
  const double split = cut->sequence_parallel ? wide : 0, is_cut = cut->tp > 1;
  if (cut->method->mtp_layers == 0)
    return (MtpScratch){0};
  return (MtpScratch){.gathered = {carve(carver, split, e), carve(carver, split, e)},
                      .columns = carve(carver, is_cut * wide / cut->tp, e),
                      .all_columns = carve(carver, is_cut * wide, e),
                      .partial = carve(carver, wide, e),
                      .reduced = carve(carver, is_cut * stream, e),
                      .tokens = carve(carver, split, e),
                      .d_words = carve(carver, stream, e),
                      .d_x = carve(carver, stream, e)};
}

static void carve_gathered(const Cut *cut, Carver *carver, ExpertScratch *scratch) {
  const int e = carve_element_bytes(cut);
  const gint64 table = cut->split_tokens * cut->model->experts.n;
  const double sources = (double)cut->method->ep * cut->method->expert_tp;
  scratch->chosen_bytes = (table + 3) / 4 * 4;
  for (int i = 0; i < 2; i++) {
    scratch->chosen[i] = carve(carver, (i > 0 ? sources : 1) * (double)scratch->chosen_bytes, 1);
    scratch->dense[i] = carve(carver, (i > 0 ? sources : 1) * (double)table, e);
  }
  scratch->all_tokens = carve(carver, sources * (double)cut->split_tokens * cut->model->hidden, e);
}

ExpertScratch carve_expert_scratch(const Cut *cut, Carver *carver) {
  const int e = carve_element_bytes(cut);
  ExpertScratch scratch = {0};
  for (int i = 0; i < 2 && cut->n_experts > 0; i++) {
    scratch.rows[i] = carve(carver, (double)cut->expert_rows * cut->model->hidden, e);
    scratch.columns[i] = carve(carver, cut->expert_rows, 4);
    scratch.sums[i] = carve(carver, carve_stream_elements(cut), e);
  }
  scratch.scores = carve(carver, (double)cut->split_tokens * cut->model->experts.n, e);
  scratch.d_activation = carve(carver, (double)cut->expert_rows * cut->expert_width, e);
  const double gated = cut->model->experts.shared_gate ? cut->tokens : 0;
  scratch.gate = carve(carver, gated, e);
  scratch.d_gate = carve(carver, gated, 4);
  if (cut->n_experts > 0 && cut->method->gathers_tokens)
    carve_gathered(cut, carver, &scratch);
  return scratch;
}

ContextScratch carve_context_scratch(const Cut *cut, Carver *carver) {
  const int e = carve_element_bytes(cut);
  const double kv = (double)cut->tokens * (cut->kv_width + cut->v_width);
  const double q = (double)cut->tokens * cut->q_width, out = (double)cut->tokens * cut->out_width;
  ContextScratch context = {0};
  if (cut->cp == 1)
    return context;
  if (is_ulysses(cut)) {
    context.sent = carve(carver, (double)cut->tokens * cut_dealt_width(cut), e);
    context.got = carve(carver, (double)cut->tokens * cut_dealt_width(cut), e);
    context.d_out = carve(carver, out, e);
    return context;
  }
  const gboolean is_ring = cut->method->cp_comm == CP_RING;
  for (int i = 0; i < 2; i++) {
    context.kv[i] = carve(carver, (is_ring ? 1 : (double)cut->cp) * kv, e);
    context.d_kv[i] = is_ring ? carve(carver, kv, e) : i == 0 ? carve(carver, (double)cut->cp * kv, e) : NULL;
  }
  context.part = is_ring ? carve(carver, MAX(q, out), e) : NULL;
  context.part_lse = is_ring ? carve(carver, (double)cut->sequences * cut->heads * cut->seq_len, 4) : NULL;
  return context;
}
