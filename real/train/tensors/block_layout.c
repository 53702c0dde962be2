/* The tensors of a layer with experts:
 *
 *     layer     | norms | behind branches | of q, of k | q_down kv_down | router | its bias | shared expert's gate |
 *               | q k v (q_up kv_up) | attn_out | shared expert, in the MLP's place |
 *     experts   | gate up down of the rank's first | of its second | … */
#include "parameters.h"

#include <math.h>

enum { ALIGN = 8 }; /* elements: 16 bytes of the narrowest format */

static const float weight_deviation = 0.02f; /* GPT-2's initializer_range; 1/√(2·layers) of it for branch outputs */

gboolean block_has_experts(const Parameters *parameters, const Block *block) {
  const Workload *workload = parameters->workload;
  const StageLayers *layers = &workload->stages[block->stage].layers;
  return model_has_experts(workload->model) && block->layer >= layers->first_layer + layers->n_dense;
}

typedef struct {
  const Parameters *parameters;
  Block *block;
  GArray *tensors; /* of Tensor */
  char *prefix;    /* of the tensors' names; owned */
  guint64 seed;
  int n_cut, at; /* ranks that cut a tensor and this one's index: in tp, or in the experts' group */
} Layouter;

static gint64 round_up(gint64 n, gint64 multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/* Whether a role must follow the previous tensor without a gap: parts of one product's matrix do, and so do a rank's
 * experts. */
static gboolean follows(Role role) {
  static const Role roles[] = {ROLE_K,       ROLE_V,           ROLE_UP,        ROLE_K_BIAS,     ROLE_V_BIAS,
                               ROLE_UP_BIAS, ROLE_EXPERT_GATE, ROLE_EXPERT_UP, ROLE_EXPERT_DOWN};
  for (gsize i = 0; i < G_N_ELEMENTS(roles); i++)
    if (roles[i] == role)
      return TRUE;
  return FALSE;
}

/* Roles of norms' weights; a norm's shift follows its weight. */
static const Role norm_weights[] = {ROLE_NORM1,  ROLE_NORM2,          ROLE_POST_NORM1, ROLE_POST_NORM2,
                                    ROLE_Q_NORM, ROLE_MTP_FINAL_NORM, ROLE_K_NORM};

static gboolean is_norm_weight(Role role) {
  for (gsize i = 0; i < G_N_ELEMENTS(norm_weights); i++)
    if (norm_weights[i] == role)
      return TRUE;
  return FALSE;
}

/* The dimension of a tensor that ranks cut. */
typedef enum { CUT_NOTHING, CUT_ROWS, CUT_COLUMNS } CutDimension;

static void add_tensor(Layouter *layouter, Role role, const char *name, gint64 rows, gint64 columns, CutDimension local,
                       float deviation) {
  gint64 end = 0;
  if (layouter->tensors->len > 0) {
    const Tensor *last = &g_array_index(layouter->tensors, Tensor, layouter->tensors->len - 1);
    end = last->offset + last->rows * last->columns;
  }
  Tensor tensor = {
      .name = g_strdup_printf("%s%s", layouter->prefix, name),
      .role = (guint8)role,
      .is_whole = local == CUT_NOTHING,
      .offset = follows(role) ? end : round_up(end, ALIGN),
      .rows = local == CUT_ROWS ? rows / layouter->n_cut : rows,
      .columns = local == CUT_COLUMNS ? columns / layouter->n_cut : columns,
      .whole_rows = rows,
      .whole_columns = columns,
      .mean = is_norm_weight(role) ? 1.0f : 0.0f,
      .deviation = deviation,
      .seed = layouter->seed + (guint64)role * 0x9E3779B9u,
  };
  tensor.first_row = local == CUT_ROWS ? layouter->at * tensor.rows : 0;
  tensor.first_column = local == CUT_COLUMNS ? layouter->at * tensor.columns : 0;
  if (layouter->block->offset_of[role] < 0) /* for experts, the first one's */
    layouter->block->offset_of[role] = tensor.offset;
  if (is_norm_weight(role) || (role > 0 && is_norm_weight(role - 1)))
    layouter->block->n_norms = tensor.offset + tensor.columns;
  if (tensor.is_whole)
    layouter->block->n_whole = tensor.offset + tensor.rows * tensor.columns;
  g_array_append_val(layouter->tensors, tensor);
}

static void add_vector(Layouter *layouter, Role role, const char *name, gint64 n, gboolean is_cut) {
  add_tensor(layouter, role, name, 1, n, is_cut ? CUT_COLUMNS : CUT_NOTHING, weight_deviation);
}

static void add_norm_of(Layouter *layouter, Role role, const char *name, gint64 width) {
  const Model *model = layouter->parameters->workload->model;
  if (model->fixed_norms)
    return;
  g_autofree char *weight = g_strdup_printf("%s.weight", name), *shift = g_strdup_printf("%s.bias", name);
  add_vector(layouter, role, weight, width, FALSE);
  const gboolean is_of_qk = role == ROLE_Q_NORM || role == ROLE_K_NORM;
  if (model->norm == NORM_LAYERNORM && !model->bare_norms && !(is_of_qk && model->bare_qk_norms))
    add_vector(layouter, role + 1, shift, width, FALSE);
}

static void add_norm(Layouter *layouter, Role role, const char *name) {
  add_norm_of(layouter, role, name, layouter->parameters->workload->model->hidden);
}

static void add_qk_norms(Layouter *layouter) {
  const Model *model = layouter->parameters->workload->model;
  const gboolean is_shared = model->qk_norms == QK_NORMS_HEADS;
  if (model->latent.q_rank > 0)
    add_norm_of(layouter, ROLE_Q_NORM, "q_norm", model->latent.q_rank);
  if (model->latent.kv_rank > 0)
    add_norm_of(layouter, ROLE_K_NORM, "kv_norm", model->latent.kv_rank);
  if (model->qk_norms == QK_NORMS_NONE)
    return;
  add_norm_of(layouter, ROLE_Q_NORM, "q_norm", (is_shared ? 1 : model->n_heads) * model->head_dim);
  add_norm_of(layouter, ROLE_K_NORM, "k_norm", (is_shared ? 1 : model->n_kv_heads) * model->head_dim);
}

/* Vectors that every tp rank holds whole come first; of these, the norms' come first. */
static void lay_out_whole(Layouter *layouter) {
  const Model *model = layouter->parameters->workload->model;
  const gint64 h = model->hidden;
  const LocalSizes *local = &layouter->parameters->local;
  if (local->n_norms > 0)
    add_norm(layouter, ROLE_NORM1, "attn_norm");
  if (local->n_norms > 1)
    add_norm(layouter, ROLE_NORM2, "mlp_norm");
  if (local->n_post_norms > 0) {
    add_norm(layouter, ROLE_POST_NORM1, "attn_post_norm");
    add_norm(layouter, ROLE_POST_NORM2, "mlp_post_norm");
  }
  add_qk_norms(layouter);
  if (model_has_out_bias(model))
    add_vector(layouter, ROLE_ATTN_OUT_BIAS, "attn_out.bias", h, FALSE);
  if (model_has_mlp_bias(model))
    add_vector(layouter, ROLE_MLP_DOWN_BIAS, "mlp_down.bias", h, FALSE);
  if (model->latent.q_rank > 0)
    add_tensor(layouter, ROLE_Q_DOWN, "q_down.weight", model->latent.q_rank, h, CUT_NOTHING, weight_deviation);
  if (model->latent.kv_rank > 0)
    add_tensor(layouter, ROLE_KV_DOWN, "kv_down.weight", model->latent.kv_rank + model->latent.rope_dim, h, CUT_NOTHING,
               weight_deviation);
  if (!block_has_experts(layouter->parameters, layouter->block))
    return;
  add_tensor(layouter, ROLE_ROUTER, "router.weight", model->experts.n, h, CUT_NOTHING, weight_deviation);
  if (model->experts.biased_scores)
    add_tensor(layouter, ROLE_SCORE_BIAS, "router.bias", 1, model->experts.n, CUT_NOTHING, 0);
  if (model->experts.shared_gate)
    add_vector(layouter, ROLE_SHARED_GATE, "shared_gate.weight", h, FALSE);
}

/* Each head's rows of kv_up are first those for K, then those for V. */
static void lay_out_latent_attention(Layouter *layouter, float narrow) {
  const Model *model = layouter->parameters->workload->model;
  const ModelLatent *latent = &model->latent;
  const gint64 heads = model->n_heads, made = model->head_dim - latent->rope_dim + latent->v_head_dim;
  add_tensor(layouter, ROLE_Q, "q_up.weight", heads * model->head_dim,
             latent->q_rank > 0 ? latent->q_rank : model->hidden, CUT_ROWS, weight_deviation);
  add_tensor(layouter, ROLE_KV_UP, "kv_up.weight", heads * made, latent->kv_rank, CUT_ROWS, weight_deviation);
  add_tensor(layouter, ROLE_ATTN_OUT, "attn_out.weight", model->hidden, heads * latent->v_head_dim, CUT_COLUMNS,
             narrow);
}

static void lay_out_attention(Layouter *layouter, float narrow) {
  const Model *model = layouter->parameters->workload->model;
  const gint64 h = model->hidden, q = model->n_heads * model->head_dim, kv = model->n_kv_heads * model->head_dim;
  add_tensor(layouter, ROLE_Q, "q.weight", q, h, CUT_ROWS, weight_deviation);
  add_tensor(layouter, ROLE_K, "k.weight", kv, h, CUT_ROWS, weight_deviation);
  add_tensor(layouter, ROLE_V, "v.weight", kv, h, CUT_ROWS, weight_deviation);
  if (model->qkv_bias) {
    add_vector(layouter, ROLE_Q_BIAS, "q.bias", q, TRUE);
    add_vector(layouter, ROLE_K_BIAS, "k.bias", kv, TRUE);
    add_vector(layouter, ROLE_V_BIAS, "v.bias", kv, TRUE);
  }
  add_tensor(layouter, ROLE_ATTN_OUT, "attn_out.weight", h, q, CUT_COLUMNS, narrow);
}

static void lay_out_mlp(Layouter *layouter, float narrow) {
  const Model *model = layouter->parameters->workload->model;
  const gint64 h = model->hidden, f = model->ffn_hidden;
  add_tensor(layouter, ROLE_GATE, model->gated ? "gate.weight" : "mlp_up.weight", f, h, CUT_ROWS, weight_deviation);
  if (model->gated)
    add_tensor(layouter, ROLE_UP, "mlp_up.weight", f, h, CUT_ROWS, weight_deviation);
  if (model_has_mlp_bias(model)) {
    add_vector(layouter, ROLE_GATE_BIAS, model->gated ? "gate.bias" : "mlp_up.bias", f, TRUE);
    if (model->gated)
      add_vector(layouter, ROLE_UP_BIAS, "mlp_up.bias", f, TRUE);
  }
  add_tensor(layouter, ROLE_MLP_DOWN, "mlp_down.weight", h, f, CUT_COLUMNS, narrow);
}

/* In the MLP's place and with its roles; none if the model has no shared expert. */
static void lay_out_shared_expert(Layouter *layouter, float narrow) {
  const Model *model = layouter->parameters->workload->model;
  const gint64 h = model->hidden, f = model->experts.shared_ffn_hidden;
  if (f == 0)
    return;
  add_tensor(layouter, ROLE_GATE, "shared.gate.weight", f, h, CUT_ROWS, weight_deviation);
  add_tensor(layouter, ROLE_UP, "shared.up.weight", f, h, CUT_ROWS, weight_deviation);
  add_tensor(layouter, ROLE_MLP_DOWN, "shared.down.weight", h, f, CUT_COLUMNS, narrow);
}

static float narrow_deviation(const Layouter *layouter) {
  return weight_deviation / sqrtf(2.0f * layouter->parameters->workload->model->n_layers);
}

static void lay_out_layer(Layouter *layouter) {
  const float narrow = narrow_deviation(layouter);
  lay_out_whole(layouter);
  (layouter->parameters->workload->model->latent.kv_rank > 0 ? lay_out_latent_attention : lay_out_attention)(layouter,
                                                                                                             narrow);
  if (block_has_experts(layouter->parameters, layouter->block))
    lay_out_shared_expert(layouter, narrow);
  else
    lay_out_mlp(layouter, narrow);
}

/* A product that tp cuts by columns has A whole and rows of B, one that it cuts by rows columns of A and B whole: of
 * either, each rank has only a part of the whole one's gradient. B does not start at 0, as it does elsewhere, so that
 * every gradient is there from the first step on. */
static void lay_out_adapters(Layouter *layouter) {
  const Model *model = layouter->parameters->workload->model;
  const TrainedParts *training = &layouter->parameters->workload->method->training;
  const gint64 h = model->hidden, q = model->n_heads * model->head_dim, kv = model->n_kv_heads * model->head_dim,
               f = model->ffn_hidden;
  const gint64 k[N_ADAPTED] = {h, h, h, q, h, h, f}, n[N_ADAPTED] = {q, kv, kv, h, f, f, h};
  if (layouter->block->layer < training->frozen_layers)
    return;
  for (int is_cut = 0; is_cut < 2; is_cut++) /* whole ones first */
    for (int adapted = 0; adapted < N_ADAPTED; adapted++) {
      const gboolean cuts_rows = adapted == ADAPTED_O || adapted == ADAPTED_DOWN, is_b = cuts_rows != is_cut;
      if (!training_adapts(training, (Adapted)adapted) || (adapted == ADAPTED_GATE && !model->gated))
        continue;
      g_autofree char *name = g_strdup_printf("%s.lora_%s", adapted_name((Adapted)adapted), is_b ? "b" : "a");
      const CutDimension cut = !is_cut ? CUT_NOTHING : is_b ? CUT_ROWS : CUT_COLUMNS;
      add_tensor(layouter, role_of_adapter((Adapted)adapted, is_b), name, is_b ? n[adapted] : training->rank,
                 is_b ? training->rank : k[adapted], cut, weight_deviation);
    }
}

/* This rank's experts, each with its own seed:  | gate₀ up₀ down₀ | gate₁ up₁ down₁ | … */
static void lay_out_experts(Layouter *layouter) {
  const Parameters *parameters = layouter->parameters;
  const Model *model = parameters->workload->model;
  const gint64 h = model->hidden, f = model->experts.ffn_hidden;
  const guint64 seed = layouter->seed;
  g_autofree char *prefix = g_steal_pointer(&layouter->prefix);
  const int n_cut = parameters->workload->method->expert_tp;
  layouter->at = n_cut > 1 ? layouter->at : 0;
  layouter->n_cut = n_cut;
  for (gint64 i = 0; i < parameters->local.n_experts; i++) {
    const gint64 expert = parameters->first_expert + i;
    g_free(layouter->prefix);
    layouter->prefix = g_strdup_printf("%sexperts.%" G_GINT64_FORMAT ".", prefix, expert);
    layouter->seed = seed + (guint64)expert * G_GUINT64_CONSTANT(0xBF58476D1CE4E5B9);
    add_tensor(layouter, ROLE_EXPERT_GATE, "gate.weight", f, h, CUT_ROWS, weight_deviation);
    add_tensor(layouter, ROLE_EXPERT_UP, "up.weight", f, h, CUT_ROWS, weight_deviation);
    add_tensor(layouter, ROLE_EXPERT_DOWN, "down.weight", h, f, CUT_COLUMNS, narrow_deviation(layouter));
  }
}

static void lay_out_table(Layouter *layouter) {
  const Parameters *parameters = layouter->parameters;
  const Model *model = parameters->workload->model;
  const gint64 padded = parameters->local.vocab_width * parameters->local.tp;
  add_tensor(layouter, ROLE_TABLE, "weight", padded, model->hidden, CUT_ROWS, weight_deviation);
  g_array_index(layouter->tensors, Tensor, 0).whole_rows = model->vocab; /* rows after these are padding */
}

/* The head's matrix, with the logits' bias. */
static void lay_out_output(Layouter *layouter) {
  const Model *model = layouter->parameters->workload->model;
  const gint64 padded = layouter->parameters->local.vocab_width * layouter->parameters->local.tp;
  lay_out_table(layouter);
  if (!model->head_bias)
    return;
  add_tensor(layouter, ROLE_TABLE_BIAS, "bias", padded, 1, CUT_ROWS, weight_deviation);
  g_array_index(layouter->tensors, Tensor, 1).whole_rows = model->vocab;
}

/* The embedding's tensors other than the word table. */
static void lay_out_positions(Layouter *layouter) {
  const Model *model = layouter->parameters->workload->model;
  if (model->embedding_norm)
    add_norm(layouter, ROLE_NORM1, "embedding_norm");
  if (model->positions == POSITIONS_LEARNED)
    add_tensor(layouter, ROLE_POSITIONS, "positions.weight", model->max_positions, model->hidden, CUT_NOTHING,
               weight_deviation);
}

static void lay_out_final_norm(Layouter *layouter) {
  add_norm(layouter, ROLE_NORM1, "norm");
}

static void lay_out_further_head(Layouter *layouter) {
  const gint64 h = layouter->parameters->workload->model->hidden;
  add_norm(layouter, ROLE_NORM1, "words_norm");
  add_norm(layouter, ROLE_NORM2, "x_norm");
  add_norm(layouter, ROLE_MTP_FINAL_NORM, "final_norm");
  add_tensor(layouter, ROLE_MTP_PROJ, "proj.weight", h, 2 * h, CUT_ROWS, weight_deviation);
}

static void (*const lay_out[])(Layouter *layouter) = {
    [BLOCK_TABLE] = lay_out_table,           [BLOCK_POSITIONS] = lay_out_positions, [BLOCK_LAYER] = lay_out_layer,
    [BLOCK_FINAL_NORM] = lay_out_final_norm, [BLOCK_OUTPUT] = lay_out_output,       [BLOCK_EXPERTS] = lay_out_experts,
    [BLOCK_MTP] = lay_out_further_head,      [BLOCK_ADAPTERS] = lay_out_adapters,
};

static char *block_prefix(const Workload *workload, BlockKind kind, int layer) {
  switch (kind) {
  case BLOCK_TABLE:
    return g_strdup("embedding.");
  case BLOCK_POSITIONS:
    return g_strdup("");
  case BLOCK_LAYER:
  case BLOCK_EXPERTS:
  case BLOCK_MTP:
  case BLOCK_ADAPTERS:
    if (layer >= workload->model->n_layers)
      return g_strdup_printf("mtp.%d.", (layer - (int)workload->model->n_layers) / 2);
    return g_strdup_printf("layers.%d.", layer);
  case BLOCK_FINAL_NORM:
    return g_strdup("final_");
  default:
    return g_strdup(workload->model->tied ? "embedding." : "head.");
  }
}

/* Tied matrices have the same seed: they start equal, and so stay equal. */
static guint64 block_seed(const Workload *workload, guint64 seed, BlockKind kind, int layer) {
  guint64 which = kind == BLOCK_MTP                               ? (guint64)layer + 17
                  : layer >= 0                                    ? (guint64)layer + 16
                  : kind == BLOCK_OUTPUT && workload->model->tied ? BLOCK_TABLE
                                                                  : (guint64)kind;
  return seed * G_GUINT64_CONSTANT(0xD1342543DE82EF95) + (which << 40);
}

static void find_summed(const Parameters *parameters, Block *block) {
  const gboolean by_heads = parameters->workload->model->qk_norms != QK_NORMS_NONE;
  const gint64 of_heads = by_heads ? block->offset_of[ROLE_Q_NORM] : -1;
  if (parameters->local.sequence_parallel || (block->kind == BLOCK_ADAPTERS && parameters->local.tp > 1))
    block->n_summed = block->n_whole;
  else if (parameters->local.tp > 1 && of_heads >= 0) {
    block->first_summed = of_heads;
    block->n_summed = block->n_norms - of_heads;
  }
}

/* A matrix that embedding and head share is one of the embedding's. */
static gboolean is_frozen(const Workload *workload, const Block *block) {
  const TrainedParts *training = &workload->method->training;
  if (training->rank > 0)
    return block->kind != BLOCK_ADAPTERS;
  switch (block->kind) {
  case BLOCK_TABLE:
  case BLOCK_POSITIONS:
    return (training->frozen & FREEZE_EMBEDDING) != 0;
  case BLOCK_FINAL_NORM:
    return (training->frozen & FREEZE_HEAD) != 0;
  case BLOCK_OUTPUT:
    return !logits_train(workload->model, workload->method);
  default:
    return block->layer < training->frozen_layers;
  }
}

void block_lay_out(const Parameters *parameters, Block *block, guint64 seed) {
  const Workload *workload = parameters->workload;
  for (int role = 0; role < N_ROLES; role++)
    block->offset_of[role] = -1;
  Layouter layouter = {.parameters = parameters,
                       .block = block,
                       .tensors = g_array_new(FALSE, FALSE, sizeof(Tensor)),
                       .prefix = block_prefix(workload, block->kind, block->layer),
                       .seed = block_seed(workload, seed, block->kind, block->layer),
                       .n_cut = (int)parameters->local.tp,
                       .at = parameters->at.at[AXIS_TP]};
  lay_out[block->kind](&layouter);
  g_free(layouter.prefix);
  block->n_tensors = (int)layouter.tensors->len;
  if (block->n_tensors > 0) {
    const Tensor *last = &g_array_index(layouter.tensors, Tensor, block->n_tensors - 1);
    block->n = round_up(last->offset + last->rows * last->columns, (gint64)ALIGN * block->n_shards);
  }
  block->is_frozen = is_frozen(workload, block);
  if (!block->is_frozen)
    find_summed(parameters, block);
  block->tensors = (Tensor *)(void *)g_array_free(layouter.tensors, FALSE);
}
