/* A framework is described by a few sums: what its host spends on a layer, what its libraries reach. Here they are
 * spread over the kernels of the simulation. A layer's host time is split evenly: which kernel waits for the host
 * depends on the order of launches, and hardly on the time of each. */
#include "framework_cost.h"

#include <math.h>

Gpu framework_gpu(const FrameworkTime *framework, const Gpu *gpu) {
  const FrameworkRates *rates = &framework->rates[gpu->architecture];
  Gpu reached = *gpu;
  double products = rates->products > 0 ? rates->products : 1;
  reached.under_load *= products;
  for (int i = 0; i < N_NUMBERS; i++)
    reached.under_load_of[i] *= products;
  reached.weight_gradient_rate = rates->weight_gradients;
  reached.norm_rate = framework->norm_rate;
  reached.strided_rate = framework->strided_rate;
  const double of_generation = gpu->attention_of_generation > 0 ? gpu->attention_of_generation : 1;
  /* The ramps belong to the GPU file's kernels, not to those whose rates the framework states. */
  if (rates->attention_forward > 0) {
    reached.attention_forward = rates->attention_forward * of_generation;
    reached.attention_ramp_forward = 0;
  }
  if (rates->attention_backward > 0) {
    reached.attention_backward = rates->attention_backward * of_generation;
    reached.attention_ramp_backward = 0;
  }
  return reached;
}

/* Φ⁻¹(p) for p in [½, 1) by bisection: 60 halvings of [0, 8] leave less than a double resolves. */
static double normal_quantile(double p) {
  double low = 0, high = 8;
  for (int i = 0; i < 60; i++) {
    double middle = (low + high) / 2;
    if (erfc(-middle / sqrt(2)) / 2 < p)
      low = middle;
    else
      high = middle;
  }
  return (low + high) / 2;
}

static double lateness_s(const FrameworkTime *framework, int n) {
  return n < 2 || framework->arrival_spread_s == 0
             ? 0
             : framework->arrival_spread_s * normal_quantile((n - 0.375) / (n + 0.25));
}

double framework_collective_s(const FrameworkTime *framework, double time_s, int n) {
  const FrameworkTensorParallel *tp = &framework->tensor_parallel;
  const double seen = tp->reduction == TP_FUSED ? 1 - tp->hidden : 1;
  return time_s * seen + lateness_s(framework, n);
}

/* Kernels of a list, recomputed ones or the others. */
static int count_kernels(const WorkList *work, gboolean again) {
  int n = 0;
  for (int i = 0; i < work->n_items; i++)
    n += work->items[i].kind != ITEM_COLLECTIVE && work->items[i].recompute == again;
  return n;
}

/* A head that predicts a further token is a layer and an end. */
static double piece_s(double layer_s, double ends_s, Piece piece, int n_mtp) {
  if (piece_is_layer(piece))
    return layer_s;
  return piece == PIECE_HEAD ? ends_s + n_mtp * (layer_s + ends_s) : ends_s;
}

/* Most of a kernel's host time is its module's: in layers with experts, where an item stands for a launch per expert,
 * those after the first have none of that, and neither have conversions inside the module of a product. */
double framework_launch_s(const LaunchTimes *launches, const WorkItem *item) {
  if (item->kind == ITEM_COLLECTIVE)
    return launches->collective_s + (item->axis == AXIS_TP ? launches->of_tp_s : 0);
  if (item->is_inside && launches->operation_s > 0)
    return MAX(item->n_launches, 1) * launches->operation_s;
  const double first_s = item->recompute ? launches->again_s : launches->kernel_s;
  const double further_s = launches->operation_s > 0 ? launches->operation_s : first_s;
  return first_s + MAX(item->n_launches - 1, 0) * further_s;
}

double framework_expert_collective_s(const FrameworkTime *framework, double each_s) {
  const FrameworkExpertHost *host = &framework->expert_host;
  if (host->collective_s > 0)
    return host->collective_s * each_s / host->launch_s;
  return framework->host.is_stated ? framework->host.collective_s : each_s;
}

/* Layers with experts: host time grows with the number of kernels and with the slowness of the host. */
static LaunchTimes expert_launches(const FrameworkTime *framework, Phase phase, double each_s) {
  const FrameworkExpertHost *host = &framework->expert_host;
  const double slower = each_s / host->launch_s;
  const double forward_s = slower * host->forward_s, backward_s = slower * host->backward_s;
  return (LaunchTimes){.kernel_s = phase == PHASE_F ? forward_s : backward_s,
                       .again_s = forward_s,
                       .collective_s = framework_expert_collective_s(framework, each_s)};
}

static LaunchTimes layer_launches(const Method *method, const WorkList *work, const WorkList *again, Piece piece,
                                  Phase phase, double each_s) {
  const FrameworkHost *host = &method->time.host;
  if (!host->is_stated)
    return (LaunchTimes){each_s, each_s, each_s, each_s};
  const int n_kernels = count_kernels(work, FALSE);
  const int n_again = again != NULL ? count_kernels(again, FALSE) : count_kernels(work, TRUE);
  const int n_mtp = method->mtp_layers;
  const double hooks_s = zero_shards_weights(method->zero) ? host->zero3_s : 0;
  const double backward_s = piece_s(host->layer_backward_s + hooks_s, host->ends_backward_s, piece, n_mtp);
  const double forward_s = piece_s(host->layer_forward_s + hooks_s, host->ends_forward_s, piece, n_mtp);
  /* I and W run apart: as if each were half of B */
  double share = phase == PHASE_I || phase == PHASE_W ? 0.5 : 1;
  return (LaunchTimes){.kernel_s = (phase == PHASE_F ? forward_s : share * backward_s) / MAX(n_kernels, 1),
                       .again_s = (host->layer_again_s + hooks_s) / MAX(n_again, 1),
                       .collective_s = host->collective_s};
}

LaunchTimes framework_launches(const Method *method, const WorkList *work, const WorkList *again, Piece piece,
                               Phase phase, gboolean is_of_experts, double each_s) {
  LaunchTimes launches = is_of_experts && method->time.expert_host.is_stated
                             ? expert_launches(&method->time, phase, each_s)
                             : layer_launches(method, work, again, piece, phase, each_s);
  if (is_of_experts)
    launches.operation_s = each_s;
  launches.of_tp_s = method->time.collective_member_s * method->tp;
  return launches;
}

static gboolean is_router(const WorkItem *item) {
  return g_str_has_prefix(item->name, "router");
}

/* An exchange with experts, or what they compute: on a single rank of ep, and in W, there are no exchanges. */
static gboolean is_routed(const WorkItem *item) {
  return item->kind == ITEM_COLLECTIVE ? item->axis == AXIS_EP : g_str_has_prefix(item->name, "expert_");
}

/* The first and last items of a list that belong to experts; −1: none. */
static void find_routed(const WorkList *work, int *first, int *last) {
  *first = *last = -1;
  for (int i = 0; i < work->n_items; i++)
    if (is_routed(&work->items[i])) {
      *first = *first < 0 ? i : *first;
      *last = i;
    }
}

gboolean framework_replays(CudaGraphs graphs, const WorkList *work, int i) {
  const WorkItem *item = &work->items[i];
  int first, last;
  switch (graphs) {
  case CUDA_GRAPHS_ROUTER:
    return is_router(item);
  case CUDA_GRAPHS_ATTENTION:
    find_routed(work, &first, &last);
    return is_router(item) || (first >= 0 && (i < first || i > last) && item->kind != ITEM_COLLECTIVE);
  case CUDA_GRAPHS_FULL:
    return TRUE;
  case CUDA_GRAPHS_NONE:
  case N_CUDA_GRAPHS:
    break;
  }
  return FALSE;
}
