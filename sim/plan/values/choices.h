/* Words of plans: their choices, with names. */
#pragma once
#include <glib.h>

/* Axes of parallelism. ZeRO's shard group (`--zero-ranks`) splits AXIS_DP in two: shards inside, replicas outside. */
typedef enum { AXIS_TP, AXIS_CP, AXIS_EP, AXIS_DP, AXIS_PP, N_AXES } Axis;

/* SELECTIVE: named modules of each layer. From FULL on whole layers, by a number n (Settings.recompute_layers).
 * FULL: all, groups of n at once, of which the first one's input is kept (Megatron-LM's --recompute-method uniform).
 * BLOCK: the first n of each stage, each by itself (its block). EVERY: of a stage's layers the n-th, the 2n-th and so
 * on (torchtitan's selective_ac_option). SQRT: FULL with n = √layers of a stage (arXiv 1604.06174 §4). */
typedef enum {
  RECOMPUTE_NONE,
  RECOMPUTE_SELECTIVE,
  RECOMPUTE_FULL,
  RECOMPUTE_BLOCK,
  RECOMPUTE_EVERY,
  RECOMPUTE_SQRT,
  N_RECOMPUTES
} Recompute;
static inline gboolean recompute_is_of_layers(Recompute recompute) {
  return recompute >= RECOMPUTE_FULL;
}
typedef enum { ATTENTION_FLASH, ATTENTION_UNFUSED, N_ATTENTIONS } Attention;
/* How attention reaches the tokens of the other cp ranks (Transformer Engine's p2p, all_gather, a2a). RING: keys and
 * values pass from rank to rank while attention runs on those already received (arXiv 2310.01889). ALL_GATHER: they
 * are gathered first (Llama 3, arXiv 2407.21783 §3.3.2). ULYSSES: heads are exchanged for tokens (DeepSpeed-Ulysses,
 * arXiv 2309.14509). */
typedef enum { CP_RING, CP_ALL_GATHER, CP_ULYSSES, N_CP_COMMS } CpComm;
/* How tokens reach experts on other ranks. ALL_TO_ALL: once for each expert (Megatron-LM's alltoall dispatcher).
 * DEEPEP: by DeepEP's kernels (Megatron-LM's flex dispatcher, which includes HybridEP): over NICs once to each node
 * that has some of a token's experts and from there, at the same time, over the node's links once to each rank that
 * does.
 * ALL_GATHER: all tokens are gathered on all ranks of ep, and of tp if it cuts experts, and the results are summed by
 * a reduce-scatter (Megatron-LM's allgather dispatcher, its default). */
typedef enum { DISPATCH_ALL_TO_ALL, DISPATCH_DEEPEP, DISPATCH_ALL_GATHER, N_EXPERT_DISPATCHES } ExpertDispatch;
/* What the host replays as a graph instead of launching kernel by kernel (Megatron-LM's --cuda-graph-impl and
 * scopes). ROUTER: in layers with experts, the router and its decisions. ATTENTION: attention as well, which leaves
 * out only the experts between their exchanges. FULL: the whole step, of any model. */
typedef enum {
  CUDA_GRAPHS_NONE,
  CUDA_GRAPHS_ROUTER,
  CUDA_GRAPHS_ATTENTION,
  CUDA_GRAPHS_FULL,
  N_CUDA_GRAPHS
} CudaGraphs;
typedef enum { FLOPS_CAUSAL, FLOPS_MEGATRON, FLOPS_6N, N_FLOPS_CONVENTIONS } FlopsConvention;

typedef struct {
  int rank;      /* global rank */
  double factor; /* its compute takes this many times as long */
} SlowRank;

/* Names, NULL-terminated in enum order, and parsers whose errors list them and suggest the nearest. */
const char *axis_name(Axis axis);
const char *const *axis_names(void);
const char *const *recompute_names(void);
const char *const *attention_names(void);
/* Of an RMSNorm, or of all that a layer does between its products: FrameworkKernels. */
const char *const *kernels_names(void);
const char *const *loss_names(void);
const char *const *expert_dispatch_names(void);
const char *const *cuda_graphs_names(void);
const char *const *cp_comm_names(void);
/* The names that Transformer Engine and Megatron-LM use. */
const char *const *cp_comm_engine_names(void);
/* Accepts either name; otherwise like parse_choice(). */
int cp_comm_parse(const char *what, const char *text, GError **error);
const char *const *flops_convention_names(void);
/* Index of `text` in `names`, or -1 with INPUT. `what` is the option's name. */
int parse_choice(const char *what, const char *text, const char *const *names, GError **error);
/* "on" or "off"; NULL leaves *value unchanged. */
gboolean parse_switch(const char *what, const char *text, gboolean *value, GError **error);
/* An expert-parallel group is filled from the innermost axis outwards: tp (unless it cuts experts), cp, then the dp
 * ranks that share ZeRO shards. Returns how many of `size` neighbours along one of these axes are in the group, or 0
 * if neither divides the other. `*left` is the part of ep not yet placed, initially all of it, and is divided by the
 * result. */
int plan_ep_inside(int size, int *left);
