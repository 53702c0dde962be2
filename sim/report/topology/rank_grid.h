/* The ranks of a plan on a cluster's GPUs: which is which, what groups they form, and which links these use.
 *
 *     dp 2, tp 4, pp 2      node0   p0 d0 t0   p0 d0 t1   p0 d0 t2   p0 d0 t3   p0 d1 t0 …
 *                           node1   p1 d0 t0 …
 *
 * A group's links are those on the routes (route.h) from each member to the next, in the order of ranks and back to the
 * first, as a ring sends; in a pipeline from each stage to the next. A rate is what the slowest of these transfers
 * gets while all groups of a kind send at once and each link is divided evenly. */
#pragma once
#include "layout.h"
#include "picture.h"
#include "plan.h"
#include "route.h"

/* All groups of one kind. */
typedef struct {
  const char *name;  /* "tp", "cp", "ep", "dp", "dp_cp", "dp_shard", "dp_replica", "expert_dp", "pp" */
  const char *moves; /* what its ranks exchange, for people */
  int size, n_groups;
  int *members;    /* [n_groups × size]: ranks, ascending; groups by their first one; owned */
  GArray *links;   /* of int: links of the topology, each once per group; owned */
  int *first_link; /* [n_groups + 1]: group g has links[first_link[g]] to links[first_link[g + 1] − 1]; owned */
  guint *levels;   /* [n_groups]: sets of levels (rank_grid_level_name()); links of unstated bandwidth are left out;
                      owned */
  int n_nodes[2];  /* that a group lies in: fewest and most */
  int slowest;     /* link with the lowest rate; −1: none is stated */
  int n_sharing;   /* transfers on it, in the same direction */
  double rate_Bps; /* INFINITY: not stated */
} RankGroups;

typedef struct RankGrid {
  Topology *topology; /* owned */
  Method *method;     /* owned */
  Layout layout;
  int n_gpus;       /* one more than the last GPU in use */
  int *rank_of_gpu; /* [n_gpus]; −1: none; owned */
  int *ep;          /* [ranks]: place in the group of ep; owned */
  GArray *groups;   /* of RankGroups, only of several ranks; owned */
} RankGrid;

/* On the cluster's first `n_gpus` GPUs, or as many as the plan needs. A cluster of several domains is reduced to what
 * the job uses (cluster_place_job()), unless a rank map says where ranks are; it must outlive the grid. `model` may be
 * NULL. Errors as plan_complete() and topology_new(); IMPOSSIBLE if there is no path between members. */
RankGrid *rank_grid_new(const Model *model, Cluster *cluster, const Plan *plan, gint64 n_gpus, GError **error);
void rank_grid_free(RankGrid *grid);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RankGrid, rank_grid_free)

/* "NVLink", "NIC", "leaf uplink", …; NULL: no more levels. Owned by the caller. */
char *rank_grid_level_name(const Topology *topology, int level);

/* Every rank and every group of up to 64 nodes; of more, a line per block of nodes and a few groups. */
void rank_grid_text(GString *out, const RankGrid *grid);
/* A map of the GPUs, shaded by stage (by the outermost axis, if there is one stage), over a line per kind of groups.
 * With more than 512 GPUs a cell is a node or several. `title` NULL: one of the plan. Owned by the caller; NULL with
 * INPUT. */
Picture *rank_grid_picture(const RankGrid *grid, const char *title, GError **error);
