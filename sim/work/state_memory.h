/* Model state per GPU: weights, gradients, optimizer under a recipe, tp × pp cut and a ZeRO stage. */
#pragma once
#include "recipe.h"

typedef struct {
  double weights_bytes, gradients_bytes, optimizer_bytes;
} StateBytes;

/* `parameters` on this GPU before ZeRO (already divided by tp and pp); `shards` ranks share one set of shards.
 * ZeRO-1 divides optimizer, ZeRO-2 also gradients, ZeRO-3 also weights. Source: arXiv 1910.02054 §5. */
StateBytes state_memory(const Recipe *recipe, double parameters, int zero, int shards);
double state_memory_total(const StateBytes *state);
/* Largest total parameter count whose state fits `capacity_bytes` on each of tp × pp × shards GPUs. */
double state_memory_max_parameters(const Recipe *recipe, int model_parallel, int zero, int shards,
                                   double capacity_bytes);
/* Fewest GPUs of `capacity_bytes` that hold the unreplicated state of `parameters` (state spread evenly). */
double state_memory_min_gpus(const Recipe *recipe, double parameters, double capacity_bytes);
