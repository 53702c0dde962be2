/* What distinguishes one family of configs from another: the defaults for missing keys, and the keys only that family
 * has. Private to this layer. */
#pragma once
#include "json_file.h"
#include "model.h"
#include "model_defaults.h"

/* What some families' configs describe in addition. */
typedef enum { PART_EXPERTS = 1 << 0, PART_LATENT = 1 << 1 } FamilyPart;

typedef struct {
  const char *types[6]; /* values of model_type */
  const char *marks[4]; /* keys that identify the family when model_type is absent */
  Norm norm;
  Positions positions;
  gboolean gated, tied, qkv_bias, linear_bias;
  gboolean dropout;      /* when the config names no rate */
  Activation activation; /* when the config names none */
  gint64 ffn_multiple;   /* of hidden, when the config does not say; 0: it must */
  double rotary_share;   /* of a head's columns, when the config does not say; 0: all */
  guint parts;           /* set of FamilyPart: parts whose keys read_details understands */
  /* Reads the family's own keys into a model whose dimensions are already filled; NULL: it has none. */
  gboolean (*read_details)(const JsonFile *json, Model *model, GError **error);
} ModelFamily;

/* Find the family by model_type, else by architectures, else by marks. `defaults` are set to those of the type, or to
 * NULL if the family was found by marks. Returns NULL with INPUT if nothing matches, with IMPOSSIBLE if model_type is
 * of a kind that is not modelled. */
const ModelFamily *model_family_find(const JsonFile *json, const ModelDefaults **defaults, GError **error);

/* Read the first present of hidden_activation, activation_function, hidden_act and activation, else take the family's
 * default (model_activation.c). INPUT if the value is not text. */
gboolean model_read_activation(const JsonFile *json, const ModelFamily *family, Model *model, GError **error);

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

/* A string of '1' or '0' for each of `n` layers; owned by the caller. */
char *model_marked_layers(const int *marked, guint n);

/* Which products have biases in configs of Llama, Mistral and Nemotron: attention_bias for attention's, mlp_bias for
 * the MLP's; none by default. */
gboolean model_read_biases(const JsonFile *json, Model *model, GError **error);

/* Readers of Llama's descendants (model_llama.c). INPUT for values out of range. */
gboolean model_read_llama(const JsonFile *json, Model *model, GError **error);
gboolean model_read_mistral(const JsonFile *json, Model *model, GError **error);
gboolean model_read_smollm3(const JsonFile *json, Model *model, GError **error);
gboolean model_read_granite(const JsonFile *json, Model *model, GError **error);
gboolean model_read_gpt_oss(const JsonFile *json, Model *model, GError **error);
gboolean model_read_qwen2(const JsonFile *json, Model *model, GError **error);
gboolean model_read_qwen3(const JsonFile *json, Model *model, GError **error);
gboolean model_read_windowed_mixtral(const JsonFile *json, Model *model, GError **error);
gboolean model_read_qwen2_moe(const JsonFile *json, Model *model, GError **error);
gboolean model_read_qwen3_moe(const JsonFile *json, Model *model, GError **error);
gboolean model_read_gemma(const JsonFile *json, Model *model, GError **error);
gboolean model_read_gemma2(const JsonFile *json, Model *model, GError **error);
gboolean model_read_gemma3(const JsonFile *json, Model *model, GError **error);
gboolean model_read_olmo2(const JsonFile *json, Model *model, GError **error);
gboolean model_read_olmo3(const JsonFile *json, Model *model, GError **error);
gboolean model_read_olmoe(const JsonFile *json, Model *model, GError **error);
gboolean model_read_glm(const JsonFile *json, Model *model, GError **error);
gboolean model_read_glm4(const JsonFile *json, Model *model, GError **error);
gboolean model_read_glm4_moe(const JsonFile *json, Model *model, GError **error);
gboolean model_read_minimax_m2(const JsonFile *json, Model *model, GError **error);
gboolean model_read_phimoe(const JsonFile *json, Model *model, GError **error);
gboolean model_read_dots1(const JsonFile *json, Model *model, GError **error);
gboolean model_read_granite_moe(const JsonFile *json, Model *model, GError **error);
gboolean model_read_ernie(const JsonFile *json, Model *model, GError **error);
gboolean model_read_ernie_moe(const JsonFile *json, Model *model, GError **error);
gboolean model_read_exaone4(const JsonFile *json, Model *model, GError **error);
gboolean model_read_hunyuan(const JsonFile *json, Model *model, GError **error);
gboolean model_read_hunyuan_moe(const JsonFile *json, Model *model, GError **error);
gboolean model_read_seed_oss(const JsonFile *json, Model *model, GError **error);
gboolean model_read_cohere(const JsonFile *json, Model *model, GError **error);
gboolean model_read_cohere2(const JsonFile *json, Model *model, GError **error);
gboolean model_read_olmo(const JsonFile *json, Model *model, GError **error);
gboolean model_read_stablelm(const JsonFile *json, Model *model, GError **error);
gboolean model_read_starcoder2(const JsonFile *json, Model *model, GError **error);

/* Readers of families with experts (model_experts.c). The model already holds the type's defaults. INPUT for what is
 * missing or out of range, IMPOSSIBLE if layers with and without experts alternate in a way that is not modelled. */
gboolean model_read_plain_experts(const JsonFile *json, Model *model, GError **error);
gboolean model_read_qwen_moe(const JsonFile *json, Model *model, GError **error);
gboolean model_read_ernie_experts(const JsonFile *json, Model *model, GError **error);
gboolean model_read_hunyuan_experts(const JsonFile *json, Model *model, GError **error);
gboolean model_read_glm_experts(const JsonFile *json, Model *model, GError **error);
gboolean model_read_deepseek(const JsonFile *json, Model *model, GError **error);
