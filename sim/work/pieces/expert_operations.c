/* What Megatron Core does around experts in single PyTorch operations. Each reads and writes whole tensors, R rows of
 * w columns (a gate's output) or of h (the hidden size); e bytes per element:
 *
 *     bound       a bounded gate (GPT-OSS): each half of the up product's output is clamped, and both are joined
 *                 again, before one kernel multiplies them (weighted_bias_quick_geglu_impl of
 *                 core/fusions/fused_bias_geglu.py, since 2025-09): clamp 2·2w·e, join 2·2w·e. Backward, for the half
 *                 with one bound: compare (e + 1), choose (2e + 1); with two: compare twice 2·(e + 1), and (3),
 *                 choose (2e + 1); join 2·2w·e
 *     bias        of the down product: bias × weight of the choice is added expert by expert, and the results are
 *                 joined (TEGroupedMLP._apply_bias of core/transformer/moe/experts.py, since 2025-09). Weights are in
 *                 the format of the router, those received through DeepEP or HybridEP in fp32 (its dispatchers
 *                 convert them), r bytes where that is wider: bias × weight (write r), sum (e + 2r), join (2r), to
 *                 the element format (r + e). Backward: from it (e + r), to the product (r + e), for the gradients
 *                 of the bias and of the weight multiply (2r) and add up (r) each, join (2e)
 *     weights     of the choice, multiplied in with the activation: their gradients, a sum over each row of the
 *                 activation times its output's gradient, are a separate kernel beside that of the input's gradient,
 *                 since what the latter joins is twice as wide (weighted_swiglu_back of
 *                 core/fusions/fused_bias_swiglu.py under torch.compile, since 2025-04): reads both halves and the
 *                 gradient, 3w·e
 *     padding     products in narrow formats need a multiple of 16 or 32 rows from each expert. Rows received by an
 *                 all-to-all are copied to tensors that have them, and back from these (TE's Fp8Padding; DeepEP's and
 *                 HybridEP's kernels leave room); backward likewise
 *
 * Halves of a gate are parts of rows, and multiplying a bias by a weight broadcasts both. So clamps, the comparisons
 * and choices that undo them (except for (3)), and the products with weights and biases are strided; joins, sums and
 * conversions are not.
 *
 * The bound is given as a host number and made into a GPU number (torch.tensor), for which the host waits until
 * everything before it has ended. Graphs of a whole step run TE's fused operations for the first two
 * (use_transformer_engine_op_fuser of Megatron-Bridge's recipes, since 2026-06). */
#include "pieces.h"

static gboolean has_bound(const LocalSizes *local) {
  return local->method->has_expert_operations && model_activation(local->model) == ACTIVATION_BOUNDED_GELU;
}

static gboolean has_bias(const LocalSizes *local) {
  return local->method->has_expert_operations && local->model->experts.has_biases;
}

void expert_bound_forward(ItemList *list) {
  const LocalSizes *local = list->local;
  const double elements = 2.0 * local->expert_rows * local->expert_width;
  if (!has_bound(local))
    return;
  item_list_strided_operations(list, "bound", 3, 4 * local->element_bytes * elements,
                               2 * local->element_bytes * elements);
  item_list_host_wait(list);
}

void expert_bound_backward(ItemList *list) {
  const LocalSizes *local = list->local;
  const double e = local->element_bytes, elements = (double)local->expert_rows * local->expert_width;
  if (!has_bound(local) || !list->input_gradients)
    return;
  const double one_bound = 3 * e + 2, two_bounds = 4 * e + 3, both = 3, join = 4 * e;
  item_list_strided_operations(list, "bound.backward", 7, elements * (one_bound + two_bounds + both + join),
                               elements * (one_bound + two_bounds));
}

/* Bytes per element of a product with a weight of the choice. */
static double weighted_bytes(const LocalSizes *local) {
  return local->method->dispatches_once ? MAX(4, local->element_bytes) : local->element_bytes;
}

void expert_bias_forward(ItemList *list) {
  const LocalSizes *local = list->local;
  const double e = local->element_bytes, r = weighted_bytes(local);
  const double elements = (double)local->expert_rows * local->model->hidden;
  if (has_bias(local))
    item_list_strided_operations(list, "bias", 2 * (int)local->n_experts + (r > e ? 2 : 1),
                                 elements * (e + 5 * r + (r > e ? r + e : 0)), elements * r);
}

void expert_bias_backward(ItemList *list) {
  const LocalSizes *local = list->local;
  const double e = local->element_bytes, r = weighted_bytes(local);
  const double elements = (double)local->expert_rows * local->model->hidden;
  if (has_bias(local))
    item_list_strided_operations(list, "bias.backward", (r > e ? 5 : 4) * (int)local->n_experts + (r > e ? 2 : 1),
                                 elements * (6 * r + 2 * e + (r > e ? 2 * (r + e) : 0)), elements * 4 * r);
}

void expert_pad(ItemList *list, const char *name) {
  const LocalSizes *local = list->local;
  const FrameworkExpertPadding padding = local->method->time.expert_padding;
  const gboolean arrives_padded = padding != EXPERT_PADDING_ALWAYS && local->method->dispatches_once;
  if (local->casts && padding != EXPERT_PADDING_NONE && !sends_narrow(local) && !arrives_padded)
    item_list_memory(list, name, 2 * local->element_bytes * local->expert_rows * local->model->hidden);
}
