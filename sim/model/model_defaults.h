/* What a model_type's configs mean when they leave out a key. Private to this layer. */
#pragma once
#include "model.h"

typedef struct {
  const char *type;         /* value of model_type */
  const char *architecture; /* prefix of its class names, as in `architectures`; NULL: none of its own */
  /* Its dimensions. 0: the config must name it, or the family derives it (as many key-value heads as heads, heads of
   * hidden / n_heads, an MLP that is a multiple as wide). n_layers and hidden must always be named.
   * experts.shared_ffn_hidden is the width of all shared experts together, a multiple of experts.ffn_hidden except in
   * Qwen2-MoE. */
  Model model;
} ModelDefaults;

/* The defaults of that model_type; NULL: unknown type. */
const ModelDefaults *model_defaults_of(const char *type);
/* The type whose architecture `name` is: "Glm4ForCausalLM" is glm4's; NULL: none. */
const ModelDefaults *model_defaults_of_architecture(const char *name);
