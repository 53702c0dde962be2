#include "unknowns.h"

#include "error.h"

static double *rate_of(Cluster *cluster) {
  return &cluster->as_run.rate;
}
static double *memory_rate_of(Cluster *cluster) {
  return &cluster->as_run.memory_rate;
}
static double *scale_up_share_of(Cluster *cluster) {
  return &cluster->scale_up_efficiency;
}
static double *nic_share_of(Cluster *cluster) {
  return &cluster->nic_efficiency;
}
static double *network_falls_of(Cluster *cluster) {
  return &cluster->as_run.network_falls;
}
static double *nic_step_of(Cluster *cluster) {
  return &cluster->nic_step_s;
}
static double *nic_latency_of(Cluster *cluster) {
  return &cluster->nic_latency_s;
}
static double *host_time_of(Cluster *cluster) {
  return &cluster->as_run.host_time;
}
static double *collective_host_of(Cluster *cluster) {
  return &cluster->as_run.collective_host_s;
}
static double *beside_sends_of(Cluster *cluster) {
  return &cluster->as_run.beside_sends_host_s;
}
static double *step_of(Cluster *cluster) {
  return &cluster->as_run.step_s;
}

#define NETWORK TRUE
#define HERE FALSE

/* least_median: where the file says less, or nothing, the prior is about this. `least` and `most`: of the key, as its
 * reader has them. */
static const struct {
  Unknown unknown;
  double *(*of)(Cluster *cluster);
  double least_median, least, most;
  gboolean of_gpu;
} table[] = {
    {{"as_run.rate", "share of the rate of products and attention", -1, 0.1, HERE}, rate_of, 0, 0.05, 2, TRUE},
    {{"as_run.memory_rate", "share of the rate of memory-bound kernels", -1, 0.07, HERE},
     memory_rate_of,
     0,
     0.05,
     2,
     TRUE},
    {{"as_run.host_time", "factor on host times", -1, 0.4, HERE}, host_time_of, 0, 0.05, 20, TRUE},
    {{"as_run.step", "time of every step besides", UNIT_SECONDS, 1.5, HERE}, step_of, 1e-3, 0, 1e4},
    {{"node.scale_up.efficiency", "share of the links inside a node", -1, 0.25, HERE}, scale_up_share_of, 0, 1e-3, 1},
    {{"node.nic.efficiency", "share of the NICs' bandwidth", -1, 0.8, NETWORK}, nic_share_of, 0, 1e-3, 1},
    {{"as_run.network_falls", "how it falls with nodes", -1, 1.5, NETWORK}, network_falls_of, 0.03, 0, 2},
    {{"node.nic.step", "a collective's step to another node", UNIT_SECONDS, 1, NETWORK}, nic_step_of, 20e-6, 0, 1},
    {{"node.nic.latency", "a send to another node", UNIT_SECONDS, 1, NETWORK}, nic_latency_of, 0, 0, 1},
    {{"as_run.collective_host", "host time of a collective over several nodes, per member", UNIT_SECONDS, 1.2, NETWORK},
     collective_host_of,
     2e-6,
     0,
     1},
    {{"as_run.collective_host_beside_sends", "the same besides, in pipelines over several nodes", UNIT_SECONDS, 1.2,
      NETWORK},
     beside_sends_of,
     2e-6,
     0,
     1},
};

int unknowns_count(void) {
  return G_N_ELEMENTS(table);
}

const Unknown *unknown_at(int i) {
  return &table[i].unknown;
}

gboolean unknown_applies(const Cluster *cluster, int i) {
  return !table[i].unknown.of_network || cluster->nics_per_node > 0;
}

double unknown_value(const Cluster *cluster, int i) {
  Cluster copy = *cluster;
  return *table[i].of(&copy);
}

double unknown_median(const Cluster *cluster, int i) {
  return MAX(unknown_value(cluster, i), table[i].least_median);
}

double unknown_within(int i, double value) {
  return CLAMP(value, table[i].least, table[i].most);
}

double unknown_set(Cluster *copy, int i, double value) {
  const AsRun before = copy->as_run;
  const double set = unknown_within(i, value);
  *table[i].of(copy) = set;
  if (table[i].of_gpu)
    as_run_apply(&before, &copy->as_run, &copy->gpu, NULL); /* memory is left alone, so this cannot fail */
  return set;
}

char *unknown_text(int i, double value) {
  return table[i].unknown.unit >= 0 ? units_format(value, (UnitKind)table[i].unknown.unit)
                                    : g_strdup_printf("%.4g", value);
}
