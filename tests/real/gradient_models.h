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

/* A function of the model that has its name: `base`, with the members of `model` that follow set. */
#define MODEL(variant, base, ...)                                                                                      \
  static Model variant(void) {                                                                                         \
    Model model = base;                                                                                                \
    model.name = (char *)#variant;                                                                                     \
    __VA_ARGS__                                                                                                        \
    return model;                                                                                                      \
  }

/* One key head for all, heads wider than hidden ÷ heads, biases of q, k and v beside RMSNorm, a tied gated model. */
MODEL(mixed, llama, {
  model.n_kv_heads = 1;
  model.head_dim = 10;
  model.qkv_bias = TRUE;
  model.tied = TRUE;
})

/* LayerNorm without shift, GELU without biases, rotary positions. */
MODEL(bare, gpt2, {
  model.qkv_bias = model.linear_bias = model.tied = FALSE;
  model.bare_norms = TRUE;
  model.positions = POSITIONS_ROTARY;
})

/* LayerNorm without weights (OLMo 1). */
MODEL(fixed, llama, {
  model.norm = NORM_LAYERNORM;
  model.fixed_norms = TRUE;
})

/* Norms of each head's q and k; each of 12 tokens sees itself and the four before it. */
MODEL(normed, llama, {
  model.qk_norms = QK_NORMS_HEADS;
  model.window = 5;
})

/* … in the first layer alone. */
MODEL(turned, normed(), {
  model.windowed_layers = (char *)"10";
  model.windowed_share = 0.5;
})

/* Norms over all heads together, with shifts, and after the embedding; ALiBi; dropout everywhere, at various rates. */
MODEL(dropped, gpt2, {
  model.qk_norms = QK_NORMS_WHOLE;
  model.embedding_norm = TRUE;
  model.positions = POSITIONS_ALIBI;
  model.dropout_rate.embedding = 0.3;
  model.dropout_rate.attention = 0.2;
  model.dropout_rate.hidden = 0.1;
})

/* Norms of each head's q and k, with weights per head; no shifts where others have them. */
MODEL(own, llama, {
  model.norm = NORM_LAYERNORM;
  model.qk_norms = QK_NORMS_OWN;
  model.bare_qk_norms = TRUE;
})

/* Norms before and after the branches, and of each head's q and k; capped logits. */
MODEL(sandwiched, llama, {
  model.post_norms = model.capped_logits = TRUE;
  model.qk_norms = QK_NORMS_HEADS;
})

/* Every multiplier a model may have; a tied embedding, whose gradient comes from both ends. */
MODEL(multiplied, llama, {
  model.tied = TRUE;
  model.factors = (ModelFactors){.embedding = 3, .scores = 0.2, .branches = 0.6, .logits = 0.7, .by_layer = TRUE};
})

/* Norms only after the branches, with shifts; dropout on their results. */
MODEL(behind, llama, {
  model.norms_behind = TRUE;
  model.norm = NORM_LAYERNORM;
  model.qk_norms = QK_NORMS_WHOLE;
  model.dropout_rate.hidden = 0.2;
})

/* Parallel attention and MLP, each with a norm; dropout on what both add. */
MODEL(beside, gpt2, {
  model.parallel_block = TRUE;
  model.positions = POSITIONS_ROTARY;
  model.dropout_rate.hidden = 0.2;
})

/* … sharing one norm, two key heads for four; in a layer only the MLP has biases, and the logits have one. */
MODEL(beside_one, beside(), {
  model.n_norms_per_layer = 1;
  model.n_kv_heads = 2;
  model.qkv_bias = model.linear_bias = model.tied = FALSE;
  model.dropout_rate.hidden = 0;
  model.lone_bias = LONE_BIAS_MLP;
  model.head_bias = TRUE;
})

/* Four experts, two per token. */
MODEL(routed, llama, { model.experts = (ModelExperts){.n = 4, .per_token = 2, .ffn_hidden = 20, .every = 1}; })

/* … with routing biases; LayerNorms, also over all heads of q and k together, and biases of attention and logits
 * (MiniMax-M2, Phi-3.5-MoE). */
MODEL(routed_biased, routed(), {
  model.norm = NORM_LAYERNORM;
  model.qk_norms = QK_NORMS_WHOLE;
  model.qkv_bias = model.head_bias = TRUE;
  model.lone_bias = LONE_BIAS_OUT;
  model.experts.biased_scores = TRUE;
})

/* Latent attention, with V heads of another size, and experts after a dense layer. */
MODEL(latent, routed(), {
  model.n_kv_heads = HEADS;
  model.head_dim = 10;
  model.latent = (ModelLatent){.kv_rank = 14, .q_rank = 12, .rope_dim = 4, .v_head_dim = 8};
  model.experts.n_leading = 1;
  model.experts.shared_ffn_hidden = 14;
  model.experts.biased_scores = TRUE;
  model.factors.experts = 2.5;
})

/* … whose Q is a single projection. */
MODEL(latent_kv, latent(), {
  model.latent.q_rank = 0;
  model.latent.v_head_dim = 12;
  model.experts = (ModelExperts){0};
})

/* Three of four experts, and a shared expert with a gate; a dense layer first; dropout on what they add. */
MODEL(shared, routed(), {
  model.experts.per_token = 3;
  model.experts.shared_ffn_hidden = 14;
  model.experts.shared_gate = TRUE;
  model.experts.n_leading = 1;
  model.dropout_rate.hidden = 0.2;
})

/* Dropout only on attention's probabilities (Granite). */
MODEL(scores_dropped, multiplied(), { model.dropout_rate.attention = 0.2; })
