/* What a Timing is made from, private to the files behind timing_model.h. Each file calls only those above it:
 *
 *     transfer_costs.c   sends and collectives of a program
 *     tp_meetings.c      whether tp's collectives inside compute ops meet other transfers
 *     timing_model.c     works, and the whole Timing */
#pragma once
#include "collective_cost.h"
#include "kernel_cost.h"
#include "timing_model.h"
#include "way_load.h"

#include <math.h>

/* Times are capped at this (292 years / 2^10) so that sums of them stay in 64 bits. */
static const double longest_ns = (double)(G_MAXINT64 >> 10);

/* A distinct matrix product and its time. */
typedef struct {
  WorkItem item;
  double time_s;
  CostSource source;
} Product;

/* A distinct collective of a group of the program, with its collective_cost(). */
typedef struct {
  const GroupShape *shape;
  Axis axis;
  Collective collective;
  double bytes; /* of one call */
  CollectiveCost cost;
} GroupCollective;

/* A distinct collective of an item and its time. */
typedef struct {
  Collective collective;
  AxisSet axes;
  double bytes;
  double time_s, latency_s;
} ItemCollective;

typedef struct {
  const Workload *workload;
  const Cluster *cluster;
  Gpu gpu; /* as the framework reaches it; shares the tables of the cluster's GPU */
  gint64 launch_ns;
  GArray *products;    /* of Product; a few tens: searched linearly */
  GArray *collectives; /* of ItemCollective; a handful, likewise */
  GArray *grouped;     /* of GroupCollective, at most the latest MOST_GROUPED; likewise */
  GArray *ranks;       /* of int: the ranks of pipeline rank 0 that represent all of it */
  GroupShape *shapes;  /* [groups of the program]; owned */
  GroupShape groups[N_ITEM_AXES];
  GroupShape ep_and_tp; /* where items span both; otherwise unset */
  int n_sharing;        /* GPUs of the plan on a node, which share what copies use */
  int block_gpus;       /* a domain, or 1 GPU where a level of the fabric splits domains */
  gboolean tp_meets;    /* transfers of the program use links that tp's collectives use */
} Costing;

/* Rounds up to whole nanoseconds, but ignores the noise of binary sums: 1007 us must not become 1007001 ns. */
static inline gint64 ns_of(double seconds) {
  return (gint64)MIN(ceil(seconds * 1e9 * (1 - 1e-14)), longest_ns);
}

static inline OpTime launched(double run_s, gint64 launch_ns) {
  gint64 run_ns = ns_of(run_s);
  return (OpTime){.run_ns = run_ns, .tail_ns = launch_ns + run_ns, .host_ns = launch_ns};
}

/* The GPUs of a send, for one of the representative ranks. */
typedef struct {
  guint next; /* index into these ranks */
  int from, to;
} SendPlace;

/* The size in GPUs of the largest blocks within which no level of the fabric distinguishes GPUs. */
int costing_block_gpus(const Cluster *cluster);
/* The next place of a send; FALSE after the last. From one block to another a send costs the same between any two
 * GPUs, so of consecutive such places only the first is returned. */
gboolean costing_next_place(const Costing *costing, const Transfer *transfer, SendPlace *place);
/* Seconds of a send; `load` and `tax` are those of the worst-placed one. */
double costing_send_s(const Costing *costing, const Transfer *transfer, WayLoad *load, double *tax);
/* Whether the group is one of tp without pp. */
gboolean costing_is_tp_alone(const Group *group);
/* A collective of a layer, over a group of one axis. */
CollectiveCost costing_collective(const Costing *costing, Axis axis, Collective collective, const GroupShape *group,
                                  double bytes);
/* Seconds of a collective of the program. Collectives of tp alone use links only in expanded programs, and there only
 * if anything else does (tp_meets); elsewhere their time is part of the kernels'. (With collectives of cp, which may
 * cross nodes beside gradients and activations, a run is always expanded.) */
double costing_collective_s(const Costing *costing, const Program *program, const Transfer *transfer, WayLoad *load,
                            double *tax);
/* Times all transfers of the program. */
void costing_time_transfers(const Costing *costing, const Program *program, Timing *timing);
/* Returns `met` as in timing_model_unless_met(); sets tp_meets. */
gboolean *costing_look_at_tp(Costing *costing, const Program *program, const ProgramRepeats *repeats, double n_more);
