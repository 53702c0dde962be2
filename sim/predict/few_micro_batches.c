/* How many micro-batches may represent all: p + 2 for 1f1b, a few groups for interleaved, more if stages differ. */
#include "few_micro_batches.h"

/* Enough for the pipeline to fill and to repeat once. It has usually settled by then: on the first rank a micro-batch
 * waits for the one a round trip ahead of it, and the other ranks can build up no slack beyond that of receives begun
 * ahead. Of interleaved groups the first fills the pipeline; of the next two, the first rank runs 2 − 1/chunks in
 * turn. */
static gint64 fewest_of(gint64 group, const Method *method) {
  enum { GROUPS = 3, MORE = 2, AHEAD = 2 };
  const int groups =
      GROUPS + zero_shards_gradients(method->zero); /* gradients that are reduced in every group settle a group later */
  return group > 1 ? groups * group : (gint64)method->pp + MORE + (method->pp > 1 && method->overlap_p2p ? AHEAD : 0);
}

gint64 few_micro_batches_of_order(const Method *method) {
  const gint64 all = method->n_micro_batches, group = method_group(method), fewest = fewest_of(group, method);
  return group == 0 || all < fewest ? all : all - (all - fewest) / group * group;
}

/* Whether all stages have the same number of layers. */
static gboolean is_even(const Workload *workload) {
  for (int stage = 1; stage < workload->n_stages; stage++)
    if (workload->stages[stage].layers.n_layers != workload->stages[0].layers.n_layers)
      return FALSE;
  return TRUE;
}

/* Usually enough. Stages with fewer layers that reduce gradients in every group run ahead of the others for one group
 * more. */
static gint64 first_try(gint64 group, const Workload *workload) {
  const gint64 fewest = fewest_of(group, workload->method);
  return fewest + (group == 1 && zero_shards_gradients(workload->method->zero) && !is_even(workload) ? 1 : 0);
}

/* The first try, and more for stages that differ by more than they wait. Gradients reduced beside every group hold up
 * the first stage a little; it then takes most of a round of the pipeline until the others have no slack left. Under
 * ZeRO-3 ranks are held up by their own gathers, some more than others, and the slack that the faster ones gain in
 * every group lasts for four rounds or more; this is tried only where it is cheap. A step of few passes of whole stages
 * is run at once. All found on sweeps of GPT-3 175B, Llama 2 13B and Llama 3 70B (2026-11); none changes a result. */
int few_micro_batches_to_try(gint64 group, const Workload *workload, FewMicroBatches tries[MOST_TRIES_WITH_FEW]) {
  enum { GROUPS = 6, ROUNDS = 3, ROUNDS_OF_GATHERS = 4, MORE = 3, FEW_PASSES = 32 };
  const Method *method = workload->method;
  const gint64 pp = method->pp, first = first_try(group, workload);
  const double little = 0.25, most = 0.6;
  int n = 0;
  if (method->n_micro_batches * workload->n_stages <= FEW_PASSES && !zero_shards_gradients(method->zero) &&
      method->cp == 1 && method->ep == 1)
    return 0;
  tries[n++] = (FewMicroBatches){first, little};
  if (group == 1 && method->zero == 2 && pp > 1)
    tries[n++] = (FewMicroBatches){first + 3 * pp / 4, little};
  const gint64 rounds = zero_shards_weights(method->zero) ? ROUNDS_OF_GATHERS : ROUNDS;
  tries[n++] = (FewMicroBatches){group > 1 ? GROUPS * group : rounds * pp + MORE,
                                 zero_shards_weights(method->zero) ? most : little};
  return n;
}
