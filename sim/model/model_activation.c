/* The activation between an MLP's products, by the names of Transformers' ACT2FN (activations.py, v4.46 to v4.57). */
#include "model_family.h"

#include <string.h>

static const char *const names[N_ACTIVATIONS] = {[ACTIVATION_USUAL] = "the usual one",
                                                 [ACTIVATION_SILU] = "SiLU",
                                                 [ACTIVATION_GELU] = "GELU",
                                                 [ACTIVATION_RELU] = "ReLU",
                                                 [ACTIVATION_SQUARED_RELU] = "squared ReLU",
                                                 [ACTIVATION_BOUNDED_GELU] = "a bounded GELU",
                                                 [ACTIVATION_OTHER] = "another"};

/* "gelu_new", "gelu_pytorch_tanh", "quick_gelu", "gelu_fast" … are different approximations of GELU. */
static Activation activation_of(const char *text) {
  if (strcmp(text, "silu") == 0 || strcmp(text, "swish") == 0)
    return ACTIVATION_SILU;
  if (strstr(text, "gelu") != NULL)
    return ACTIVATION_GELU;
  if (strcmp(text, "relu") == 0)
    return ACTIVATION_RELU;
  return strcmp(text, "relu2") == 0 ? ACTIVATION_SQUARED_RELU : ACTIVATION_OTHER;
}

gboolean model_read_activation(const JsonFile *json, const ModelFamily *family, Model *model, GError **error) {
  static const char *const keys[] = {"hidden_activation", "activation_function", "hidden_act", "activation"};
  const char *text = NULL;
  for (gsize i = 0; i < G_N_ELEMENTS(keys) && text == NULL; i++)
    if (!json_file_text(json, json->root, keys[i], &text, error))
      return FALSE;
  model->activation = text != NULL ? activation_of(text) : family->activation;
  return TRUE;
}

Activation model_activation(const Model *model) {
  if (model->activation != ACTIVATION_USUAL)
    return model->activation;
  return model->gated ? ACTIVATION_SILU : ACTIVATION_GELU;
}

const char *model_activation_name(Activation activation) {
  return names[activation];
}
