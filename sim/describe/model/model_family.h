/* What tells one family of configs from another: the defaults where a config is silent, and the keys only that family
 * has. Private to this floor. */
#pragma once
#include "json_file.h"
#include "model.h"

typedef struct {
  const char *types[4]; /* values of model_type */
  const char *marks[4]; /* keys that betray the family where model_type is absent */
  Norm norm;
  Positions positions;
  gboolean gated, tied, qkv_bias, linear_bias;
  gboolean dropout;     /* when the config names no rate */
  gint64 ffn_multiple;  /* of hidden, when the config does not say; 0: it has to */
  gint64 head_dim;      /* when the config does not say; 0: hidden / n_heads */
  gboolean has_experts; /* read_details knows the family's keys of experts and of latent attention */
  /* Reads the family's own keys into a model whose dimensions are filled; NULL when it has none. */
  gboolean (*read_details)(const JsonFile *json, Model *model, GError **error);
} ModelFamily;

/* By model_type, else by marks. NULL with INPUT set when neither is known. */
const ModelFamily *model_family_find(const JsonFile *json, GError **error);

/* Readers of families with experts (model_experts.c). INPUT for what is missing or out of range, IMPOSSIBLE for layers
 * with and without experts in an order that is not modelled. */
gboolean model_read_mixtral(const JsonFile *json, Model *model, GError **error);
gboolean model_read_qwen_moe(const JsonFile *json, Model *model, GError **error);
gboolean model_read_deepseek(const JsonFile *json, Model *model, GError **error);
