/* Ranks and coordinates, process groups and where they lie, layers and stages.
 *
 * A global rank is a mixed-radix number over the plan's order, innermost axis first. With the default order
 * tp-cp-ep-dp-pp:
 *
 *     rank = tp + TP·(cp + CP·(dp + DP·pp))
 *
 * ep has no digit of its own: its groups are made of ranks that hold the same of everything but the experts, neighbours
 * first. With experts cut by tp as all else is they take from cp, then from dp; with whole experts (expert_tp 1) from
 * tp before. What is left of these axes holds copies of the same experts, and shares their ZeRO shards (Megatron-LM's
 * expert data parallelism; DeepSpeed-MoE, arXiv 2201.05596 §5.3):
 *
 *     dp 8, ep 4    rank  0 1 2 3 | 4 5 6 7     ep groups {0 1 2 3} {4 5 6 7}, experts' dp {0 4} {1 5} {2 6} {3 7} */
#pragma once
#include "plan.h"

typedef struct {
  int at[N_AXES];
} Coordinates;

/* A set of axes, as bits 1<<Axis, with data parallelism split into its ZeRO shard group and the replicas of it. */
typedef guint AxisSet;
#define AXIS_BIT(axis) (1u << (axis))
enum {
  AXIS_BIT_DP_SHARD = 1u << N_AXES,
  AXIS_BIT_DP_REPLICA = 1u << (N_AXES + 1),
  AXIS_BIT_EXPERT_SHARD = 1u << (N_AXES + 2) /* ranks that share the ZeRO shards of the same experts */
};
/* AXIS_BIT(AXIS_DP) means both halves of dp, AXIS_BIT(AXIS_EP) the ranks that deal the experts out. */

typedef struct {
  int size[N_AXES];    /* of ep: 1, as it has no digit */
  int stride[N_AXES];  /* rank difference of neighbours along the axis */
  int in_ep[N_AXES];   /* neighbours along the axis that lie in one group of ep; 0 is 1 */
  gboolean takes_tp;   /* ranks of tp hold whole experts, and are among those of ep and of their shards */
  int dp_shard;        /* ranks of dp that share one set of ZeRO shards (innermost part of dp) */
  int n_shards;        /* of such a set: dp_shard · cp, whose ranks hold the same parameters too */
  int n_expert_shards; /* of the experts' parameters */
  int n_ranks;
  const int *gpu_of_rank; /* borrowed from the plan; NULL: rank r is on GPU r */
} Layout;

/* `layout` is good as long as `plan`. */
void layout_init(Layout *layout, const Plan *plan);
/* The GPU of the cluster that a rank is on, counted node by node. */
static inline int layout_gpu(const Layout *layout, int rank) {
  return layout->gpu_of_rank != NULL ? layout->gpu_of_rank[rank] : rank;
}
int layout_rank(const Layout *layout, const Coordinates *at);
Coordinates layout_coordinates(const Layout *layout, int rank);

/* Members of the group over `axes` that contains `rank`. */
int layout_group_size(const Layout *layout, AxisSet axes);
/* A number in [0, n_ranks/size) that is equal exactly for the members of one group. */
int layout_group_index(const Layout *layout, AxisSet axes, int rank);
/* Ranks of the group that contains `rank`, ascending; `members` has room for the group's size. */
void layout_group_members(const Layout *layout, AxisSet axes, int rank, int *members);
/* Which of its group's members a rank is, from 0. */
int layout_group_place(const Layout *layout, AxisSet axes, int rank);
/* From ranks to their GPUs, ascending. */
void layout_gpus_of(const Layout *layout, int *members, int n);

/* How a set of GPUs lies in the spans of a level of the fabric. */
typedef struct {
  int n_spans;   /* that hold any; 0 or 1: nothing leaves them */
  int fewest;    /* members in one of those */
  int with_root; /* members in the root's */
} LevelShape;

/* How a set of GPUs lies on the machine: what a collective's cost depends on. */
typedef struct {
  int n;               /* members */
  int n_domains;       /* scale-up domains they touch */
  int max_per_domain;  /* most members in one domain */
  int min_per_domain;  /* fewest in one of those domains: what leaves it has their links alone */
  int root_per_domain; /* members in the domain of the root, for operations that have one */
  int n_nodes, max_per_node;
  int gap;     /* GPUs from one member of a domain to the next; 0: no domain has two; −1: uneven */
  gint64 span; /* last member − first member + 1 */
  LevelShape levels[CLUSTER_MAX_LEVELS]; /* of all levels of the fabric but the last, out of which nothing leads */
} GroupShape;

/* Shape of an explicit list of GPUs (ascending) on `cluster`; the first is the root. */
GroupShape layout_shape_of(const Cluster *cluster, const int *members, int n);
/* Of the same list: `root`, one of these GPUs, is the root. */
void layout_set_root(GroupShape *shape, const Cluster *cluster, const int *members, int n, int root);
/* Worst shape over all groups of `axes`: in several domains rather than one, then fewest members in a domain, then most
 * domains, most nodes; with, of every level, the fewest members that any of these groups has in a span it leaves. All
 * runs cost this one. */
GroupShape layout_group_shape(const Layout *layout, const Cluster *cluster, AxisSet axes);

/* What a stage of the pipeline holds. */
typedef struct {
  int first_layer, n_layers;
  int n_dense; /* of these, layers without experts in a model that has some */
  gboolean has_embedding, has_head;
} StageLayers;
