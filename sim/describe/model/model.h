/* A decoder-only transformer, as a Hugging Face config.json describes it. */
#pragma once
#include <glib.h>

typedef enum { NORM_LAYERNORM, NORM_RMSNORM } Norm;
typedef enum { POSITIONS_ROTARY, POSITIONS_LEARNED, POSITIONS_ALIBI, POSITIONS_NONE } Positions;

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
  gint64 max_positions;           /* 0 when the config does not say; rows of the learned position table */
  gboolean gated;                 /* SwiGLU-like: three MLP matrices */
  gboolean tied;                  /* head shares the embedding's weights */
  gboolean qkv_bias, linear_bias; /* bias on the QKV product; on the other linears */
  gboolean parallel_block;        /* attention and MLP read the same input (GPT-NeoX, Falcon) */
  gint64 n_norms_per_layer;       /* 2, or 1 where a parallel block shares one */
  gboolean dropout;               /* hidden and attention dropout are trained with (rate > 0) */
  Norm norm;
  gboolean bare_norms; /* LayerNorm without its shift (MPT's no_bias) */
  Positions positions;
  gint64 window;                     /* tokens a token attends to at most (sliding window); 0: all before it */
  gint64 other_layer_parameters;     /* vectors of a block that no field above counts: q and k norms, a lone bias */
  gint64 other_embedding_parameters; /* BLOOM's norm behind the word table, OPT's two unused positions */
} Model;

/* Read `file`; a bare name `x` without a slash also means models/x.json, searched in the working directory, then in
 * $STEPSIM_DATA, then in the source and install data directories. Spellings understood: Llama/Mistral/Qwen (hidden_size
 * …), GPT-2 (n_embd …), GPT-NeoX, MPT (d_model …), BLOOM, Falcon, OPT. Mixture-of-experts and encoder-decoder configs
 * are refused (IMPOSSIBLE) by name of the key. Errors: INPUT with file:line, what was found, what was expected. */
Model *model_read(const char *file, GError **error);
/* Whether the sizes of a model make sense together, each being at least 1: key-value heads divide the heads, parameters
 * leave room to count with. INPUT, `where` before it. */
gboolean model_check(const Model *model, const char *where, GError **error);
Model *model_copy(const Model *model);
void model_free(Model *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Model, model_free)

/* Numbers of parameters, unsharded. */
gint64 model_layer_parameters(const Model *model);     /* one block, norms and biases included */
gint64 model_embedding_parameters(const Model *model); /* word table, and position table where learned */
gint64 model_head_parameters(const Model *model);      /* final norm, and the head's matrix unless tied */
gint64 model_parameters(const Model *model);           /* the whole model, a tied matrix once */
