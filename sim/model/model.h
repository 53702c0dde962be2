/* A decoder-only transformer, as a Hugging Face config.json describes it. */
#pragma once
#include <glib.h>

typedef enum { NORM_LAYERNORM, NORM_RMSNORM } Norm;
/* Norms of q and k, applied before the rotation: none; one per head, with weights shared by all heads (Qwen3); one
 * per head, each with its own weights (Cohere, StableLM); one over all heads together (OLMo 2, MPT's qk_ln). */
typedef enum { QK_NORMS_NONE, QK_NORMS_HEADS, QK_NORMS_OWN, QK_NORMS_WHOLE } QkNorms;
/* The MLP's activation. USUAL: SiLU if gated, else GELU. GELU includes all its approximations. BOUNDED_GELU is
 * GPT-OSS's: x·σ(1.702·x), clamped, times the other branch plus 1. OTHER: not known here. */
typedef enum {
  ACTIVATION_USUAL,
  ACTIVATION_SILU,
  ACTIVATION_GELU,
  ACTIVATION_RELU,
  ACTIVATION_SQUARED_RELU,
  ACTIVATION_BOUNDED_GELU,
  ACTIVATION_OTHER,
  N_ACTIVATIONS
} Activation;
/* Biases where linear_bias is FALSE: none; on attention's output product only; on the MLP's products only (GPT-J). */
typedef enum { LONE_BIAS_NONE, LONE_BIAS_OUT, LONE_BIAS_MLP } LoneBias;
typedef enum { POSITIONS_ROTARY, POSITIONS_LEARNED, POSITIONS_ALIBI, POSITIONS_NONE } Positions;

/* Experts that replace the MLP of some layers; zeroed: none. */
typedef struct {
  gint64 n;                 /* routed experts; 0: a dense model */
  gint64 per_token;         /* routed experts each token is sent to */
  gint64 ffn_hidden;        /* of each routed expert */
  gint64 shared_ffn_hidden; /* of the shared MLP that every token also passes; 0: none */
  gboolean shared_gate;     /* the shared MLP's output is weighted by its own gate (Qwen2) */
  gint64 n_groups;          /* expert groups of equal size that routing respects; 0: none */
  gint64 groups_per_token;  /* groups that one token's experts may come from; 0: no limit */
  gboolean has_biases;      /* on both products of each expert and on the gate (GPT-OSS) */
  gboolean biased_scores;   /* a per-expert bias balances routing (arXiv 2412.19437 §2.1.2) */
  gboolean softmax_scores;  /* the bias is added to softmax scores, not sigmoids (ERNIE 4.5); no effect on time,
                               passed on to frameworks */
  gint64 n_leading;         /* dense layers before the first layer with experts */
  gint64 every, phase;      /* after those, layer l has experts if (l + phase) mod every = 0 */
} ModelExperts;

/* Multi-head latent attention (arXiv 2405.04434 §2.1): Q, K and V are projected up from a few columns; zeroed: none.
 * head_dim is then the one of Q and K, including the rotated part, and n_kv_heads = n_heads. */
typedef struct {
  gint64 kv_rank;  /* columns K and V are projected up from; 0: no latent attention */
  gint64 q_rank;   /* columns Q is projected up from; 0: Q is a single product */
  gint64 rope_dim; /* the rotated part of head_dim; K has one such part for all heads */
  gint64 v_head_dim;
} ModelLatent;

/* 0 … 1. Where a rate is 0, no dropout kernel runs and no mask is kept. */
typedef struct {
  double embedding; /* input of the first layer */
  double attention; /* attention probabilities */
  double hidden;    /* what each branch adds to the residual stream */
} DropoutRates;

/* Scaling factors that most models do not have (Granite, Gemma, Command R, MPT, DeepSeek); 0: as in other models.
 * Existing kernels apply them along the way, so they cost no time or memory. */
typedef struct {
  double embedding;  /* rows of the word table; usually 1 */
  double scores;     /* q·k; usually 1/sqrt(head_dim) */
  double branches;   /* what attention and the MLP add to the hidden states; usually 1 */
  double logits;     /* usually 1 */
  double experts;    /* sum of a token's routed experts, without the shared one; usually 1 (DeepSeek) */
  gboolean by_layer; /* scores are also divided by the layer's number, counted from 1 (GPT-2) */
} ModelFactors;

typedef struct {
  char *name; /* owned; file name without .json */
  char *file; /* owned; NULL when built by hand */
  gint64 n_layers;
  gint64 hidden;
  gint64 n_heads;
  gint64 n_kv_heads; /* = n_heads without grouped-query attention */
  gint64 head_dim;   /* hidden / n_heads unless the config says otherwise */
  gint64 ffn_hidden;
  gint64 vocab;
  gint64 max_positions; /* rows of the learned position table; 0 when the config does not say */
  gboolean gated;       /* SwiGLU-like: three MLP matrices */
  Activation activation;
  QkNorms qk_norms;
  gboolean tied;                  /* head shares the embedding's weights */
  gboolean qkv_bias, linear_bias; /* bias on the QKV product; on the layer's other linears */
  LoneBias lone_bias;
  gboolean capped_logits;   /* c·tanh(x/c) of every logit (Gemma 2) */
  gboolean head_bias;       /* bias on the logits (GPT-J, Phi) */
  gboolean parallel_block;  /* attention and MLP read the same input (GPT-NeoX, Falcon) */
  gint64 n_norms_per_layer; /* 2, or 1 if the two branches of a parallel block share one */
  gboolean norms_behind;    /* each branch is normalised after it, not before (OLMo 2) */
  gboolean post_norms;      /* two more norms: each branch's output is normalised before it is added (Gemma 2) */
  DropoutRates dropout_rate;
  Norm norm;
  gboolean bare_norms;     /* LayerNorm without bias (MPT's no_bias) */
  gboolean bare_qk_norms;  /* the same for the norms of q and k only (StableLM) */
  gboolean fixed_qk_norms; /* norms of q and k without weights (Llama 4) */
  gboolean fixed_norms;    /* LayerNorm without scale or bias (OLMo 1) */
  Positions positions;
  gint64 window;       /* most tokens a token attends to, itself included (sliding window, arXiv 2310.06825 §2); 0: all
                          before it */
  gboolean is_chunked; /* the window is a chunk: sequences are cut into pieces of so many tokens, and a token attends
                          to those before it in its own (Llama 4) */
  gboolean some_windowed;   /* only some of the layers have the window (Qwen2's max_window_layers) */
  char *windowed_layers;    /* owned; per layer '1' with the window, '0' without; NULL: all layers are alike */
  char *unrotated_layers;   /* owned; one character per layer: '1' if q and k are not rotated (SmolLM3); NULL: all are
                               rotated; no effect on time and memory */
  double rotary_share;      /* share of a head's columns that is rotated; 0: all; no effect on time and memory */
  gboolean scaled_rotation; /* cosine and sine are also multiplied by a factor other than 1 (YaRN's attention factor,
                               arXiv 2309.00071 §3.4) */
  /* no effect on time and memory, passed on to frameworks: */
  double norm_epsilon;       /* what norms add to a variance; 0: not said */
  double rotary_base;        /* θ of RoPE (arXiv 2104.09864); 0: 10000, the usual default */
  double llama3_rope_factor; /* the factor by which Llama 3.1 stretches RoPE; 0: not stretched */
  gboolean scales_rope;      /* RoPE is stretched in some other way (YaRN …) */
  gboolean rotates_pairs;    /* rotates neighbouring columns, not halves of a head (GLM, GPT-J, Command R, ERNIE) */
  gboolean norms_rotated;    /* q and k are normalised after the rotation, not before (Hunyuan) */
  gboolean has_sinks;        /* a learned term in the softmax's denominator (GPT-OSS) */
  ModelFactors factors;
  double windowed_share;   /* share of layers with the window, where layers with and without it alternate (GPT-OSS:
                              1/2); 0: all */
  gboolean embedding_norm; /* a norm after the word table (BLOOM) */
  gint64 other_embedding_parameters; /* OPT's two unused positions */
  ModelExperts experts;              /* Model.ffn_hidden is that of layers without experts */
  ModelLatent latent;
  gint64 n_next_layers; /* multi-token-prediction heads, not counted as layers or parameters; the plan says how many
                           it trains */
  gboolean
      other_next_layers; /* such a head is not exactly one layer of the same kind as the last: none can be trained */
} Model;

/* Read `file`. A bare name `x` without a slash also means models/x.json, searched in the working directory, then in
 * $STEPSIM_DATA, then in the data shipped with the program (data_path.h). Dialects understood: Llama/Mistral/Qwen
 * (hidden_size …), its descendants (Gemma, Phi-3, OLMo, GLM, Granite, ERNIE, EXAONE, Hunyuan, Baichuan, Qwen 1 …),
 * GPT-2 (n_embd …), GPT-J, GPT-NeoX, Phi, StarCoder, MPT (d_model …), BLOOM, Falcon, Command R, StableLM, OPT; with
 * experts Mixtral, Qwen2- and Qwen3-MoE, Llama 4's text part, OLMoE, GLM-4.5, DeepSeek-V2 and -V3, Kimi-K2, dots.llm1,
 * MiniMax-M2, Phi-3.5-MoE, Granite, ERNIE, Hunyuan. Refused as IMPOSSIBLE: experts in other families and
 * encoder-decoder configs, recognised by their keys; linear attention, state spaces and heads shared between layers,
 * recognised by model_type. INPUT with file:line, what was found and what was expected. */
Model *model_read(const char *file, GError **error);
/* Check that the model's sizes, each at least 1, fit together: key-value heads divide the heads, and parameter counts
 * do not overflow. INPUT, with `where` in front. */
gboolean model_check(const Model *model, const char *where, GError **error);
Model *model_copy(const Model *model);
void model_free(Model *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Model, model_free)

static inline gboolean model_has_experts(const Model *model) {
  return model->experts.n > 0;
}
/* How many of the `n` layers from `first` on have no experts although the model has some; 0 in a dense model. */
gint64 model_dense_layers(const Model *model, gint64 first, gint64 n);
/* Cut a deeper model to `n_layers` layers. It keeps the same share of leading dense layers, at least one if it had
 * any. */
void model_cut_depth(Model *model, gint64 n_layers);
/* How many of `n` expert holders one token's experts lie on, on average. Holders have equally many experts, or differ
 * by one if `n` does not divide them. Tokens are spread evenly over all experts of the groups the model limits them
 * to. The limit is ignored if holders and groups do not divide each other. */
double model_expert_places(const ModelExperts *experts, gint64 n);
/* Most tokens a token attends to in sequences of `seq_len` tokens; 0: all before it. */
static inline gint64 model_window(const Model *model, gint64 seq_len) {
  return model->window < seq_len ? model->window : 0;
}
static inline gboolean model_has_out_bias(const Model *model) {
  return model->linear_bias || model->lone_bias == LONE_BIAS_OUT;
}
static inline gboolean model_has_mlp_bias(const Model *model) {
  return model->linear_bias || model->lone_bias == LONE_BIAS_MLP;
}
static inline gboolean model_has_expert_biases(const Model *model) {
  return model->experts.has_biases || model_has_mlp_bias(model);
}
/* The activation that ACTIVATION_USUAL stands for, or the one named; never ACTIVATION_USUAL. */
Activation model_activation(const Model *model);
const char *model_activation_name(Activation activation);
/* Whether any factor differs from the usual. */
static inline gboolean model_has_factors(const Model *model) {
  const ModelFactors *factors = &model->factors;
  return factors->embedding > 0 || factors->scores > 0 || factors->branches > 0 || factors->logits > 0 ||
         factors->by_layer;
}
/* Columns of a head of V. */
static inline gint64 model_v_head_dim(const Model *model) {
  return model->latent.kv_rank > 0 ? model->latent.v_head_dim : model->head_dim;
}

/* Parameter counts, unsharded. */
gint64 model_layer_parameters(const Model *model);     /* one block with its norms, biases and experts */
gint64 model_norm_parameters(const Model *model);      /* one norm of the hidden states */
gint64 model_qk_norm_parameters(const Model *model);   /* the norms of q and k of one block */
gint64 model_embedding_parameters(const Model *model); /* word table, and the position table if learned */
gint64 model_head_parameters(const Model *model);      /* final norm, and the head's matrix unless tied */
gint64 model_parameters(const Model *model);           /* the whole model, a tied matrix counted once */
gint64 model_expert_parameters(const Model *model);    /* all routed experts, without the shared ones */
gint64 model_active_parameters(const Model *model);    /* those that one token uses: only its own experts */
