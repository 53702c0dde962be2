/* Time of collectives and sends on a cluster: α–β per algorithm and protocol on the links a group spans (formulas in
 * collective_algorithms.h), for the one that the library's tuner would choose, or would with slower links if that takes
 * less.
 *
 * That is the model. Where available, times come instead from the measured curves in the cluster's file
 * (measured_links_cost.h), or else from latencies and bandwidths fitted on the machine (fitted_cost.h). */
#pragma once
#include "collective_algorithms.h"
#include "measured_cost.h"
#include "work_item.h"

typedef struct {
  Algorithm algorithm;
  Protocol protocol;
  double time_s;
} CollectiveWay;

typedef struct {
  CollectiveWay estimated; /* what the library's tuner would choose; time_s is not its estimate, but the model's */
  CollectiveWay fastest;   /* of what it chooses from */
} CollectiveChoice;

typedef struct {
  double time_s;
  double latency_s;            /* the part of time_s before bytes move; from the model, also where time_s is measured
                                  or fitted */
  double algbw_Bps, busbw_Bps; /* 0 bytes: 0 */
  Algorithm algorithm;
  Protocol protocol;
  int sms;                 /* SMs that its channels keep busy meanwhile; 0: not known */
  double bus_Bps;          /* bus bandwidth before protocol */
  LinkKind link;           /* slowest link class */
  CostSource source;       /* of time_s; fits count as interpolated */
  CollectiveChoice choice; /* only where time_s is modelled */
} CollectiveCost;

/* `algorithm` −1: the fastest, by measured times where there are any (algorithm and protocol are then those that
 * would be chosen without them). Otherwise that algorithm, by its fits or the model, always with the fastest
 * protocol. n = 1: zero time. Never fails: an algorithm that does not exist for the operation, machine or group
 * counts as −1. */
CollectiveCost collective_cost(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                               int algorithm);

/* Seconds of one send from GPU `from` to GPU `to`, by placement: over scale-up links inside a domain, otherwise over
 * one NIC share and the tiers above. */
double send_cost_s(const Cluster *cluster, int from, int to, double bytes);
