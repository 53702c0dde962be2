/* What distinguishes one family of configs from another: the defaults for missing keys, and the keys only that family
 * has. Private to this layer. */
#pragma once
#include "json_file.h"
#include "model.h"
#include "model_defaults.h"

/* What some families' configs describe in addition. */
typedef enum { PART_EXPERTS = 1 << 0, PART_LATENT = 1 << 1 } FamilyPart;

/* Reads a family's own keys into a model whose dimensions are already filled. */
typedef gboolean ModelReader(const JsonFile *json, Model *model, GError **error);

typedef struct {
  const char *types[6]; /* values of model_type */
  const char *marks[4]; /* keys that identify the family when model_type is absent */
  Norm norm;
  Positions positions;
  gboolean gated, tied, qkv_bias, linear_bias;
  gboolean dropout;          /* when the config names no rate */
  Activation activation;     /* when the config names none */
  gint64 ffn_multiple;       /* of hidden, when the config does not say; 0: it must */
  double rotary_share;       /* of a head's columns, when the config does not say; 0: all */
  guint parts;               /* set of FamilyPart: parts whose keys read_details understands */
  ModelReader *read_details; /* NULL: it has no keys of its own */
} ModelFamily;

/* Find the family by model_type, else by architectures, else by marks. `defaults` are set to those of the type, or to
 * NULL if the family was found by marks. Returns NULL with INPUT if nothing matches, with IMPOSSIBLE if model_type is
 * of a kind that is not modelled. */
const ModelFamily *model_family_find(const JsonFile *json, const ModelDefaults **defaults, GError **error);

/* "mixtral, …, deepseek_v3 and kimi_k2": the model_types whose families have `part`; owned by the caller. */
char *model_family_names(FamilyPart part);

/* Set the biases of attention's products and of the MLP's separately. */
void model_set_biases(Model *model, gboolean attention, gboolean mlp);

/* A family's sliding window when the config does not say. */
typedef struct {
  gint64 window;         /* tokens; 0: none */
  gint64 period;         /* all layers but the last of each period have it; 0 or 1: all layers */
  gboolean is_last_only; /* only the last layer of each period has it */
  gint64 n_whole;        /* leading layers without it (max_window_layers) */
  gboolean is_off;       /* off unless use_sliding_window is true */
  gboolean has_letters;  /* sliding_window_pattern may spell one period's layers as letters (EXAONE 4) */
} WindowDefaults;

/* Read sliding_window and which layers have it: from layer_types; else from sliding_window_pattern (a period, or, if
 * the family has letters, one letter per layer of a period, L with the window and G without) or the defaults' period;
 * else from max_window_layers, the number of leading layers without it (model_windows.c). INPUT for a list that does
 * not cover every layer. */
gboolean model_read_window(const JsonFile *json, Model *model, WindowDefaults defaults, GError **error);

/* Read attention_chunk_size and which layers have it: from layer_types, else those that rotate q and k (Llama 4). INPUT
 * for a list that does not cover every layer. */
gboolean model_read_chunks(const JsonFile *json, Model *model, GError **error);

/* A string of '1' or '0' for each of `n` layers; owned by the caller. */
char *model_marked_layers(const int *marked, guint n);

/* Which products have biases in configs of Llama, Mistral and Nemotron: attention_bias for attention's, mlp_bias for
 * the MLP's; none by default. */
ModelReader model_read_biases;

/* Llama's descendants (model_llama.c). INPUT for values out of range. */
ModelReader model_read_llama, model_read_mistral, model_read_smollm3, model_read_granite, model_read_gpt_oss,
    model_read_qwen2, model_read_qwen3, model_read_windowed_mixtral, model_read_qwen2_moe, model_read_qwen3_moe,
    model_read_gemma, model_read_gemma2, model_read_gemma3, model_read_olmo2, model_read_olmo3, model_read_olmoe,
    model_read_glm, model_read_glm4, model_read_glm4_moe, model_read_minimax_m2, model_read_phimoe, model_read_dots1,
    model_read_granite_moe, model_read_ernie, model_read_ernie_moe, model_read_exaone4, model_read_hunyuan,
    model_read_hunyuan_moe, model_read_seed_oss, model_read_cohere, model_read_cohere2, model_read_olmo,
    model_read_stablelm, model_read_starcoder2, model_read_baichuan, model_read_qwen, model_read_llama4;

/* Families with experts (model_experts.c). The model already holds the type's defaults. INPUT for what is missing or
 * out of range, IMPOSSIBLE if layers with and without experts alternate in a way that is not modelled. */
ModelReader model_read_plain_experts, model_read_qwen_moe, model_read_ernie_experts, model_read_hunyuan_experts,
    model_read_glm_experts, model_read_deepseek, model_read_llama4_experts;
