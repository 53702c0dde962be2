/* What micro-batches of unequal lengths cannot be combined with. */
#include "error.h"
#include "plan.h"

/* As many work lists are made, and sequences drawn. */
enum { MOST_MICRO_BATCHES = 1 << 16, MOST_SEQUENCES = 1 << 24 };

gboolean plan_has_unequal(const Plan *plan) {
  return plan->seq_lengths != NULL && plan->batching != BATCHING_PADDED;
}

/* Why a plan's micro-batches cannot differ in how many tokens they have. */
static const char *why_not_tokens(const Plan *plan) {
  return plan->ep > 1                           ? "--ep: experts would get the tokens of unequal ranks"
         : plan->cuda_graphs > CUDA_GRAPHS_NONE ? "--cuda-graphs, which replay kernels of one size"
                                                : NULL;
}

static const char *why_not_packed(const Plan *plan) {
  return plan->attention == ATTENTION_UNFUSED ? "--attention unfused, whose scores would be those of whole rows"
         : plan->cp > 1 && plan->cp_comm == CP_RING && plan->time.context == CONTEXT_BLOCKS
             ? "--cp-comm ring as PyTorch has it, which knows no documents"
             : NULL;
}

static const char *why_not(const Plan *plan) {
  const gboolean is_of_tokens = plan->batching == BATCHING_LONGEST || plan->batching == BATCHING_BALANCED;
  const char *why = offload_is_any(&plan->offload)     ? "offloading"
                    : plan->islands > 1                ? "--islands"
                    : servers_are_used(&plan->servers) ? "--parameter-servers"
                    : plan_takes_turns(plan)           ? "--overlap-experts"
                    : batching_packs(plan->batching)   ? why_not_packed(plan)
                                                       : NULL;
  return why == NULL && is_of_tokens ? why_not_tokens(plan) : why;
}

/* Of a step, about. */
static double count_sequences(const Plan *plan) {
  const gboolean has_rows = plan->batching == BATCHING_PACKED || plan->batching == BATCHING_CONCATENATED;
  const double of_row = (double)plan->seq_len / seq_lengths_mean(plan->seq_lengths, plan->seq_len);
  return (double)plan->global_batch * (has_rows ? of_row : 1);
}

static gboolean check_sequences(const Plan *plan, GError **error) {
  const double n = count_sequences(plan);
  return n <= MOST_SEQUENCES ||
         fail_impossible(error, "--seq-lengths %s: about %.3g sequences in a step, and at most %d are drawn",
                         seq_lengths_text(plan->seq_lengths), n, MOST_SEQUENCES);
}

gboolean plan_check_lengths(const Plan *plan, GError **error) {
  const char *how = batching_names()[plan->batching];
  if (plan->seq_lengths == NULL)
    return plan->batching == BATCHING_PADDED ||
           fail_impossible(error, "batching %s needs sequences of unequal lengths: give --seq-lengths", how);
  if (!check_sequences(plan, error))
    return FALSE;
  if (!plan_has_unequal(plan))
    return TRUE;
  const char *why = why_not(plan);
  if (why != NULL)
    return fail_impossible(error, "--batching %s is not modelled with %s", how, why);
  return (double)plan->n_micro_batches * plan->dp <= MOST_MICRO_BATCHES ||
         fail_impossible(
             error, "--batching %s: %" G_GINT64_FORMAT " micro-batches × dp %d differ, and at most %d are simulated",
             how, plan->n_micro_batches, plan->dp, MOST_MICRO_BATCHES);
}
