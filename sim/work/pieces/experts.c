/* Experts in place of the MLP (arXiv 2101.03961; with experts cut by tp as well, Megatron-LM's all-to-all
 * dispatcher). A rank has T' tokens; each is sent to k experts:
 *
 *     x ─┬─ router (T', E) ── top-k ┐
 *        ├───────────────────── permute (k·T') ─ all-to-all over ep ─ [gather over tp] ─ sort by expert ┐
 *        │                                                                                 expert_up, activation,
 *        │                                                                                 expert_down, all experts
 *        │                                                                                 of the rank in one launch
 *        │          unpermute (T') ─ all-to-all over ep ─ [reduce-scatter over tp] ─ unsort ────────────┘
 *        └─ shared expert: an MLP over all tokens, cut by tp as any, ── + ── y
 *
 * Tokens are spread evenly over all experts, as balancing losses and capacities ensure: every rank sends k·T' rows
 * and receives as many, and each expert's rows are rounded up. If the plan says that the fullest rank gets more
 * (expert_load), every rank is taken to be that one: all of a layer wait for it, and its link carries that many times
 * the bytes and its products that many times the rows. The weights of the choice are multiplied in with the
 * activation. Neither all-to-all overlaps with anything, since what follows needs it. Backward is the same from the
 * end, with an all-to-all for the gradient of each; W sends nothing, as the experts' inputs are kept where they were
 * used. Additional single operations are in expert_operations.c.
 *
 * DeepEP's kernels send a token once to each rank that has some of its experts, so there are fewer rows up to the
 * sort, which then makes one row for each expert.
 *
 * If all tokens are gathered (plan.h's all_gather; MoEAllGatherTokenDispatcher of Megatron Core's
 * token_dispatcher.py), there is no exchange and nothing to sort:
 *
 *     x ─ router ─ gather (n·T') ─ permute (k·T' on average) ─ experts ─ unpermute (n·T') ─ reduce-scatter ─ y
 *
 * Both are over one group of n ranks, those of ep and, if tp cuts experts, of tp. Three tensors are gathered per
 * token, one after another: a byte per expert that says whether the token goes there, its weights for all experts,
 * and the token itself. A rank picks the tokens of its experts, and adds their results to zeros for all n·T';
 * likewise for the gradients, and those of the weights are summed and scattered too. The host reads the number of
 * rows to pick beforehand (if the framework says that it reads such counts; also with ep 1). Weights are in the
 * format of the elements, and so are the sums; Megatron Core converts the sums to the weights' format, which
 * moe_router_dtype can make fp32. Not counted: copying, counting and picking a rank's own columns of the n·T' choices
 * and weights.
 *
 * If a framework converts tokens before they leave, what is permuted, sent and sorted on the way to experts is in the
 * format they multiply in, forward and backward.
 *
 * Recompute of moe repeats all of this, exchanges included; that of moe_act repeats only the activation, with the
 * received rows kept.
 *
 * Router, per token and expert: scores in fp32 (read e, write 4), softmax or sigmoid (8), choice (4), table of the
 * chosen and their weights (5), balancing loss (4); backward half of that. */
#include "pieces.h"

static const double router_bytes = 21, router_backward_bytes = 10; /* in addition to an element of the scores each */

static double rows_bytes(const LocalSizes *local, gint64 rows) {
  return local->element_bytes * rows * local->model->hidden;
}

static void choose(ItemList *list, const char *name, double bytes) {
  const LocalSizes *local = list->local;
  item_list_memory(list, name, (local->element_bytes + bytes) * local->split_tokens * local->model->experts.n);
}

/* Rows that leave a rank for others, or come back: per token one for each expert, or one for each rank that has some
 * of its experts. The cost model decides what share of them crosses NICs (expert_exchange.h). */
static double sent_rows(const LocalSizes *local) {
  if (!local->method->dispatches_once)
    return (double)local->routed_tokens;
  return local->split_tokens * model_expert_places(&local->model->experts, local->method->ep);
}

/* Between tokens and rows of experts, `at_tokens` and `at_experts` on either side. In one kernel both are moved once.
 * PyTorch operations read a row again for each copy of it, and add rows up atomically in zeros. They also multiply the
 * rows that come back by the weights of the choice (is_weighted: rows are read and written, with a factor that is
 * broadcast); backward the same, and the gradients of the weights are products with the rows, added up. */
static void permute_rows(ItemList *list, const char *name, double element_bytes, double at_tokens, double at_experts,
                         gboolean comes_back, gboolean is_weighted) {
  const LocalSizes *local = list->local;
  const double rate = local->method->time.permutation_rate, pass_bytes = element_bytes * local->model->hidden;
  if (rate <= 0) {
    item_list_memory(list, name, pass_bytes * (at_tokens + at_experts));
    return;
  }
  const double moved = comes_back ? at_experts / rate + at_tokens : 2 * at_experts, weighted = 2 * at_experts,
               of_weights = comes_back ? 0 : 4 * at_experts;
  item_list_strided_operations(list, name, (comes_back ? 2 : 1) + (is_weighted ? (comes_back ? 1 : 3) : 0),
                               pass_bytes * (moved + (is_weighted ? weighted + of_weights : 0)),
                               pass_bytes * (is_weighted ? weighted : 0));
}

/* Between this rank's tokens and the rows that leave it. DeepEP's kernels do this while moving rows to and from their
 * buffers. */
static void permute(ItemList *list, const char *name, double element_bytes, gboolean comes_back, gboolean is_weighted) {
  const LocalSizes *local = list->local;
  const double tokens = (double)local->split_tokens, rows = sent_rows(local);
  if (local->method->dispatches_once)
    item_list_memory(list, name, element_bytes * (tokens + rows) * local->model->hidden);
  else
    permute_rows(list, name, element_bytes, tokens, rows, comes_back, is_weighted);
}

/* Bytes per element of rows on their way to experts. */
static double sent_bytes(const LocalSizes *local) {
  return sends_narrow(local) ? local->linear_bytes : local->element_bytes;
}

/* `is_counted`: for tokens whose experts have just been chosen. */
static void exchange(ItemList *list, const char *operand, double element_bytes, gboolean is_counted) {
  const LocalSizes *local = list->local;
  const double bytes = element_bytes * sent_rows(local) * local->method->expert_load * local->model->hidden;
  if (local->method->ep == 1)
    return;
  const gint32 sent = item_list_collective(list, AXIS_EP, COLLECTIVE_ALL_TO_ALL, operand, bytes);
  item_list_nth(list, sent)->counted = is_counted != FALSE;
  item_list_wait(list, sent);
}

/* Gathers the tokens of all ranks, token_bytes each, from this rank's; or reduces them and keeps this rank's. */
static void share_tokens(ItemList *list, Collective collective, const char *operand, double token_bytes) {
  const Method *method = list->local->method;
  const Axis axis = method->ep > 1 ? AXIS_EP : AXIS_TP;
  const gint32 shared =
      item_list_collective(list, axis, collective, operand, token_bytes * expert_gathered_tokens(list->local));
  item_list_nth(list, shared)->spans_tp = method->ep > 1 && method->expert_tp > 1;
  item_list_wait(list, shared);
}

double expert_gathered_tokens(const LocalSizes *local) {
  const Method *method = local->method;
  return method->gathers_tokens ? (double)local->split_tokens * method->ep * method->expert_tp : 0;
}

double expert_gathered_bytes(const LocalSizes *local) {
  return sent_bytes(local) * expert_gathered_tokens(local) * local->model->hidden;
}

static void dispatch_gathered(ItemList *list, const char *permuted, double bytes, gboolean is_counted) {
  const LocalSizes *local = list->local;
  const double all = expert_gathered_tokens(local), n = local->model->experts.n;
  const double picked = all * model_expert_places(&local->model->experts, local->method->ep) / local->method->ep;
  if (is_counted) {
    share_tokens(list, COLLECTIVE_ALL_GATHER, permuted, n);
    share_tokens(list, COLLECTIVE_ALL_GATHER, permuted, local->element_bytes * n);
  }
  share_tokens(list, COLLECTIVE_ALL_GATHER, permuted, bytes * local->model->hidden);
  if (is_counted && local->method->counts_on_host)
    item_list_host_wait(list);
  permute_rows(list, permuted, bytes, picked, (double)local->expert_rows, FALSE, !is_counted);
}

static void combine_gathered(ItemList *list, const char *unpermuted, gboolean of_gradients) {
  const LocalSizes *local = list->local;
  const double e = local->element_bytes;
  permute_rows(list, unpermuted, e, expert_gathered_tokens(local), (double)local->expert_rows, TRUE, !of_gradients);
  share_tokens(list, COLLECTIVE_REDUCE_SCATTER, unpermuted, e * local->model->hidden);
  if (of_gradients)
    share_tokens(list, COLLECTIVE_REDUCE_SCATTER, unpermuted, e * local->model->experts.n);
}

static gboolean is_cut_by_tp(const LocalSizes *local) {
  return local->method->expert_tp > 1;
}

/* Rows arrive by rank and leave by expert, or the reverse. A token received once for several experts is one row on the
 * side of the ranks: there this is the permutation. */
static void sort_rows(ItemList *list, const char *name, double element_bytes, gboolean comes_back,
                      gboolean is_weighted) {
  const LocalSizes *local = list->local;
  const double rows = (double)local->expert_rows, read = sent_rows(local) / local->routed_tokens;
  if (local->n_experts <= 1 || (local->method->ep == 1 && !is_cut_by_tp(local)))
    return;
  if (local->method->dispatches_once)
    permute_rows(list, name, element_bytes, read * rows, rows, comes_back, is_weighted);
  else
    item_list_memory(list, name, (1 + read) * element_bytes * rows * local->model->hidden);
}

/* From this rank's tokens to rows of its experts. */
static void dispatch(ItemList *list, const char *converted, const char *permuted, gboolean is_counted) {
  const LocalSizes *local = list->local;
  const double bytes = sent_bytes(local);
  if (sends_narrow(local))
    item_list_memory(list, converted, (cast_read_bytes(local) + bytes) * local->split_tokens * local->model->hidden);
  if (local->method->gathers_tokens) {
    dispatch_gathered(list, permuted, bytes, is_counted);
    return;
  }
  permute(list, permuted, bytes, FALSE, !is_counted);
  exchange(list, permuted, bytes, is_counted);
  if (is_cut_by_tp(local))
    item_list_wait(list, item_list_collective(list, AXIS_TP, COLLECTIVE_ALL_GATHER, permuted,
                                              bytes * local->expert_rows * local->model->hidden));
  sort_rows(list, "experts.sort", bytes, FALSE, !is_counted);
}

/* The way back; `of_gradients`: includes the gradients of the weights of the choice. */
static void combine(ItemList *list, const char *unpermuted, gboolean of_gradients) {
  static const char *const unsorted = "experts.unsort";
  const LocalSizes *local = list->local;
  if (local->method->gathers_tokens) {
    combine_gathered(list, unpermuted, of_gradients);
    return;
  }
  sort_rows(list, unsorted, local->element_bytes, TRUE, !of_gradients);
  if (is_cut_by_tp(local))
    item_list_wait(list, item_list_collective(list, AXIS_TP, COLLECTIVE_REDUCE_SCATTER, unsorted,
                                              rows_bytes(local, local->expert_rows)));
  exchange(list, unsorted, local->element_bytes, FALSE);
  permute(list, unpermuted, local->element_bytes, TRUE, !of_gradients);
}

/* Sums of `n` tensors of the residual stream. */
static void sum(ItemList *list, const char *name, int n) {
  const LocalSizes *local = list->local;
  item_list_input_gradient(list, name, 3 * (n - 1) * rows_bytes(local, local->split_tokens));
}

static void shared_mlp_forward(ItemList *list) {
  linear_column_forward(list, LINEAR_SHARED_UP);
  mlp_activation_forward(list, list->local->tokens, list->local->shared_width);
  linear_row_forward(list, LINEAR_SHARED_DOWN);
}

static void shared_forward(ItemList *list) {
  const LocalSizes *local = list->local;
  if (local->shared_width == 0)
    return;
  shared_mlp_forward(list);
  item_list_memory(list, "experts.sum", 3 * rows_bytes(local, local->split_tokens));
}

static void shared_backward(ItemList *list) {
  const LocalSizes *local = list->local;
  if (local->shared_width == 0)
    return;
  if (item_list_recomputes(list, MODULE_SHARED_EXPERTS))
    item_list_recompute(list, shared_mlp_forward);
  linear_row_backward(list, LINEAR_SHARED_DOWN);
  mlp_activation_backward(list, local->tokens, local->shared_width);
  linear_column_backward(list, LINEAR_SHARED_UP);
}

static void expert_activation(ItemList *list) {
  expert_bound_forward(list);
  mlp_activation_forward(list, list->local->expert_rows, list->local->expert_width);
}

/* In the form that the product after it reads. */
static void recompute_expert_activation(ItemList *list) {
  expert_activation(list);
  linear_cast(list, LINEAR_EXPERT_DOWN);
}

void experts_forward(ItemList *list) {
  linear_column_forward(list, LINEAR_ROUTER);
  choose(list, "router.choice", router_bytes);
  dispatch(list, "permute.cast", "permute", TRUE);
  expert_pad(list, "experts.pad");
  linear_column_forward(list, LINEAR_EXPERT_UP);
  expert_activation(list);
  linear_row_forward(list, LINEAR_EXPERT_DOWN);
  expert_bias_forward(list);
  expert_pad(list, "experts.unpad");
  combine(list, "unpermute", FALSE);
  shared_forward(list);
}

void experts_backward(ItemList *list) {
  const LocalSizes *local = list->local;
  if (item_list_recomputes(list, MODULE_MOE))
    item_list_recompute(list, experts_forward);
  shared_backward(list);
  const gboolean is_summed = local->shared_width > 0 && local->method->gathers_tokens;
  if (is_summed) /* tp's reduction for the shared expert is waited for before ep gathers */
    sum(list, "experts.grad_sum", 2);
  if (list->input_gradients) {
    dispatch(list, "unpermute.grad_cast", "unpermute.backward", FALSE);
    expert_pad(list, "experts.pad");
    expert_bias_backward(list);
  }
  if (item_list_recomputes(list, MODULE_MOE_ACT))
    item_list_recompute(list, recompute_expert_activation);
  linear_row_backward(list, LINEAR_EXPERT_DOWN);
  expert_activation_backward(list);
  expert_bound_backward(list);
  linear_column_backward(list, LINEAR_EXPERT_UP);
  if (list->input_gradients) {
    expert_pad(list, "experts.unpad");
    combine(list, "permute.backward", TRUE);
    choose(list, "router.backward", router_backward_bytes);
  }
  linear_column_backward(list, LINEAR_ROUTER);
  sum(list, "experts.grad_sum", local->shared_width > 0 && !is_summed ? 3 : 2);
}
