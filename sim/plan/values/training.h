/* What of a model is trained: all, adapters (LoRA, arXiv 2106.09685) beside weights that stay as they are, or all but
 * what is frozen. */
#pragma once
#include <glib.h>

/* Products that may have an adapter, by the names of Hugging Face's models (PEFT's target_modules). Those of latent
 * attention count as q_proj (both products) and as k_proj or v_proj (both); those of experts as an MLP's. */
typedef enum { ADAPTED_Q, ADAPTED_K, ADAPTED_V, ADAPTED_O, ADAPTED_GATE, ADAPTED_UP, ADAPTED_DOWN, N_ADAPTED } Adapted;
#define ADAPTED_BIT(adapted) (1u << (adapted))
#define ADAPTED_ALL ((1u << N_ADAPTED) - 1)

enum { FREEZE_EMBEDDING = 1 << 0, FREEZE_HEAD = 1 << 1 };

/* All 0: all is trained. */
typedef struct {
  int rank;          /* of the adapters; 0: none, weights themselves are trained */
  guint modules;     /* set of Adapted, with adapters; 0: all */
  guint frozen;      /* set of FREEZE_… */
  int frozen_layers; /* the model's first so many */
} TrainedParts;

const char *adapted_name(Adapted adapted);
static inline gboolean training_is_of_all(const TrainedParts *training) {
  return training->rank == 0 && training->frozen == 0 && training->frozen_layers == 0;
}
static inline gboolean training_adapts(const TrainedParts *training, Adapted adapted) {
  return training->rank > 0 && (training->modules == 0 || (training->modules & ADAPTED_BIT(adapted)) != 0);
}

/* "full", "lora:16", "lora:16:q_proj+v_proj"; INPUT. `what` is the option's name. Leaves what is frozen as it is. */
gboolean training_parse_train(const char *what, const char *text, TrainedParts *training, GError **error);
/* "none", or embedding, layers:8 and head joined by +; INPUT. Leaves the adapters as they are. */
gboolean training_parse_freeze(const char *what, const char *text, TrainedParts *training, GError **error);
/* As these take them. Owned by the caller. */
char *training_train_text(const TrainedParts *training);
char *training_freeze_text(const TrainedParts *training);
