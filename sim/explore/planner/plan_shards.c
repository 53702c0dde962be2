#include "plan_shards.h"

#include "warnings.h"

enum { WIDER = 2 };

/* Whole nodes of a domain that divide the job, at least one node's GPUs; all of the job where none do. */
static gint64 near_gpus(const Cluster *cluster, gint64 gpus) {
  const gint64 node = cluster->gpus_per_node;
  for (gint64 n = MAX(cluster->domain_gpus, node) / node * node; n > 0; n -= node)
    if (gpus % n == 0)
      return n;
  return gpus;
}

/* These, halved while that goes: an odd number, or two. */
static gint64 least_gpus(const Cluster *cluster, gint64 gpus) {
  gint64 least = near_gpus(cluster, gpus);
  while (least % WIDER == 0 && least > WIDER)
    least /= WIDER;
  return least;
}

/* Ranks of a set of shards over so many GPUs; 0: none are. */
static gint64 ranks_over(const Plan *plan, gint64 gpus) {
  const gint64 span = far_gathers_span(plan, plan->cp), ranks = gpus / span * plan->cp;
  return gpus % span == 0 && ranks > 1 && plan_data_ranks(plan) % ranks == 0 ? ranks : 0;
}

GArray *plan_shards_narrower(const Plan *plan, const Cluster *cluster) {
  GArray *narrower = g_array_new(FALSE, FALSE, sizeof(int));
  for (gint64 gpus = least_gpus(cluster, plan->gpus); gpus < plan->gpus; gpus *= WIDER) {
    const int ranks = (int)ranks_over(plan, gpus);
    if (ranks > 0 && ranks < plan_data_ranks(plan))
      g_array_append_val(narrower, ranks);
  }
  return narrower;
}
