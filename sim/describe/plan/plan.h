/* The parallel plan: how one training step is cut over GPUs and time. */
#pragma once
#include "cluster.h"
#include "framework.h"
#include "model.h"
#include "offload.h"
#include "recipe.h"
#include "recompute_modules.h"

/* Axes of parallelism. AXIS_DP is cut in two by ZeRO's shard group (`--zero-ranks`): shards inside, replicas outside.
 */
typedef enum { AXIS_TP, AXIS_CP, AXIS_EP, AXIS_DP, AXIS_PP, N_AXES } Axis;

typedef enum { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL, N_RECOMPUTES } Recompute;
typedef enum { ATTENTION_FLASH, ATTENTION_UNFUSED, N_ATTENTIONS } Attention;
/* How attention reaches the tokens of the other ranks of cp (Transformer Engine's p2p, all_gather, a2a): keys and
 * values pass from rank to rank beside attention to those that have come (arXiv 2310.01889); are gathered before it
 * (Llama 3, arXiv 2407.21783 §3.3.2); or heads are exchanged for tokens (DeepSpeed-Ulysses, arXiv 2309.14509). */
typedef enum { CP_RING, CP_ALL_GATHER, CP_ULYSSES, N_CP_COMMS } CpComm;
/* How tokens reach experts on other ranks: once for each expert, by an all-to-all (Megatron-LM's alltoall dispatcher);
 * or by DeepEP's kernels (its flex dispatcher, HybridEP among them): once to each node that has some of a token's
 * experts, over NICs, and from there once to each rank that has, over the node's links, at the same time; or all tokens
 * to all ranks of ep, and of tp where it cuts experts, by an all-gather, and what all of these made of them is summed
 * by a reduce-scatter (Megatron-LM's allgather dispatcher, which it has where no other is asked for). */
typedef enum { DISPATCH_ALL_TO_ALL, DISPATCH_DEEPEP, DISPATCH_ALL_GATHER, N_EXPERT_DISPATCHES } ExpertDispatch;
/* What the host replays in one go in place of issuing it kernel by kernel (Megatron-LM's --cuda-graph-impl and scopes):
 * of layers with experts the router and what it decides; attention as well, all but the experts between their
 * exchanges; or the whole step, of any model. */
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

typedef struct {
  int gpus;           /* 0 until completed */
  int tp, cp, dp, pp; /* dp 0: what is left */
  int mtp_layers;     /* of the model's heads that predict a token further, how many are trained */
  int ep;             /* ranks that deal the experts out among them; they are ranks of dp × cp (× tp) */
  int expert_tp;      /* tp of the experts: 1 or tp; 0: tp */
  double expert_load; /* rows that come to the fullest rank of ep over their mean, 1 to ep; 1: tokens go to all alike */
  int expert_dispatch; /* ExpertDispatch; −1: as the framework has it, or else all-to-all */
  int overlap_experts; /* a forward and a backward take turns at their exchanges with experts: 1 or 0; −1: as the
                          framework has it, or else 0; those that a schedule pairs do in any case */
  int cuda_graphs;     /* CudaGraphs; −1: as the framework has it on this machine, or else none */
  CpComm cp_comm;
  int chunks;            /* model chunks (virtual stages) per pipeline rank; 0: the schedule's default */
  char *schedule;        /* owned: a schedule's name, auto, file:orders.csv; NULL: 1f1b, interleaved when chunks > 1 */
  char *pipeline_layout; /* owned: layers of each stage (pipeline_layout.h); NULL: auto */
  int group;             /* interleaved: micro-batches that pass a chunk in a row; 0: as the schedule chooses */
  double memory_cap;     /* auto: bytes a GPU may hold in all; 0: what the GPU has */
  gint64 micro_batch;    /* sequences per micro-batch */
  gint64 global_batch;   /* sequences per step; 0: micro_batch × dp × (4·pp, or 1 without a pipeline) */
  gint64 seq_len;        /* tokens per sequence; 0: the model's max_positions (2048 when unsaid) capped at 4096 */
  int zero;              /* 0..3 */
  int zero_ranks;        /* ranks one set of shards spans, cp among them; 0: all of dp · cp */
  Recompute recompute;
  guint recompute_modules; /* of selective recompute, a set; 0: as the framework has it, or else core_attn */
  gboolean sequence_parallel;
  Precision precision;
  Recipe recipe;
  Attention attention;
  int norm_kernel; /* FrameworkKernels of an RMSNorm: one kernel, or an operation at a time; −1: as the framework has
                      it, or else fused */
  char *framework; /* owned; as it was named; NULL: none */
  FrameworkMemory memory; /* what that framework holds besides; zeroed: nothing */
  FrameworkTime time;     /* how it spends time; zeroed: unknown */
  gboolean overlap_grad;  /* gradient collectives beside backward */
  int overlap_p2p; /* a rank computes on while it sends to the next stage: 1 or 0; −1: as the schedule has it, or else 0
                    */
  gboolean overlap_param;   /* parameter gathers beside forward (and backward, ZeRO-3) */
  Axis order[N_AXES];       /* rank order, innermost first */
  GArray *rank_map;         /* of int: the GPU of each rank (rank_map.h); owned; NULL: rank r is on GPU r */
  gint64 bucket_parameters; /* least parameters per gradient bucket; 0: Megatron's max(40e6, 1e6·dp·cp)
                             */
  int prefetch;             /* ZeRO-3: layers gathered ahead of their use */
  Offload offload;          /* what is held outside the GPU */
  int grad_norm_barrier; /* the optimizer waits for the global gradient norm of all ranks: 1 or 0; −1: as the schedule
                            has it, or else 1 */
  int steps;             /* steps chained; 0: 1, or 3 where stages of a pipeline do not wait for each other */
  gboolean contention;   /* transfers of a rank that share its links slow each other */
  gboolean fold;         /* one representative per pipeline rank */
  FlopsConvention flops;
  guint64 seed;
  double jitter;      /* standard deviation of compute time, as a share; 0 = none */
  GArray *slow_ranks; /* of SlowRank; owned */

  double order_cap; /* (set while auto's order is made) bytes to make it for; 0: memory_cap */
  int n_pipes;      /* (set by the schedule) 2: two copies of the model run against each other; else 1 */
  /* (computed by plan_complete) */
  gint64 n_micro_batches; /* per pipeline and step = global_batch / (micro_batch · dp) */
} Plan;

/* Limits beyond which a plan is refused at once, before it takes all memory or hours: forward passes in all stages
 * (some 600 bytes each, with its backward and its sends), and visits of a rank while sends are placed, which are passes
 * of a step × ranks. */
enum { PLAN_MOST_PASSES = 4000000, PLAN_MOST_LOOKS = 500000000 };

Plan *plan_new(void); /* defaults: one of everything, 1f1b, bf16, bf16+master, flash, overlaps on, seq. par. off */
Plan *plan_copy(const Plan *plan);
void plan_free(Plan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Plan, plan_free)

/* Fill what was left open and check the plan against itself, the model and the cluster (either may be NULL: those
 * checks are left out). INPUT for a number that makes no sense by itself (tp 0). IMPOSSIBLE with both clashing options
 * and their values named: tp·cp·dp·pp ≠ gpus, tp not dividing heads / kv heads / ffn, 2·cp not dividing seq_len,
 * heads that Ulysses cannot deal out, recompute modules that the model does not have, experts or ranks that ep does not
 * divide, batch not divisible, more stages than layers, gpus not whole nodes or beyond the cluster, precision the GPU
 * lacks, chunks with a schedule that has none … */
gboolean plan_complete(Plan *plan, const Model *model, const Cluster *cluster, GError **error);
/* The same, as far as it goes by these alone: gpus, tp, cp, pp and dp; these, micro-batch, global-batch and seq-len
 * (and what never fails: the defaults of all other sizes). */
gboolean plan_complete_ranks(Plan *plan, GError **error);
gboolean plan_complete_batch(Plan *plan, const Model *model, const Cluster *cluster, GError **error);
/* Of a plan whose chunks and pipes are known, IMPOSSIBLE for stages that the model (may be NULL) has no layers for. */
gboolean plan_check_pipeline(const Plan *plan, const Model *model, GError **error);
/* Of a plan whose ranks and zero_ranks are known, IMPOSSIBLE for experts of the model (may be NULL) that ep, tp or
 * expert-tp cannot deal out: it goes by these, the ranks, sequence parallelism and recomputation. */
gboolean plan_check_experts(const Plan *plan, const Model *model, GError **error);

/* The most that each GPU of a complete plan may draw, in watts; 0: not stated, or nodes differ in it. */
double plan_gpu_power_W(const Plan *plan, const Cluster *cluster);
/* Run the plan under `framework`, called `name`. Its recipe becomes the plan's, but not with precision fp32, nor fp16,
 * whose loss scaling lets gradients stay in 16 bits; set another afterwards. */
void plan_set_framework(Plan *plan, const char *name, const Framework *framework);

/* Choose 1f1b, or interleaved when there are chunks, where no schedule was named. */
void plan_default_schedule(Plan *plan);

/* Ranks of tp that each expert is cut by. */
int plan_expert_tp(const Plan *plan);
/* An expert-parallel group is filled from the innermost axis outwards: tp (where experts are not cut by it), cp, then
 * the dp ranks that share ZeRO shards. Of `size` neighbours along one of these axes, how many are in the group; `*left`
 * is the part of ep still to be found (at first all of it) and is divided by the answer. 0: neither divides the other.
 */
int plan_ep_inside(int size, int *left);
/* What of a layer is made again in backward module by module: nothing but under selective recompute. */
guint plan_recompute_modules(const Plan *plan);
/* Attention between its products is run again in backward, selectively: unfused as it keeps no scores, flash where the
 * framework checkpoints it all the same. */
gboolean plan_repeats_attention(const Plan *plan);
/* Selective recompute keeps attention's output and every other product of a layer, in the order in which PyTorch runs
 * them: Q (not K), V, (not attn_out), the gate (not up), mlp_down; without a gate up (not mlp_down). */
gboolean plan_keeps_every_other_product(const Plan *plan);
/* Cut by cp in a ring that gathers the blocks of all ranks at once, as PyTorch's does. */
gboolean plan_rings_blocks(const Plan *plan);
/* The same as --recompute-modules takes it, "core_attn+mlp"; "" where nothing is, and where the framework's selective
 * recompute knows no modules. Owned by the caller. */
char *plan_recompute_text(const Plan *plan);
/* Whether the complete plan recomputes nothing although its option says selective: flash attention keeps no scores, so
 * selective recompute of attention alone drops nothing. */
gboolean plan_recomputes_nothing(const Plan *plan);
/* IMPOSSIBLE for modules that the model does not have, that lie in one another, or that go without selective recompute.
 * Of those that the framework has, the ones that the model does not have are left out. `model` may be NULL. */
gboolean plan_check_recompute(Plan *plan, const Model *model, GError **error);

/* IMPOSSIBLE for weights outside the GPU that are not in ZeRO-3's shards or whose optimizer stays inside, and for what
 * a cluster (may be NULL) says too little of: host link, host memory, its bandwidth, NVMe drives; each with the key to
 * add. */
gboolean plan_check_offload(const Plan *plan, const Cluster *cluster, GError **error);

/* Where the gradients of an offloaded optimizer are when they have left the GPU, under a ZeRO stage. From ZeRO-2 on
 * those of several micro-batches are added up in host memory, whatever tier the rest is in. */
MemoryTier plan_gradient_tier(const Plan *plan, int zero);

/* dp · cp: ranks that hold the same parameters (before ZeRO) and see other tokens; gradients are summed over them. */
int plan_data_ranks(const Plan *plan);

/* Whether an RMSNorm is an operation at a time. */
gboolean plan_has_plain_norm(const Plan *plan);

/* A token is sent once to each rank (over NICs once to each node) that holds some of its experts, as DeepEP does, not
 * once to each expert. */
gboolean plan_dispatches_once(const Plan *plan);
/* All tokens go to all ranks that share the experts of a layer. */
gboolean plan_gathers_tokens(const Plan *plan);

/* Whether a forward and a backward are to hide each other's exchanges with experts. */
gboolean plan_overlaps_experts(const Plan *plan);
/* Whether there are such exchanges as well (ep > 1). A forward and a backward are paired in rounds of the interleaved
 * schedule, and in 1f1b on a single pipeline rank, which then runs a micro-batch's forward before the backward of the
 * micro-batch before it. */
gboolean plan_takes_turns(const Plan *plan);

/* Whether the host waits for the choice of experts before tokens are sent to them, or picked of all (tp alone may
 * gather them). */
gboolean plan_counts_on_host(const Plan *plan);
/* What is about experts besides their products runs in single operations of the framework. */
gboolean plan_has_expert_operations(const Plan *plan);

/* Each rank of tp sends its part of an activation to the next stage, and gathers the parts it receives
 * (framework_time.h). */
gboolean plan_splits_stage_tensors(const Plan *plan);

/* Whether ranks would keep whole gradients until a stage's last backward under ZeRO-2 and 3 too, in a pipeline of one
 * direction or with several micro-batches on one stage (framework_time.h). */
gboolean plan_sums_whole(const Plan *plan);
/* ZeRO-2 and 3 whose ranks do. */
gboolean plan_reduces_once(const Plan *plan);

/* Times that a step reads or writes the gradients of all of a rank's parameters, before they are summed over dp,
 * where the GPU updates (framework_time.h). */
double plan_buffer_passes(const Plan *plan);

/* Bytes per parameter that a sum of gradients over dp moves as its operand. */
double plan_gradient_sum_bytes(const Plan *plan);
/* Per parameter, what a kernel reads and writes that adds a micro-batch's gradient to the sum of earlier ones; 0: of
 * the formats that gradients are made and held in (framework_time.h, gradient_add_bytes). */
double plan_gradient_add_bytes(const Plan *plan);
/* Per parameter, as a rank that reduces once holds the sum of a stage's. */
double plan_whole_gradient_bytes(const Plan *plan);
/* Whether the optimizer divides gradients by the loss scale in fp32 (framework_time.h, fp16_gradients: copied). */
gboolean plan_unscales_gradients(const Plan *plan);
/* Per parameter that a rank updates on its GPU, of the fp32 copies of gradients that this takes, from when they are
 * made to the optimizer's end; 0: it makes none. */
double plan_copied_gradient_bytes(const Plan *plan);

/* Names, NULL-terminated in enum order, and parsers whose errors list them with the nearest. */
const char *axis_name(Axis axis);
const char *const *recompute_names(void);
const char *const *attention_names(void);
const char *const *norm_kernel_names(void);
const char *const *expert_dispatch_names(void);
const char *const *cuda_graphs_names(void);
const char *const *cp_comm_names(void);
/* As Transformer Engine and Megatron-LM call them. */
const char *const *cp_comm_engine_names(void);
/* By either name, as parse_choice(). */
int cp_comm_parse(const char *what, const char *text, GError **error);
const char *const *flops_convention_names(void);
/* Index of `text` in `names`, or -1 with INPUT set: `what` names the option. */
int parse_choice(const char *what, const char *text, const char *const *names, GError **error);
/* "tp-cp-ep-dp-pp": each axis once. */
gboolean plan_parse_order(Plan *plan, const char *text, GError **error);
