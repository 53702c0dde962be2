#include "compression_cost.h"

#include "kernel_cost.h"
#include "transfer_tax.h"

/* What is being added up. */
typedef struct {
  const Machine *machine;
  gint64 launch_ns; /* of each kernel and collective */
  OpTime time;
  gint64 kernels_ns, calls_ns, latency_ns;
  double taxed_ns;
} Sum;

/* So many equal kernels, with `bytes` and `flops` in all. */
static void add_kernels(Sum *sum, double n, double bytes, double flops) {
  const Gpu *gpu = &sum->machine->gpu;
  if (n == 0)
    return;
  const double peak = gpu->peak_flops[NUMBER_FP32] > 0 ? gpu->peak_flops[NUMBER_FP32] : INFINITY;
  const double each_s = MAX(kernel_cost_memory_s(gpu, bytes / n), flops / n / peak);
  const OpTime all = op_time_repeat(site_launched(each_s, sum->launch_ns), (int)MIN(n, G_MAXINT));
  sum->kernels_ns += all.run_ns;
  sum->time = op_time_join(sum->time, all);
}

static void add_operations(Sum *sum, double n, double bytes) {
  add_kernels(sum, n, bytes, 0);
}

static void add_call(Sum *sum, Costs *costs, const Site *site, const GroupShape *shape, const CompressedCall *call) {
  const CollectiveCost cost = site_collective(costs, site->groups, N_AXES, call->collective, shape, call->bytes);
  const OpTime one = site_launched(cost.time_s, sum->launch_ns);
  sum->calls_ns += one.run_ns;
  sum->latency_ns += site_ns(MIN(cost.latency_s, cost.time_s));
  sum->taxed_ns += (double)one.run_ns * collective_tax(sum->machine->cluster, &cost);
  sum->time = op_time_join(sum->time, one);
}

/* Both orthogonalize `n` matrices of rank r, and multiply matrices of `elements` by them. */
static void add_products(Sum *sum, const Compressed *c, double sides) {
  const LowRank *matrices = &c->sum.low_rank;
  const double g = c->gradient_bytes, r = c->how.rank;
  add_operations(sum, matrices->n * (6 * r - 4), 3 * g * sides * r); /* each column meets half of the others twice */
  add_kernels(sum, matrices->n, g * (matrices->elements + matrices->rows + matrices->columns),
              2 * r * matrices->elements);
}

static void add_before(Sum *sum, const Compressed *c) {
  const double n = c->sum.elements, g = c->gradient_bytes, k = compressed_values(&c->how, n);
  switch ((CompressionKind)c->how.kind) {
  case COMPRESS_FP16:
  case COMPRESS_BF16:
    add_operations(sum, 1, (4 + 2) * n); /* only of gradients in 4 bytes */
    break;
  case COMPRESS_TOPK:
    add_operations(sum, 2, (3 + 2) * g * n);
    add_operations(sum, g + 1, (g + 1) * g * n);
    add_operations(sum, 2, k * (2 * g + 8) + k * g); /* places are int64 before they are sent */
    break;
  case COMPRESS_ONEBIT:
    if (g < 4)
      add_operations(sum, 1, (g + 4) * n);
    add_operations(sum, 16, 102.4 * n);
    break;
  case COMPRESS_POWERSGD:
    add_operations(sum, 2, (3 + 2) * g * n);
    add_operations(sum, 1, 2 * g * (n - c->sum.low_rank.elements));
    add_products(sum, c, c->sum.low_rank.columns);
    break;
  case COMPRESS_NONE:
  case N_COMPRESSIONS:
    g_assert_not_reached();
  }
}

static void add_after(Sum *sum, const Compressed *c, int n_ranks) {
  const double n = c->sum.elements, g = c->gradient_bytes, k = compressed_values(&c->how, n);
  const LowRank *matrices = &c->sum.low_rank;
  switch ((CompressionKind)c->how.kind) {
  case COMPRESS_FP16:
  case COMPRESS_BF16:
    add_operations(sum, 1, (2 + 4) * n);
    break;
  case COMPRESS_TOPK:
    add_operations(sum, 1, g * n);
    add_operations(sum, 1, n_ranks * k * (g + 4 + 2 * g));
    break;
  case COMPRESS_ONEBIT:
    add_operations(sum, 7, 38.4 * n);
    if (g < 4)
      add_operations(sum, 1, (g + 4) * n);
    break;
  case COMPRESS_POWERSGD:
    add_operations(sum, 1, 2 * g * (n - matrices->elements));
    add_kernels(sum, matrices->n, g * (matrices->elements + matrices->rows + matrices->columns),
                2 * c->how.rank * matrices->elements);
    add_operations(sum, 1, 3 * g * n);
    break;
  case COMPRESS_NONE:
  case N_COMPRESSIONS:
    g_assert_not_reached();
  }
}

/* Before a call that needs what the call before it brought. */
static void add_between(Sum *sum, const Compressed *c, int n_ranks, gboolean is_second_part) {
  if (!is_second_part)
    return;
  if (c->how.kind == COMPRESS_ONEBIT) {
    add_operations(sum, 8, (34 + 4.0 / n_ranks) * c->sum.elements);
    add_operations(sum, 15, 102.1 * c->sum.elements / n_ranks);
  } else {
    add_products(sum, c, c->sum.low_rank.rows);
  }
}

/* The third of onebit's calls, the last of powersgd's: topk and halves have nothing between. */
static gboolean begins_second_part(const Compressed *c, int call, int n_calls) {
  return (c->how.kind == COMPRESS_ONEBIT && call == 2) ||
         (c->how.kind == COMPRESS_POWERSGD && c->sum.low_rank.n > 0 && call == n_calls - 1);
}

CompressionCost compression_cost(Costs *costs, const Site *site, const GroupShape *shape,
                                 const Compressed *compressed) {
  Sum sum = {.machine = site->machine, .launch_ns = site->replays_all ? 0 : site->machine->launch_ns};
  CompressedCall calls[MOST_COMPRESSED_CALLS];
  const int n = compressed_calls(&compressed->how, &compressed->sum, compressed->gradient_bytes, shape->n, calls);
  add_before(&sum, compressed);
  for (int i = 0; i < n; i++) {
    add_between(&sum, compressed, shape->n, begins_second_part(compressed, i, n));
    add_call(&sum, costs, site, shape, &calls[i]);
  }
  add_after(&sum, compressed, shape->n);
  return (CompressionCost){.time = sum.time,
                           .kernels_ns = sum.kernels_ns,
                           .latency_ns = sum.latency_ns,
                           .tax = sum.calls_ns > 0 ? sum.taxed_ns / (double)sum.calls_ns : 0};
}
