/* What the costs of a plan are computed from, apart from its sizes: the cluster as its framework uses it, and where its
 * ranks are. Equal ones are one object while costs are kept (costs.h), so that keys hold a pointer to it. What computes
 * a cost gets these, and no Workload, lest it read what its key lacks. */
#pragma once
#include "collective_cost.h"
#include "costs.h"
#include "server_cost.h"
#include "timing.h"

/* The cluster as a framework uses it. */
typedef struct {
  const Cluster *cluster; /* borrowed from the latest Timing, like the next; of equal ones */
  const FrameworkTime *time;
  Gpu gpu; /* as the framework reaches it; shares the tables of the cluster's GPU */
  gint64 launch_ns;
} Machine;

/* The groups over which collectives inside pieces run. */
typedef struct {
  const Machine *machine;
  GroupShape of_axis[N_ITEM_AXES];
  GroupShape ep_and_tp; /* where items span both; otherwise unset */
  ModelExperts experts;
  gsize dispatches_once; /* as in Method */
} ItemGroups;

typedef struct {
  const Machine *machine;
  const ItemGroups *groups;
  const Layout *layout; /* borrowed from the latest Timing; of equal ones */
  const int *ranks;     /* [n_ranks] of pipeline rank 0, which represent all of it */
  int n_ranks;
  double data_Bps;                   /* that readers bring each rank that needs data; 0: always there */
  ServerSite servers;                /* zeroed: none */
  gboolean are_apart;                /* what ranks push and pull is timed for each alone: they share servers as flows */
  int n_sharing;                     /* GPUs of the plan on a node, which share what copies use */
  gboolean has_experts, replays_all; /* the model; CUDA graphs replay the whole step */
  WayLoad tp;                        /* ways that collectives of tp use */
} Site;

const Site *site_of(Costs *costs, const Workload *workload, const Cluster *cluster);

/* A collective of a layer, over a group of one axis; N_AXES: of several, or not of a layer. */
CollectiveCost site_collective(Costs *costs, const ItemGroups *groups, Axis axis, Collective collective,
                               const GroupShape *shape, double bytes);

/* Rounds up to whole nanoseconds, but ignores the noise of binary sums: 1007 us must not become 1007001 ns. Times are
 * capped at 292 years / 2^10, so that sums of them stay in 64 bits. */
static inline gint64 site_ns(double seconds) {
  const double ns = MIN(seconds * 1e9 * (1 - 1e-14), (double)(G_MAXINT64 >> 10));
  return (gint64)ns + (ns > (double)(gint64)ns); /* ceil(), which is a call */
}
/* Of an op that is one launch and one duration. */
OpTime site_launched(double run_s, gint64 launch_ns);
