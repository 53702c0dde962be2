/* FLOPs the model itself asks for, whatever the plan does: the products of one forward pass, times three for backward.
 * Per token of a sequence of s tokens:
 *
 *     linears     2·(h·(q + 2·kv) + q·h + h·f·(2, gated 3))      each layer
 *     attention   4·q·s in full;  4·q·(s + 1)/2 causal           each layer
 *     logits      2·h·V                                          once, V not padded
 *
 * For GPT (f = 4h, q = kv = h) with attention in full three passes make Megatron's
 * 72·B·s·l·h²·(1 + s/(6h) + V/(12·l·h)), and its 96·…(1 + s/(6h) + V/(16·l·h)) is that plus the layers' forward again.
 * By `6n` every parameter costs 2 FLOPs a token and a pass, and attention nothing. */
#include "pieces.h"

static const double passes = 3; /* forward, input gradient, weight gradient */

static double tokens_per_step(const Workload *workload) {
  return (double)workload->plan->global_batch * workload->plan->seq_len;
}

static double layer_linear_flops(const Workload *workload) {
  const Model *model = workload->model;
  if (workload->plan->flops == FLOPS_6N)
    return 2.0 * model_layer_parameters(model);
  const double h = model->hidden, q = model->n_heads * model->head_dim, kv = model->n_kv_heads * model->head_dim;
  return 2 * (h * (q + 2 * kv) + q * h + h * model->ffn_hidden * (model->gated ? 3 : 2));
}

static double layer_attention_flops(const Workload *workload) {
  const Model *model = workload->model;
  const double s = workload->plan->seq_len, q = model->n_heads * model->head_dim;
  switch (workload->plan->flops) {
  case FLOPS_6N:
    return 0;
  case FLOPS_MEGATRON:
    return 4 * q * s;
  default:
    return 4 * q * attention_pairs(workload->plan->seq_len) / s;
  }
}

/* Everything outside the layers. */
static double ends_flops(const Workload *workload) {
  const Model *model = workload->model;
  if (workload->plan->flops == FLOPS_6N)
    return 2.0 * (model_parameters(model) - model->n_layers * model_layer_parameters(model));
  return 2.0 * model->hidden * model->vocab;
}

double workload_model_flops(const Workload *workload) {
  const double layer = layer_linear_flops(workload) + layer_attention_flops(workload);
  return passes * tokens_per_step(workload) * (workload->model->n_layers * layer + ends_flops(workload));
}

/* Of the products made again where every other one is kept: K's, attn_out, up; without a gate mlp_down. */
static double other_products_flops(const Model *model) {
  const double h = model->hidden, q = model->n_heads * model->head_dim, kv = model->n_kv_heads * model->head_dim;
  return 2 * (h * kv + q * h + h * model->ffn_hidden);
}

/* One more forward of what is recomputed. Flash attention's own recomputation in backward is not counted: it is part of
 * the kernel and has no forward kernel of its own. */
static double recompute_flops(const Workload *workload) {
  const double attention = layer_attention_flops(workload);
  double layer = 0;
  if (workload->plan->recompute == RECOMPUTE_FULL)
    layer = layer_linear_flops(workload) + attention;
  else if (workload->plan->recompute == RECOMPUTE_SELECTIVE && workload->plan->attention == ATTENTION_UNFUSED)
    layer = attention;
  if (keeps_every_other_product(workload->plan))
    layer += other_products_flops(workload->model);
  return tokens_per_step(workload) * workload->model->n_layers * layer;
}

double workload_hardware_flops(const Workload *workload) {
  return workload_model_flops(workload) + recompute_flops(workload);
}
