#include "host.h"

gboolean host_read(Host *host, YamlNode keys, YamlNode nvme, GError **error) {
  static const YamlField host_fields[] = {
      {"link", FIELD_QUANTITY, FALSE, offsetof(Host, link_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
      {"links_together", FIELD_QUANTITY, FALSE, offsetof(Host, links_together_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
      {"link_efficiency", FIELD_NUMBER, TRUE, offsetof(Host, link_efficiency), 1e-3, 1},
      {"memory_bandwidth", FIELD_QUANTITY, TRUE, offsetof(Host, memory_Bps), 1e6, 1e16, UNIT_BYTES_PER_SECOND},
      {"update_efficiency", FIELD_NUMBER, TRUE, offsetof(Host, update_efficiency), 1e-3, 1},
  };
  static const YamlField nvme_fields[] = {
      {"capacity", FIELD_QUANTITY, TRUE, offsetof(Host, nvme_bytes), 1e6, 1e18, UNIT_BYTES},
      {"read", FIELD_QUANTITY, TRUE, offsetof(Host, nvme_read_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
      {"write", FIELD_QUANTITY, TRUE, offsetof(Host, nvme_write_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
  };
  if (yaml_is_present(keys) && !yaml_map_read(keys, host_fields, G_N_ELEMENTS(host_fields), host, error))
    return FALSE;
  return !yaml_is_present(nvme) || yaml_map_read(nvme, nvme_fields, G_N_ELEMENTS(nvme_fields), host, error);
}

/* Whether `below` is the switch `above` or is somewhere under it. */
static gboolean is_under(const NodeTopology *node, int below, int above) {
  while (below >= 0 && below != above)
    below = node->switches[below].parent;
  return below == above;
}

static int gpus_under(const NodeTopology *node, int pcie_switch, int n_gpus) {
  int n = 0;
  for (int gpu = 0; gpu < n_gpus; gpu++)
    n += is_under(node, node->gpu_ports[gpu].pcie_switch, pcie_switch);
  return n;
}

static double tree_Bps(const NodeTopology *node, int gpu, int n_gpus) {
  double least_Bps = node->gpu_ports[gpu].Bps;
  for (int at = node->gpu_ports[gpu].pcie_switch; at >= 0; at = node->switches[at].parent)
    least_Bps = MIN(least_Bps, node->switches[at].uplink_Bps / gpus_under(node, at, n_gpus));
  return least_Bps;
}

double host_link_Bps(const Host *host, const NodeTopology *node, int n_gpus) {
  double least_Bps = host->link_Bps;
  const int n = MIN(n_gpus, node->n_gpus);
  for (int gpu = 0; gpu < n && node->n_sockets > 0 && host->link_Bps == 0; gpu++) {
    const double Bps = tree_Bps(node, gpu, n);
    least_Bps = least_Bps > 0 ? MIN(least_Bps, Bps) : Bps;
  }
  if (host->links_together_Bps > 0)
    least_Bps = MIN(least_Bps, host->links_together_Bps / n_gpus);
  return least_Bps * host->link_efficiency;
}
