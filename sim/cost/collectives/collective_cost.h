/* Time of collectives and sends on a cluster: α–β per algorithm and protocol on the links a group spans
 * (collective_algorithms.h has the formulas), the fastest of them as the library's tuner would choose.
 *
 * That is the model. Times come first from the curves of measured times in the cluster's file, where they reach
 * (measured_links_cost.h), then from latencies and bandwidths fitted on the machine (fitted_cost.h). */
#pragma once
#include "collective_algorithms.h"
#include "measured_cost.h"
#include "work_item.h"

typedef struct {
  double time_s;
  double latency_s;            /* of time_s: before bytes move; by the model, where time_s is measured or fitted */
  double algbw_Bps, busbw_Bps; /* 0 bytes: 0 */
  Algorithm algorithm;
  Protocol protocol;
  int sms;           /* that its channels keep busy meanwhile; 0: not known */
  double bus_Bps;    /* bus bandwidth before protocol */
  LinkKind link;     /* slowest link class */
  CostSource source; /* of time_s; fits count as interpolated */
} CollectiveCost;

/* `algorithm` −1: the fastest, by measured times where there are any (then algorithm and protocol are those that would
 * be taken without them); else that algorithm, by fits of it or the model; protocols: always the fastest. n = 1: zero
 * time. IMPOSSIBLE-free: an algorithm that does not exist for the operation, machine or group counts as −1. */
CollectiveCost collective_cost(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                               int algorithm);

/* One send from rank a to rank b, by placement: scale-up links inside a domain, else one NIC share, tiers included. */
double send_cost_s(const Cluster *cluster, int from, int to, double bytes);
