/* What the configs of a model_type mean where they leave a key out. Private to this floor. */
#pragma once
#include "model.h"

typedef struct {
  const char *type;         /* value of model_type */
  const char *architecture; /* what the names of its classes begin with, as in `architectures`; NULL: not its own */
  /* Its dimensions, 0 where the config has to name one or the family works it out of others (key-value heads as many
   * as heads, heads of hidden / n_heads, an MLP some times as wide); n_layers and hidden are always to be named.
   * experts.shared_ffn_hidden is of the shared experts together, a multiple of experts.ffn_hidden but in Qwen2-MoE. */
  Model model;
} ModelDefaults;

/* Of that model_type; NULL: nothing is known of it. */
const ModelDefaults *model_defaults_of(const char *type);
/* Whose architecture `name` is one of: "Glm4ForCausalLM" of glm4; NULL: none's. */
const ModelDefaults *model_defaults_of_architecture(const char *name);
