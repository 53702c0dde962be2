/* Bytes per parameter times parameters, each of the three parts divided by the shard group from its ZeRO stage on:
 *
 *             weights   gradients   optimizer
 *     ZeRO-0     w          g         p + m
 *     ZeRO-1     w          g        (p + m)/N
 *     ZeRO-2     w         g/N       (p + m)/N
 *     ZeRO-3    w/N        g/N       (p + m)/N */
#include "state_memory.h"
#include "compressed_sum.h"
#include "layout.h"
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

/* --- of a rank --------------------------------------------------------------------------------------------------- */

Recipe recipe_on_gpu(const Method *method, int zero) {
  Recipe recipe = method->recipe;
  const double kept = offload_kept_share(&method->offload);
  recipe.master *= kept;
  recipe.moments *= kept;
  recipe.gradients *= zero_shards_gradients(zero) ? kept : 1;
  if (servers_are_used(&method->servers))
    recipe.master = recipe.moments = 0;
  recipe.weights = method->offload.weights != TIER_GPU ? 0 : recipe.weights;
  return recipe;
}

static void add_tiers(const Method *method, int zero, const StateBytes *whole, double updated, RankState *state) {
  const Offload *offload = &method->offload;
  const double share = offload_share(offload);
  state->tier_bytes[offload->weights] += whole->weights_bytes;
  state->tier_bytes[offload->optimizer] += share * whole->optimizer_bytes;
  if (share > 0)
    state->tier_bytes[method_gradient_tier(method, zero)] += share * updated * method->recipe.gradients;
}

/* Each micro-batch gathers ZeRO-3's weights for its forward and for its backward. Its gradients are reduced with it
 * from ZeRO-2 on, unless they are summed first. */
static double sent_bytes(const Method *method, double parameters, double frozen_bytes, int shards, int replicas,
                         int zero) {
  const double weights = method->recipe.weights * parameters, gradients = method->gradient_sum_bytes * parameters;
  const double part = (shards - 1.0) / shards, between = 2 * (replicas - 1.0) / replicas / shards;
  const CompressedSum sum = {parameters, {0}};
  if (!zero_shards_optimizer(zero))
    return compressed_sent_bytes(&method->compression, &sum, method->gradient_sum_bytes, shards * replicas);
  const double each = (double)method->n_micro_batches;
  const double sums = zero_shards_gradients(zero) && !method->sums_whole ? each : 1;
  return sums * part * gradients + between * gradients +
         part * (zero_shards_weights(zero) ? 2 * each * (weights + frozen_bytes) : weights);
}

static void add_state(const Method *method, double parameters, double frozen_bytes, int shards, int replicas, int zero,
                      RankState *state) {
  const Recipe on_gpu = recipe_on_gpu(method, zero);
  const StateBytes held = state_memory(&on_gpu, parameters, zero, shards),
                   whole = state_memory(&method->recipe, parameters, zero, shards);
  const double updated = parameters / (zero_shards_optimizer(zero) ? shards : 1);
  state->on_gpu.weights_bytes += held.weights_bytes + frozen_bytes / (zero_shards_weights(zero) ? shards : 1);
  state->on_gpu.gradients_bytes += held.gradients_bytes;
  const CompressedSum sum = {parameters, {0}};
  state->on_gpu.optimizer_bytes +=
      held.optimizer_bytes +
      compressed_state_bytes(&method->compression, &sum, method->gradient_sum_bytes, shards * replicas);
  if (method->islands > 1)
    state->on_gpu.optimizer_bytes += outer_step_state_bytes(&method->outer) * parameters / (shards * replicas);
  state->made_bytes += updated * offload_kept_share(&method->offload) * method->update_bytes;
  state->sent_bytes += sent_bytes(method, parameters, frozen_bytes, shards, replicas, zero);
  add_tiers(method, zero, &whole, updated, state);
}

RankState rank_state(const Method *method, const HeldParameters *held, int zero) {
  const double ranks = (double)method->tp * method->pp,
               expert_ranks = (double)method->ep * method->expert_tp * method->pp;
  const int of_experts = AXIS_BIT_EXPERT_SHARD | AXIS_BIT_DP_REPLICA;
  RankState state = {0};
  Layout layout;
  layout_init(&layout, method);
  add_state(method, (held->trained - held->trained_experts) / ranks,
            (held->frozen_bytes - held->frozen_experts_bytes) / ranks, layout.n_shards,
            method->data_ranks / layout.n_shards, zero, &state);
  if (held->trained_experts > 0 || held->frozen_experts_bytes > 0)
    add_state(method, held->trained_experts / expert_ranks, held->frozen_experts_bytes / expert_ranks,
              layout.n_expert_shards, layout_group_size(&layout, (AxisSet)of_experts) / layout.n_expert_shards, zero,
              &state);
  return state;
}
