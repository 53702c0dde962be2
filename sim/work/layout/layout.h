/* Ranks and coordinates, process groups and where they lie, layers and stages.
 *
 * A global rank is a mixed-radix number over the plan's order, innermost axis first. With the default order
 * tp-cp-ep-dp-pp:
 *
 *     rank = tp + TP·(cp + CP·(dp + DP·pp))
 *
 * ep has no digit of its own: its groups are made of ranks that hold the same parameters except for the experts,
 * neighbours first. If experts are cut by tp like everything else, ep takes ranks from cp, then from dp; if experts
 * are whole (expert_tp 1), from tp first. The remaining ranks of these axes hold copies of the same experts and share
 * their ZeRO shards (Megatron-LM's expert data parallelism; DeepSpeed-MoE, arXiv 2201.05596 §5.3):
 *
 *     dp 8, ep 4    rank  0 1 2 3 | 4 5 6 7     ep groups {0 1 2 3} {4 5 6 7}, experts' dp {0 4} {1 5} {2 6} {3 7}
 *
 * Islands of dp (outer_step.h) are outside everything else, also of pp: each has consecutive ranks. */
#pragma once
#include "cluster.h"
#include "method.h"
#include "piece.h"

typedef struct {
  int at[N_AXES];
} Coordinates;

/* A set of axes, as bits 1<<Axis, with data parallelism split into ZeRO shard groups and their replicas. */
typedef guint AxisSet;
#define AXIS_BIT(axis) (1u << (axis))
enum {
  AXIS_BIT_DP_SHARD = 1u << N_AXES,
  AXIS_BIT_DP_REPLICA = 1u << (N_AXES + 1),
  AXIS_BIT_EXPERT_SHARD = 1u << (N_AXES + 2), /* ranks that share the ZeRO shards of the same experts */
  AXIS_BIT_DP_ISLAND = 1u << (N_AXES + 3)     /* ranks in the same place of every island */
};
/* AXIS_BIT(AXIS_DP) means both halves of dp within an island; AXIS_BIT(AXIS_EP) the ranks that divide the experts among
 * them. */

typedef struct {
  int size[N_AXES];    /* 1 for ep, which has no digit */
  int stride[N_AXES];  /* rank difference of neighbours along the axis; of dp within an island */
  int n_islands;       /* that dp is cut into; 0 means 1 */
  int in_ep[N_AXES];   /* neighbours along the axis within one group of ep; 0 means 1 */
  gboolean takes_tp;   /* ranks of tp hold whole experts, and count among the ranks of ep and of the experts'
                          shards */
  int dp_shard;        /* ranks of dp that share one set of ZeRO shards (innermost part of dp) */
  int n_shards;        /* ranks of such a set: dp_shard · cp, as ranks of cp hold the same parameters too */
  int n_expert_shards; /* the same for the experts' parameters */
  int n_ranks;
  const int *gpu_of_rank; /* borrowed from the method; NULL: rank r is on GPU r */
} Layout;

/* `layout` is valid as long as `method`. */
void layout_init(Layout *layout, const Method *method);
static inline int layout_islands(const Layout *layout) {
  return MAX(layout->n_islands, 1);
}
/* The cluster's GPU that a rank is on, counted node by node. */
static inline int layout_gpu(const Layout *layout, int rank) {
  return layout->gpu_of_rank != NULL ? layout->gpu_of_rank[rank] : rank;
}
int layout_rank(const Layout *layout, const Coordinates *at);
Coordinates layout_coordinates(const Layout *layout, int rank);

/* Number of members of the group over `axes` that contains `rank`. */
int layout_group_size(const Layout *layout, AxisSet axes);
/* A number in [0, n_ranks/size) that is the same for exactly the members of one group. */
int layout_group_index(const Layout *layout, AxisSet axes, int rank);
/* Ranks of the group that contains `rank`, ascending; `members` has room for the group's size. */
void layout_group_members(const Layout *layout, AxisSet axes, int rank, int *members);
/* The index of a rank among its group's members, from 0. */
int layout_group_place(const Layout *layout, AxisSet axes, int rank);
/* Replaces ranks by their GPUs, ascending. */
void layout_gpus_of(const Layout *layout, int *members, int n);

/* How a set of GPUs is spread over the spans of a level of the fabric. */
typedef struct {
  int n_spans;   /* spans that hold any; 0 or 1: nothing leaves them */
  int fewest;    /* members in the span with the fewest */
  int with_root; /* members in the root's span */
} LevelShape;

/* How a set of GPUs is spread over the machine: what a collective's cost depends on. */
typedef struct {
  int n;               /* members */
  int n_domains;       /* scale-up domains that hold any */
  int max_per_domain;  /* most members in one domain */
  int min_per_domain;  /* fewest in one of those domains: they alone carry what leaves it */
  int root_per_domain; /* members in the domain of the root, for operations with a root */
  int n_nodes, max_per_node;
  int gap;     /* GPUs from one member to the next within a domain; 0: no domain has two; −1: uneven */
  gint64 span; /* last member − first member + 1 */
  LevelShape levels[CLUSTER_MAX_LEVELS]; /* all levels of the fabric except the last, which nothing leaves */
} GroupShape;

/* Shape of an explicit list of GPUs (ascending) on `cluster`; the first is the root. */
GroupShape layout_shape_of(const Cluster *cluster, const int *members, int n);
/* Makes `root`, one of the same list of GPUs, the root. */
void layout_set_root(GroupShape *shape, const Cluster *cluster, const int *members, int n, int root);
/* The worst shape over all groups of `axes`: in several domains rather than one, then fewest members in a domain,
 * then most domains, then most nodes. For every level it has the fewest members that any of these groups has in a
 * span it leaves. Every group is charged for this shape. */
GroupShape layout_group_shape(const Layout *layout, const Cluster *cluster, AxisSet axes);

/* What a stage of the pipeline holds. */
typedef struct {
  int first_layer, n_layers;
  int n_dense;        /* part of n_layers: layers without experts in a model that has some */
  OtherLayers others; /* part of n_layers */
  gboolean has_embedding, has_head;
} StageLayers;
/* The piece that a stage's layer is, counted from its first. */
Piece stage_piece(const StageLayers *layers, int layer);
