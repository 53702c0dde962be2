/* The models whose gradients are checked against their losses: every optional part of a layer is in one of them. */
#pragma once
#include "model.h"

enum { LAYERS = 2, HIDDEN = 24, HEADS = 4, VOCAB = 50, SEQUENCE = 12, MICRO_BATCHES = 2 };

static const Model llama = {.name = (char *)"llama",
                            .n_layers = LAYERS,
                            .hidden = HIDDEN,
                            .n_heads = HEADS,
                            .n_kv_heads = 2,
                            .head_dim = 6,
                            .ffn_hidden = 40,
                            .vocab = VOCAB,
                            .max_positions = SEQUENCE,
                            .gated = TRUE,
                            .n_norms_per_layer = 2,
                            .norm = NORM_RMSNORM,
                            .positions = POSITIONS_ROTARY};
static const Model gpt2 = {.name = (char *)"gpt2",
                           .n_layers = LAYERS,
                           .hidden = HIDDEN,
                           .n_heads = HEADS,
                           .n_kv_heads = HEADS,
                           .head_dim = 6,
                           .ffn_hidden = 40,
                           .vocab = VOCAB,
                           .max_positions = SEQUENCE,
                           .tied = TRUE,
                           .qkv_bias = TRUE,
                           .linear_bias = TRUE,
                           .n_norms_per_layer = 2,
                           .norm = NORM_LAYERNORM,
                           .positions = POSITIONS_LEARNED};

/* One key head for all, heads wider than hidden ÷ heads, biases of q, k and v beside RMSNorm, a tied gated model. */
static Model mixed(void) {
  Model model = llama;
  model.name = (char *)"mixed";
  model.n_kv_heads = 1;
  model.head_dim = 10;
  model.qkv_bias = TRUE;
  model.tied = TRUE;
  return model;
}

/* LayerNorm without shift, GELU without biases, rotary positions. */
static Model bare(void) {
  Model model = gpt2;
  model.name = (char *)"bare";
  model.qkv_bias = model.linear_bias = model.tied = FALSE;
  model.bare_norms = TRUE;
  model.positions = POSITIONS_ROTARY;
  return model;
}

/* LayerNorm without weights (OLMo 1). */
static Model fixed(void) {
  Model model = llama;
  model.name = (char *)"fixed";
  model.norm = NORM_LAYERNORM;
  model.fixed_norms = TRUE;
  return model;
}

/* Norms of each head's q and k; each of 12 tokens sees itself and the four before it. */
static Model normed(void) {
  Model model = llama;
  model.name = (char *)"normed";
  model.qk_norms = QK_NORMS_HEADS;
  model.window = 5;
  return model;
}

/* … in the first layer alone. */
static Model turned(void) {
  Model model = normed();
  model.name = (char *)"turned";
  model.windowed_layers = (char *)"10";
  model.windowed_share = 0.5;
  return model;
}

/* Norms over all heads together, with shifts, and after the embedding; ALiBi; dropout everywhere, at various rates. */
static Model dropped(void) {
  Model model = gpt2;
  model.name = (char *)"dropped";
  model.qk_norms = QK_NORMS_WHOLE;
  model.embedding_norm = TRUE;
  model.positions = POSITIONS_ALIBI;
  model.dropout_rate.embedding = 0.3;
  model.dropout_rate.attention = 0.2;
  model.dropout_rate.hidden = 0.1;
  return model;
}

/* Norms of each head's q and k, with weights per head; no shifts where others have them. */
static Model own(void) {
  Model model = llama;
  model.name = (char *)"own";
  model.norm = NORM_LAYERNORM;
  model.qk_norms = QK_NORMS_OWN;
  model.bare_qk_norms = TRUE;
  return model;
}

/* Norms before and after the branches, and of each head's q and k; capped logits. */
static Model sandwiched(void) {
  Model model = llama;
  model.name = (char *)"sandwiched";
  model.post_norms = model.capped_logits = TRUE;
  model.qk_norms = QK_NORMS_HEADS;
  return model;
}

/* Every multiplier a model may have; a tied embedding, whose gradient comes from both ends. */
static Model multiplied(void) {
  Model model = llama;
  model.name = (char *)"multiplied";
  model.tied = TRUE;
  model.factors = (ModelFactors){.embedding = 3, .scores = 0.2, .branches = 0.6, .logits = 0.7, .by_layer = TRUE};
  return model;
}

/* Norms only after the branches, with shifts; dropout on their results. */
static Model behind(void) {
  Model model = llama;
  model.name = (char *)"behind";
  model.norms_behind = TRUE;
  model.norm = NORM_LAYERNORM;
  model.qk_norms = QK_NORMS_WHOLE;
  model.dropout_rate.hidden = 0.2;
  return model;
}

/* Parallel attention and MLP, each with a norm; dropout on what both add. */
static Model beside(void) {
  Model model = gpt2;
  model.name = (char *)"beside";
  model.parallel_block = TRUE;
  model.positions = POSITIONS_ROTARY;
  model.dropout_rate.hidden = 0.2;
  return model;
}

/* … sharing one norm, two key heads for four; in a layer only the MLP has biases, and the logits have one. */
static Model beside_one(void) {
  Model model = beside();
  model.name = (char *)"beside-one";
  model.n_norms_per_layer = 1;
  model.n_kv_heads = 2;
  model.qkv_bias = model.linear_bias = model.tied = FALSE;
  model.dropout_rate.hidden = 0;
  model.lone_bias = LONE_BIAS_MLP;
  model.head_bias = TRUE;
  return model;
}

/* Four experts, two per token. */
static Model routed(void) {
  Model model = llama;
  model.name = (char *)"routed";
  model.experts = (ModelExperts){.n = 4, .per_token = 2, .ffn_hidden = 20, .every = 1};
  return model;
}

/* … with routing biases; LayerNorms, also over all heads of q and k together, and biases of attention and logits
 * (MiniMax-M2, Phi-3.5-MoE). */
static Model routed_biased(void) {
  Model model = routed();
  model.name = (char *)"routed-biased";
  model.norm = NORM_LAYERNORM;
  model.qk_norms = QK_NORMS_WHOLE;
  model.qkv_bias = model.head_bias = TRUE;
  model.lone_bias = LONE_BIAS_OUT;
  model.experts.biased_scores = TRUE;
  return model;
}

/* Latent attention, with V heads of another size, and experts after a dense layer. */
static Model latent(void) {
  Model model = routed();
  model.name = (char *)"latent";
  model.n_kv_heads = HEADS;
  model.head_dim = 10;
  model.latent = (ModelLatent){.kv_rank = 14, .q_rank = 12, .rope_dim = 4, .v_head_dim = 8};
  model.experts.n_leading = 1;
  model.experts.shared_ffn_hidden = 14;
  model.experts.biased_scores = TRUE;
  model.factors.experts = 2.5;
  return model;
}

/* … whose Q is a single projection. */
static Model latent_kv(void) {
  Model model = latent();
  model.name = (char *)"latent-kv";
  model.latent.q_rank = 0;
  model.latent.v_head_dim = 12;
  model.experts = (ModelExperts){0};
  return model;
}

/* Three of four experts, and a shared expert with a gate; a dense layer first; dropout on what they add. */
static Model shared(void) {
  Model model = routed();
  model.name = (char *)"shared";
  model.experts.per_token = 3;
  model.experts.shared_ffn_hidden = 14;
  model.experts.shared_gate = TRUE;
  model.experts.n_leading = 1;
  model.dropout_rate.hidden = 0.2;
  return model;
}

/* Dropout only on attention's probabilities (Granite). */
static Model scores_dropped(void) {
  Model model = multiplied();
  model.name = (char *)"scores-dropped";
  model.dropout_rate.attention = 0.2;
  return model;
}
