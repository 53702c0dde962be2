#include "transfer_tax.h"

#include <math.h>

gboolean transfer_tax_is_stated(const Cluster *cluster) {
  gboolean is_stated = cluster->transfer_tax.by_channels;
  for (int link = 0; link < N_LINKS; link++)
    is_stated |= cluster->transfer_tax.of_link[link] > 0;
  return is_stated;
}

static double tax_of_sms(const Cluster *cluster, int n_sms) {
  return MIN((double)n_sms / cluster->gpu.n_sms, 1);
}

double collective_tax(const Cluster *cluster, const CollectiveCost *cost) {
  const TransferTax *tax = &cluster->transfer_tax;
  return tax->by_channels ? tax_of_sms(cluster, cost->sms) : tax->of_link[cost->link];
}

static int send_channels(const Cluster *cluster) {
  const double channel_Bps = cluster->collectives.send_channel_Bps;
  if (channel_Bps <= 0 || cluster->nics_per_node == 0)
    return 0;
  const double n_nics = MAX(1 / cluster->node_egress_gpus, 1);
  return (int)MAX(n_nics, ceil(n_nics * cluster->nic_Bps / channel_Bps));
}

double send_tax(const Cluster *cluster, int from, int to) {
  const TransferTax *tax = &cluster->transfer_tax;
  if (tax->by_channels)
    return tax_of_sms(cluster, send_channels(cluster));
  const gboolean is_inside = from / cluster->domain_gpus == to / cluster->domain_gpus;
  return tax->of_link[is_inside ? scale_up_link(cluster) : LINK_NET];
}
