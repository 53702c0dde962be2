/* Model state per GPU: weights, gradients, optimizer under a recipe, tp × pp cut and a ZeRO stage. */
#pragma once
#include "method.h"

typedef struct {
  double weights_bytes, gradients_bytes, optimizer_bytes;
} StateBytes;

/* `parameters` on this GPU before ZeRO (already divided by tp and pp); `shards` ranks share one set of shards.
 * ZeRO-1 divides optimizer, ZeRO-2 also gradients, ZeRO-3 also weights. Source: arXiv 1910.02054 §5. */
StateBytes state_memory(const Recipe *recipe, double parameters, int zero, int shards);
double state_memory_total(const StateBytes *state);
/* What a rank holds of a model that is known by its number of parameters alone, spread evenly over tp × pp, those of
 * experts over ep as well, then sharded by ZeRO. */
typedef struct {
  StateBytes on_gpu;
  double made_bytes;          /* what the optimizer makes while it runs, on the GPU */
  double tier_bytes[N_TIERS]; /* in host memory and on drives */
  double sent_bytes; /* by this rank in a step, to sum gradients and to gather weights over dp × cp, as rings do:
                        (N − 1)/N of the buffer for a reduce-scatter or an all-gather, twice that for an all-reduce */
} RankState;
/* Of the model, and of adapters beside it. */
typedef struct {
  double trained, trained_experts;           /* all, and those in experts */
  double frozen_bytes, frozen_experts_bytes; /* weights of the others */
} HeldParameters;
RankState rank_state(const Method *method, const HeldParameters *held, int zero);
/* The recipe's part that stays on the GPUs: from ZeRO-2 on gradients leave with the optimizer, below they accumulate
 * on the GPU. */
Recipe recipe_on_gpu(const Method *method, int zero);

/* Largest total parameter count whose state fits `capacity_bytes` on each of tp × pp × shards GPUs. */
double state_memory_max_parameters(const Recipe *recipe, int model_parallel, int zero, int shards,
                                   double capacity_bytes);
/* Fewest GPUs of `capacity_bytes` that hold the unreplicated state of `parameters` (state spread evenly). */
double state_memory_min_gpus(const Recipe *recipe, double parameters, double capacity_bytes);
