/* The fields of a plan. In a Plan some may be open: to the framework, the schedule or the other fields. A Method has
 * the same fields with every one settled. */
#pragma once
#include "choices.h"
#include "data_stream.h"
#include "grad_compression.h"
#include "offload.h"
#include "outer_step.h"
#include "precision.h"
#include "quirk_values.h"
#include "recipe.h"
#include "recompute_modules.h"
#include "seq_lengths.h"
#include "servers.h"
#include "training.h"
#include "zero.h"

typedef struct Settings {
  int gpus;            /* 0 until completed */
  int tp, cp, dp, pp;  /* dp 0: derived from the other sizes */
  int islands;         /* groups of dp that sum gradients among themselves alone; 0: 1, or dp where local_steps > 1 */
  int local_steps;     /* of an island until it meets the others */
  OuterStep outer;     /* what islands do then */
  Servers servers;     /* in place of sums over dp; n 0: none */
  int mtp_layers;      /* how many of the model's multi-token-prediction heads are trained */
  int ep;              /* ranks that share out the experts, taken from dp × cp (× tp) */
  int expert_tp;       /* tp of the experts: 1 or tp; 0: tp */
  double expert_load;  /* rows on the fullest ep rank over the mean, 1 to ep; 1: perfectly balanced */
  int expert_dispatch; /* ExpertDispatch; −1: the framework's, or else all-to-all */
  int overlap_experts; /* a forward and a backward take turns at exchanges with experts: 1 or 0; −1: the framework's
                          choice, or else 0; pairs made by the schedule always do */
  int cuda_graphs;     /* CudaGraphs; −1: the framework's on this machine, or else none */
  CpComm cp_comm;
  int chunks;            /* model chunks (virtual stages) per pipeline rank; 0: the schedule's default */
  char *schedule;        /* owned: a schedule's name, auto, file:orders.csv; NULL: 1f1b, interleaved when chunks > 1 */
  char *pipeline_layout; /* owned: layers of each stage (pipeline_layout.h); NULL: auto */
  int group;             /* interleaved: consecutive micro-batches through a chunk; 0: the schedule's choice */
  double memory_cap;     /* auto: most bytes on a GPU besides what is reserved; 0: all the room it has */
  gint64 micro_batch;    /* sequences per micro-batch */
  gint64 global_batch;   /* sequences per step; 0: micro_batch × dp × (4·pp, or 1 without a pipeline) */
  gint64 seq_len;        /* tokens per sequence; 0: the model's max_positions (2048 if unknown), at most 4096 */
  const SeqLengths *seq_lengths; /* of each sequence; NULL: all seq_len */
  Batching batching;
  int zero;       /* 0..3 */
  int zero_ranks; /* ranks that one set of shards spans, cp included; 0: all of dp · cp */
  Recompute recompute;
  int recompute_layers;    /* n of its whole layers; 0: 1 */
  guint recompute_modules; /* set, for selective recompute; 0: core_attn */
  TrainedParts training;
  gboolean sequence_parallel;
  Precision precision;
  Recipe recipe;
  Attention attention;
  int layer_kernels; /* FrameworkKernels of RMSNorm, rotation and gate: one kernel each, or single operations; −1: the
                        framework's, or else fused */
  int norm_kernel;   /* the same of an RMSNorm alone; −1: as layer_kernels */
  int loss;          /* FrameworkLoss; −1: the framework's, or else vocabulary-parallel */
  char *framework;   /* owned; as the user named it; NULL: none */
  const char *framework_file;    /* interned: its file, a name in topologies/frameworks or a path */
  const char *framework_product; /* interned: whose release it is (framework_releases.h); NULL: not known */
  const char *framework_release; /* interned: 0.14; NULL: not known */
  FrameworkMemory memory;        /* what the framework adds to memory; zeroed: nothing */
  FrameworkTime time;            /* how the framework spends time; zeroed: unknown */
  gboolean overlap_grad;         /* gradient collectives overlap with backward */
  int overlap_p2p; /* a rank computes while it sends to the next stage: 1 or 0; −1: the schedule's, or else 0 */
  gboolean overlap_param;      /* parameter gathers overlap with forward (and backward, ZeRO-3) */
  Axis order[N_AXES];          /* rank order, innermost first */
  GArray *rank_map;            /* of int: the GPU of each rank (rank_map.h); owned; NULL: rank r is on GPU r */
  gint64 bucket_parameters;    /* least parameters per gradient bucket; 0: Megatron's max(40e6, 1e6·dp·cp)
                                */
  GradCompression compression; /* of gradients that are summed over dp */
  int prefetch;                /* ZeRO-3: pieces (embedding, a layer, head) gathered ahead of use */
  Offload offload;             /* what is held outside the GPU */
  DataStream data;             /* what readers bring; zeroed: data is always there */
  int grad_norm_barrier;       /* the optimizer waits for the global gradient norm over all ranks: 1 or 0; −1: the
                                  schedule's choice, or else 1 */
  int steps;                   /* consecutive steps; 0: 1, or 3 if pipeline stages do not wait for each other */
  gboolean contention;         /* transfers that share a rank's links slow each other down */
  gboolean fold;               /* one representative per pipeline rank */
  FlopsConvention flops;
  guint64 seed;
  double jitter;      /* standard deviation of compute times, as a share; 0: none */
  GArray *slow_ranks; /* of SlowRank; owned */

  double order_cap; /* (set while auto's order is built) byte limit to build it for; 0: memory_cap */
  int n_pipes;      /* (set by the schedule) 2: two copies of the model run in opposite directions; else 1 */
  /* (computed by plan_complete) */
  gint64 n_micro_batches; /* per pipeline and step = global_batch / (micro_batch · dp) */
} Settings;
