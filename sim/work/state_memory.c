/* Bytes per parameter times parameters, each of the three parts divided by the shard group from its ZeRO stage on:
 *
 *             weights   gradients   optimizer
 *     ZeRO-0     w          g         p + m
 *     ZeRO-1     w          g        (p + m)/N
 *     ZeRO-2     w         g/N       (p + m)/N
 *     ZeRO-3    w/N        g/N       (p + m)/N */
#include "state_memory.h"
#include <math.h>

enum { ZERO_OPTIMIZER = 1, ZERO_GRADIENTS = 2, ZERO_WEIGHTS = 3 };

static double shards_from(int stage, int zero, int shards) {
  return zero >= stage ? shards : 1;
}

StateBytes state_memory(const Recipe *recipe, double parameters, int zero, int shards) {
  g_assert(zero >= 0 && zero <= 3 && shards >= 1);
  return (StateBytes){
      .weights_bytes = recipe->weights * parameters / shards_from(ZERO_WEIGHTS, zero, shards),
      .gradients_bytes = recipe->gradients * parameters / shards_from(ZERO_GRADIENTS, zero, shards),
      .optimizer_bytes = recipe_optimizer_bytes(recipe) * parameters / shards_from(ZERO_OPTIMIZER, zero, shards),
  };
}

double state_memory_total(const StateBytes *state) {
  return state->weights_bytes + state->gradients_bytes + state->optimizer_bytes;
}

double state_memory_max_parameters(const Recipe *recipe, int model_parallel, int zero, int shards,
                                   double capacity_bytes) {
  const StateBytes one = state_memory(recipe, 1, zero, shards);
  return capacity_bytes / state_memory_total(&one) * model_parallel;
}

double state_memory_min_gpus(const Recipe *recipe, double parameters, double capacity_bytes) {
  const StateBytes whole = state_memory(recipe, parameters, 0, 1);
  const double gpus = state_memory_total(&whole) / capacity_bytes;
  /* A state that fills its GPUs exactly must not need one more because the quotient was rounded up. */
  return fmax(1, ceil(gpus * (1 - 1e-12)));
}
