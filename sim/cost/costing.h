/* What a Timing is made with, which the files of timing_model.h share; not for others. Each calls those before it:
 *
 *     transfer_costs.c   sends and collectives of a program
 *     tp_meetings.c      whether those of tp inside compute ops meet others
 *     timing_model.c     works, and all of it */
#pragma once
#include "collective_cost.h"
#include "kernel_cost.h"
#include "timing_model.h"
#include "way_load.h"

#include <math.h>

/* Times beyond this (292 years / 2^10) are kept finite so that sums of them stay in 64 bits. */
static const double longest_ns = (double)(G_MAXINT64 >> 10);

/* A distinct matrix product and its time. */
typedef struct {
  WorkItem item;
  double time_s;
  CostSource source;
} Product;

/* A distinct collective of a group of the program, as collective_cost() has it. */
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
  Gpu gpu; /* as the framework reaches it; shares the tables of the cluster's */
  gint64 launch_ns;
  GArray *products;    /* of Product; few tens: searched in order */
  GArray *collectives; /* of ItemCollective; a handful, likewise */
  GArray *grouped;     /* of GroupCollective, the latest MOST_GROUPED; likewise */
  GArray *ranks;       /* of int: ranks of pipeline rank 0 that stand for all of it */
  GroupShape *shapes;  /* [groups of the program]; owned */
  GroupShape groups[N_ITEM_AXES];
  GroupShape ep_and_tp; /* where items span both; else unset */
  int n_sharing;        /* GPUs of the plan on a node, which share what copies pass */
  int block_gpus;       /* a domain, or 1 GPU where a level of the fabric cuts domains */
  gboolean tp_meets;    /* transfers of the program use links that collectives of tp do */
} Costing;

/* Up to whole nanoseconds, but not for the noise of sums in binary: 1007 us must not become 1007001 ns. */
static inline gint64 ns_of(double seconds) {
  return (gint64)MIN(ceil(seconds * 1e9 * (1 - 1e-14)), longest_ns);
}

static inline OpTime launched(double run_s, gint64 launch_ns) {
  gint64 run_ns = ns_of(run_s);
  return (OpTime){.run_ns = run_ns, .tail_ns = launch_ns + run_ns, .host_ns = launch_ns};
}

/* GPUs of a send at one of the ranks that stand for all. */
typedef struct {
  guint next; /* of these ranks */
  int from, to;
} SendPlace;

/* GPUs of the largest blocks inside which no level of the fabric tells GPUs apart. */
int costing_block_gpus(const Cluster *cluster);
/* The next place of a send; FALSE behind the last. From one block to another it is the same from any GPU to any: of
 * such that follow each other the first is enough. */
gboolean costing_next_place(const Costing *costing, const Transfer *transfer, SendPlace *place);
/* Seconds of a send; `load` and `tax` are those of the worst-placed. */
double costing_send_s(const Costing *costing, const Transfer *transfer, WayLoad *load, double *tax);
/* Of a group of tp without pp. */
gboolean costing_is_tp_alone(const Group *group);
/* Of an op inside a layer, over a group of one axis. */
CollectiveCost costing_collective(const Costing *costing, Axis axis, Collective collective, const GroupShape *group,
                                  double bytes);
/* Seconds of a collective of the program. Those of tp alone are on links in expanded programs only, and there where
 * anything else is (tp_meets): elsewhere their time is the kernels' business. (With those of cp, which may cross nodes
 * beside gradients and activations, a run is always expanded.) */
double costing_collective_s(const Costing *costing, const Program *program, const Transfer *transfer, WayLoad *load,
                            double *tax);
/* Of all of the program's. */
void costing_time_transfers(const Costing *costing, const Program *program, Timing *timing);
/* `met` as of timing_model_unless_met(); sets tp_meets. */
gboolean *costing_look_at_tp(Costing *costing, const Program *program, const ProgramRepeats *repeats, double n_more);
