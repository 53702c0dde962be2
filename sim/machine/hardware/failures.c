#include "failures.h"

static const YamlField fields[] = {
    {"source", FIELD_TEXT, TRUE, offsetof(Failures, source)},
    {"gpu_mtbf", FIELD_QUANTITY, FALSE, offsetof(Failures, gpu_mtbf_s), 1, 1e12, UNIT_SECONDS},
    {"node_mtbf", FIELD_QUANTITY, FALSE, offsetof(Failures, node_mtbf_s), 1, 1e12, UNIT_SECONDS},
    {"restart", FIELD_QUANTITY, TRUE, offsetof(Failures, restart_s), 0, 1e7, UNIT_SECONDS},
    {"checkpoint_bandwidth", FIELD_QUANTITY, TRUE, offsetof(Failures, checkpoint_Bps), 1e6, 1e16,
     UNIT_BYTES_PER_SECOND},
};

Failures *failures_read(YamlNode node, GError **error) {
  g_autoptr(Failures) failures = g_new0(Failures, 1);
  if (!yaml_map_read(node, fields, G_N_ELEMENTS(fields), failures, error))
    return NULL;
  if (failures->gpu_mtbf_s == 0 && failures->node_mtbf_s == 0) {
    yaml_fail(node, error, "expected \"gpu_mtbf\" or \"node_mtbf\": the mean time between interruptions");
    return NULL;
  }
  return g_steal_pointer(&failures);
}

void failures_free(Failures *failures) {
  if (failures == NULL)
    return;
  g_free(failures->source);
  g_free(failures);
}

double failures_job_mtbf_s(const Failures *failures, int n_gpus, int n_nodes) {
  const double of_gpus = failures->gpu_mtbf_s > 0 ? n_gpus / failures->gpu_mtbf_s : 0;
  const double of_nodes = failures->node_mtbf_s > 0 ? n_nodes / failures->node_mtbf_s : 0;
  return 1 / (of_gpus + of_nodes);
}
