/* What tells one family of configs from another: the defaults where a config is silent, and the keys only that family
 * has. Private to this floor. */
#pragma once
#include "json_file.h"
#include "model.h"
#include "model_defaults.h"

/* What some families' configs describe besides. */
typedef enum { PART_EXPERTS = 1 << 0, PART_LATENT = 1 << 1 } FamilyPart;

typedef struct {
  const char *types[6]; /* values of model_type */
  const char *marks[4]; /* keys that betray the family where model_type is absent */
  Norm norm;
  Positions positions;
  gboolean gated, tied, qkv_bias, linear_bias;
  gboolean dropout;      /* when the config names no rate */
  Activation activation; /* when the config names none */
  gint64 ffn_multiple;   /* of hidden, when the config does not say; 0: it has to */
  double rotary_share;   /* of a head's columns, when the config does not say; 0: all */
  guint parts;           /* of FamilyPart: read_details knows the family's keys of these */
  /* Reads the family's own keys into a model whose dimensions are filled; NULL when it has none. */
  gboolean (*read_details)(const JsonFile *json, Model *model, GError **error);
} ModelFamily;

/* By model_type, else by architectures, else by marks. `defaults` are those of the type, NULL where only marks tell.
 * NULL with INPUT set when none of them is known, with IMPOSSIBLE where model_type is of a kind that is not modelled.
 */
const ModelFamily *model_family_find(const JsonFile *json, const ModelDefaults **defaults, GError **error);

/* hidden_activation, activation_function, hidden_act or activation, whichever is there first, else the family's
 * (model_activation.c). INPUT for what is no text. */
gboolean model_read_activation(const JsonFile *json, const ModelFamily *family, Model *model, GError **error);

/* "mixtral, …, deepseek_v3 and kimi_k2": values of model_type whose families have `part`; owned by the caller. */
char *model_family_names(FamilyPart part);

/* Bias of attention's products and of the MLP's, where a family sets them apart. */
void model_set_biases(Model *model, gboolean attention, gboolean mlp);

/* What a family's configs mean where they are silent. */
typedef struct {
  gint64 window;         /* tokens; 0: none */
  gint64 period;         /* of so many layers all but the last have it; 0 or 1: all layers */
  gboolean is_last_only; /* of a period the last alone */
  gint64 n_whole;        /* leading layers that have none (max_window_layers) */
  gboolean is_off;       /* unless use_sliding_window is true */
  gboolean has_letters;  /* sliding_window_pattern may be letters of a period's layers (EXAONE 4) */
} WindowDefaults;

/* sliding_window; which layers have it says layer_types, else sliding_window_pattern (a period, or where a
 * family has them letters of the layers of one, L with it and G without) or the defaults' period, else
 * max_window_layers, the first that does not (model_windows.c). INPUT for a list that does not name every layer's. */
gboolean model_read_window(const JsonFile *json, Model *model, WindowDefaults defaults, GError **error);

/* '1' or '0' of each of `n` layers; owned by the caller. */
char *model_marked_layers(const int *marked, guint n);

/* Which products have biases, as the configs of Llama, Mistral and Nemotron may say: attention_bias for those of
 * attention, mlp_bias for those of the MLP; none where they do not. */
gboolean model_read_biases(const JsonFile *json, Model *model, GError **error);

/* Readers of Llama's descendants (model_llama.c). INPUT for what is out of range. */
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

/* Readers of families with experts (model_experts.c), into a model that holds the type's defaults. INPUT for what is
 * missing or out of range, IMPOSSIBLE for layers with and without experts in an order that is not modelled. */
gboolean model_read_plain_experts(const JsonFile *json, Model *model, GError **error);
gboolean model_read_qwen_moe(const JsonFile *json, Model *model, GError **error);
gboolean model_read_ernie_experts(const JsonFile *json, Model *model, GError **error);
gboolean model_read_hunyuan_experts(const JsonFile *json, Model *model, GError **error);
gboolean model_read_glm_experts(const JsonFile *json, Model *model, GError **error);
gboolean model_read_deepseek(const JsonFile *json, Model *model, GError **error);
