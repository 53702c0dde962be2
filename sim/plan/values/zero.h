/* What each stage of ZeRO shards (arXiv 1910.02054 §5): 1 the optimizer's state, 2 gradients as well, 3 weights as
 * well. */
#pragma once
#include <glib.h>

static inline gboolean zero_shards_optimizer(int zero) {
  return zero >= 1;
}
static inline gboolean zero_shards_gradients(int zero) {
  return zero >= 2;
}
static inline gboolean zero_shards_weights(int zero) {
  return zero >= 3;
}
