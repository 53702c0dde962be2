/* A decoder-only transformer, as a Hugging Face config.json describes it. */
#pragma once
#include <glib.h>

typedef enum { NORM_LAYERNORM, NORM_RMSNORM } Norm;
/* What q and k pass before they are rotated: nothing; a norm of each head, with weights that heads share (Qwen3) or of
 * its own (Cohere, StableLM); a norm of all heads together (OLMo 2, MPT's qk_ln). */
typedef enum { QK_NORMS_NONE, QK_NORMS_HEADS, QK_NORMS_OWN, QK_NORMS_WHOLE } QkNorms;
/* Between an MLP's products: SiLU where it is gated and GELU where it is not; one of these, GELU in any of its
 * approximations; GPT-OSS's, x·σ(1.702·x) with a bound, times the other branch plus 1; none that is known here. */
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
/* Where linear_bias does not hold: no bias; on attention's output product alone; on the MLP's products alone (GPT-J).
 */
typedef enum { LONE_BIAS_NONE, LONE_BIAS_OUT, LONE_BIAS_MLP } LoneBias;
typedef enum { POSITIONS_ROTARY, POSITIONS_LEARNED, POSITIONS_ALIBI, POSITIONS_NONE } Positions;

/* Experts in place of the MLP of some layers; zeroed: none. */
typedef struct {
  gint64 n;                 /* routed ones; 0: a dense model */
  gint64 per_token;         /* of them each token goes to */
  gint64 ffn_hidden;        /* of each */
  gint64 shared_ffn_hidden; /* of the MLP that every token goes through besides; 0: none */
  gboolean shared_gate;     /* whose output is weighted by a gate of its own (Qwen2) */
  gint64 n_groups;          /* groups of equally many experts that the choice heeds; 0: none */
  gint64 groups_per_token;  /* of these, that the experts of a token may be in; 0: not limited */
  gboolean has_biases;      /* of both of each one's products (GPT-OSS); left out of the numbers of parameters */
  gboolean biased_scores;   /* a bias for each expert balances the choice (arXiv 2412.19437 §2.1.2) */
  gboolean softmax_scores;  /* which it is added to, not sigmoids (ERNIE 4.5); left out of time, told to frameworks */
  gint64 n_leading;         /* dense layers before the first with experts */
  gint64 every, phase;      /* behind those, layer l has experts where (l + phase) mod every = 0 */
} ModelExperts;

/* Multi-head latent attention (arXiv 2405.04434 §2.1): Q, K and V are made of a few columns; zeroed: none. head_dim is
 * then that of Q and K, the rotated part included, and there are as many K and V heads as heads. */
typedef struct {
  gint64 kv_rank;  /* columns that K and V are made of; 0: no latent attention */
  gint64 q_rank;   /* those that Q is made of; 0: Q is one product */
  gint64 rope_dim; /* of head_dim: rotated; one such part of K serves all heads */
  gint64 v_head_dim;
} ModelLatent;

/* 0 … 1; where one is 0, no kernel drops and no mask is kept. */
typedef struct {
  double embedding; /* of what stands before the first layer */
  double attention; /* of probabilities */
  double hidden;    /* of what a residual adds */
} DropoutRates;

/* What a model multiplies by where others do not (Granite, Gemma, Command R, MPT, DeepSeek); 0: as others. Other
 * kernels do it beside what they do, so that time and memory leave it out. */
typedef struct {
  double embedding;  /* rows of the word table; others 1 */
  double scores;     /* q·k; others 1/sqrt(head_dim) */
  double branches;   /* what attention and the MLP add to the hidden states; others 1 */
  double logits;     /* others 1 */
  double experts;    /* what a token's experts add together, but not the shared one; others 1 (DeepSeek) */
  gboolean by_layer; /* scores are divided by the number of their layer, too, from 1 on (GPT-2) */
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
  gint64 max_positions; /* 0 when the config does not say; rows of the learned position table */
  gboolean gated;       /* SwiGLU-like: three MLP matrices */
  Activation activation;
  QkNorms qk_norms;
  gboolean tied;                  /* head shares the embedding's weights */
  gboolean qkv_bias, linear_bias; /* bias on the QKV product; on the layer's other linears */
  LoneBias lone_bias;
  gboolean capped_logits;   /* c·tanh(x/c) of every logit (Gemma 2) */
  gboolean head_bias;       /* bias on the logits (GPT-J, Phi) */
  gboolean parallel_block;  /* attention and MLP read the same input (GPT-NeoX, Falcon) */
  gint64 n_norms_per_layer; /* 2, or 1 where a parallel block shares one */
  gboolean norms_behind;    /* a branch's norm stands behind it, none before it (OLMo 2) */
  gboolean post_norms;      /* two more: each branch's output passes one before it is added (Gemma 2) */
  DropoutRates dropout_rate;
  Norm norm;
  gboolean bare_norms;    /* LayerNorm without its shift (MPT's no_bias) */
  gboolean bare_qk_norms; /* that of q and k alone (StableLM) */
  gboolean fixed_norms;   /* LayerNorm without weights, neither scale nor shift (OLMo 1) */
  Positions positions;
  gint64 window;            /* tokens a token attends to at most, itself included (sliding window, arXiv
                               2310.06825 §2); 0: all before it */
  gboolean some_windowed;   /* in some of the layers alone (Qwen2's max_window_layers) */
  char *windowed_layers;    /* owned; of each layer '1' with the window, '0' without; NULL: all are alike */
  char *unrotated_layers;   /* owned; of each layer '1' where q and k are not rotated (SmolLM3); NULL: all are;
                               time and memory leave it out */
  double rotary_share;      /* of a head's columns that are rotated, where not all; 0: all; left out likewise */
  gboolean scaled_rotation; /* cosine and sine are multiplied by a factor besides (YaRN's attention factor, arXiv
                               2309.00071 §3.4), where it is not 1 */
  /* of no matter for time and memory, told to frameworks: */
  double rotary_base;        /* θ of RoPE (arXiv 2104.09864); 0: 10000, which all have that do not say */
  double llama3_rope_factor; /* by which Llama 3.1 stretches it; 0: not at all */
  gboolean scales_rope;      /* it is stretched some other way (YaRN …) */
  gboolean rotates_pairs;    /* of neighbouring columns, not of the halves of a head (GLM, GPT-J, Command R, ERNIE) */
  gboolean norms_rotated;    /* the norms of q and k stand behind their rotation, not before it (Hunyuan) */
  gboolean has_sinks;        /* a learned term in the softmax's sum (GPT-OSS) */
  ModelFactors factors;
  double windowed_share;             /* of layers that have the window, where these and others come in turns (GPT-OSS:
                                        1/2); 0: all do */
  gboolean embedding_norm;           /* behind the word table (BLOOM) */
  gint64 other_embedding_parameters; /* OPT's two unused positions */
  ModelExperts experts;              /* ffn_hidden above is that of layers without */
  ModelLatent latent;
  gint64 n_next_layers; /* heads that predict a token further (multi-token prediction): not counted among layers and
                           parameters; a plan says how many it trains */
  gboolean
      other_next_layers; /* in which there is something else than one layer of the last kind: none can be trained */
} Model;

/* Read `file`; a bare name `x` without a slash also means models/x.json, searched in the working directory, then in
 * $STEPSIM_DATA, then in what came with the program (data_path.h). Spellings understood: Llama/Mistral/Qwen
 * (hidden_size …), its descendants (Gemma, Phi-3, OLMo, GLM, Granite, ERNIE, EXAONE, Hunyuan …), GPT-2 (n_embd …),
 * GPT-J, GPT-NeoX, Phi, StarCoder, MPT (d_model …), BLOOM, Falcon, Command R, StableLM, OPT; with experts Mixtral,
 * Qwen2- and Qwen3-MoE, OLMoE, GLM-4.5, DeepSeek-V2 and -V3, Kimi-K2, dots.llm1, MiniMax-M2, Phi-3.5-MoE, Granite,
 * ERNIE, Hunyuan. Experts in other families and encoder-decoder configs are refused (IMPOSSIBLE) by name of the key,
 * linear attention, state spaces and heads that layers share by model_type. Errors: INPUT with file:line, what was
 * found, what was expected. */
Model *model_read(const char *file, GError **error);
/* Whether the sizes of a model make sense together, each being at least 1: key-value heads divide the heads, parameters
 * leave room to count with. INPUT, `where` before it. */
gboolean model_check(const Model *model, const char *where, GError **error);
Model *model_copy(const Model *model);
void model_free(Model *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Model, model_free)

static inline gboolean model_has_experts(const Model *model) {
  return model->experts.n > 0;
}
/* Of `n` layers from `first` on, how many have no experts though the model has some; 0 in a dense model. */
gint64 model_dense_layers(const Model *model, gint64 first, gint64 n);
/* Keep the first `n_layers` layers' worth of a deeper model: its leading dense layers in the same share, at least one
 * where it has any. */
void model_cut_depth(Model *model, gint64 n_layers);
/* Of `n` holders of equally many experts each, or some of one more where `n` does not divide the experts, those that a
 * token's experts lie with, on average: it goes to all experts alike, of the groups that the model limits it to.
 * Holders and groups that do not divide each other count as no limit. */
double model_expert_places(const ModelExperts *experts, gint64 n);
/* Of sequences of so many tokens, those a token attends to at most; 0: all before it. */
static inline gint64 model_window(const Model *model, gint64 seq_len) {
  return model->window < seq_len ? model->window : 0;
}
static inline gboolean model_has_out_bias(const Model *model) {
  return model->linear_bias || model->lone_bias == LONE_BIAS_OUT;
}
static inline gboolean model_has_mlp_bias(const Model *model) {
  return model->linear_bias || model->lone_bias == LONE_BIAS_MLP;
}
/* Never ACTIVATION_USUAL: which that is. */
Activation model_activation(const Model *model);
const char *model_activation_name(Activation activation);
/* Whether any is not as others have it. */
static inline gboolean model_has_factors(const Model *model) {
  const ModelFactors *factors = &model->factors;
  return factors->embedding > 0 || factors->scores > 0 || factors->branches > 0 || factors->logits > 0 ||
         factors->by_layer;
}
/* Columns of a head of V. */
static inline gint64 model_v_head_dim(const Model *model) {
  return model->latent.kv_rank > 0 ? model->latent.v_head_dim : model->head_dim;
}

/* Numbers of parameters, unsharded. */
gint64 model_layer_parameters(const Model *model);     /* one block, norms and biases included; with its experts */
gint64 model_norm_parameters(const Model *model);      /* of one norm of the hidden states */
gint64 model_qk_norm_parameters(const Model *model);   /* of a block: of the norms of q and k */
gint64 model_embedding_parameters(const Model *model); /* word table, and position table where learned */
gint64 model_head_parameters(const Model *model);      /* final norm, and the head's matrix unless tied */
gint64 model_parameters(const Model *model);           /* the whole model, a tied matrix once */
gint64 model_expert_parameters(const Model *model);    /* of these, all experts', the shared ones left out */
gint64 model_active_parameters(const Model *model);    /* of these, what one token meets: of experts those it goes to */
