/* Models from text, for tests. */
#pragma once
#include "error.h"
#include "model.h"
#include "text_file.h"

#include <stdlib.h>

/* The keys every config needs, in two spellings. */
#define LLAMA_CORE                                                                                                     \
  "\"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"intermediate_size\": 96, "             \
  "\"vocab_size\": 100"
#define MPT_CORE "\"d_model\": 64, \"n_layers\": 2, \"n_heads\": 4, \"vocab_size\": 100, \"max_seq_len\": 32"

/* Reads a config from a temporary file, which is then removed. */
static inline Model *read_bytes(const char *text, gsize length, GError **error) {
  char *path = text_file_new("", text, (gssize)length);
  Model *model = model_read(path, error);
  text_file_drop(path);
  return model;
}

static inline Model *read_text(const char *text) {
  g_autoptr(GError) error = NULL;
  Model *model = read_bytes(text, strlen(text), &error);
  ck_assert_msg(model != NULL, "%s", error == NULL ? "no message" : error->message);
  return model;
}
