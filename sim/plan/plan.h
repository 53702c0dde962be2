/* The parallel plan: how one training step is divided over GPUs and time. */
#pragma once
#include "cluster.h"
#include "framework.h"
#include "model.h"
#include "schedules.h"
#include "settings.h"

typedef struct Plan {
  Settings;
  Order *file_order; /* of schedule file:…, once it has been read; owned */
} Plan;

/* A plan beyond these limits is refused at once instead of taking all memory or hours. PASSES: forward passes over
 * all stages (some 600 bytes each, with its backward and sends). LOOKS: visits of a rank while sends are placed,
 * passes of a step × ranks. */
enum { PLAN_MOST_RANKS = 1 << 24, PLAN_MOST_PASSES = 4000000, PLAN_MOST_LOOKS = 500000000 };

Plan *plan_new(void); /* as the rows of plan_fields.h have it by default */
Plan *plan_copy(const Plan *plan);
void plan_free(Plan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Plan, plan_free)

/* Fill what was left open and check the plan against itself, the model and the cluster (NULL for either skips its
 * checks). INPUT for a number that makes no sense by itself (tp 0). IMPOSSIBLE, naming both clashing options and
 * their values: tp·cp·dp·pp ≠ gpus, tp not dividing heads / kv heads / ffn, 2·cp not dividing seq_len, heads that
 * Ulysses cannot divide, recompute modules that the model does not have, experts or ranks not divisible by ep, batch
 * not divisible, more stages than layers, gpus not whole nodes or more than the cluster has, precision the GPU lacks,
 * chunks with a schedule that has none … */
gboolean plan_complete(Plan *plan, const Model *model, const Cluster *cluster, GError **error);
/* Parts of plan_complete(): only what depends on gpus, tp, cp, pp and dp; and only on these, micro-batch,
 * global-batch and seq-len (with the defaults of all other sizes, which cannot fail). */
gboolean plan_complete_ranks(Plan *plan, GError **error);
gboolean plan_complete_batch(Plan *plan, const Model *model, const Cluster *cluster, GError **error);
/* IMPOSSIBLE if the model (may be NULL) has too few layers for the plan's stages. Needs chunks and pipes. */
gboolean plan_check_pipeline(const Plan *plan, const Model *model, GError **error);
/* What is left open about layers with experts as the framework's recipes have it on that machine: expert_dispatch,
 * overlap_experts and cuda_graphs. The plan's ranks and schedule must be known; `model` and `cluster` may be NULL. */
void plan_complete_experts(Plan *plan, const Model *model, const Cluster *cluster);
/* IMPOSSIBLE if the experts of the model (may be NULL) cannot be divided by ep, tp or expert-tp. Needs the ranks and
 * zero_ranks, sequence parallelism and recomputation. */
gboolean plan_check_experts(const Plan *plan, const Model *model, GError **error);

/* Power limit of each GPU of a complete plan, in watts; 0: not stated, or nodes differ. */
double plan_gpu_power_W(const Plan *plan, const Cluster *cluster);
/* Run the plan under `framework`, of the file `name`. The framework's recipe becomes the plan's, except under fp32, and
 * under fp16, whose loss scaling allows 16-bit gradients. To use another recipe, set it afterwards. */
void plan_set_framework(Plan *plan, const char *name, const Framework *framework);
/* What reports call it where that is not the name of its file, torchtitan, megatron-core@0.14, and of which product's
 * release it is (NULL: not known). */
void plan_call_framework(Plan *plan, const char *name, const char *product, const char *release);

/* Another schedule; its name is copied. */
void plan_set_schedule(Plan *plan, const char *name);
/* If no schedule was named, choose interleaved if there are chunks, else 1f1b. */
void plan_default_schedule(Plan *plan);
/* Facts of its schedule, or of the one that would be chosen. */
const ScheduleFacts *plan_schedule(const Plan *plan);

/* How many tp ranks each expert is cut over. */
int plan_expert_tp(const Plan *plan);
/* The modules of a layer that backward recomputes: none except under selective recompute. */
guint plan_recompute_modules(const Plan *plan);
/* The recomputed modules as --recompute-modules takes them, "core_attn+mlp"; "" if there are none or the framework's
 * selective recompute has no modules. Owned by the caller. */
char *plan_recompute_text(const Plan *plan);
/* Whether the complete plan recomputes nothing although it says selective: flash attention keeps no scores, so
 * selective recompute of attention alone drops nothing. */
gboolean plan_recomputes_nothing(const Plan *plan);
/* Settles which layers full recompute makes again. IMPOSSIBLE for a number of layers without it, or none where
 * one is needed; for modules that the model lacks, that contain one another, or that are named without selective
 * recompute. `model` may be NULL. */
gboolean plan_complete_recompute(Plan *plan, const Model *model, GError **error);

/* IMPOSSIBLE for what the model does not have, for what leaves nothing to train, and for what adapters or frozen
 * weights are not modelled with. `model` may be NULL. */
gboolean plan_check_training(const Plan *plan, const Model *model, GError **error);

/* IMPOSSIBLE for offloaded weights without ZeRO-3 or with the optimizer on the GPU, and if the cluster (may be
 * NULL) lacks a fact that is needed: host link, host memory, its bandwidth, NVMe drives. The message names the key
 * to add. */
gboolean plan_check_offload(const Plan *plan, const Cluster *cluster, GError **error);

/* IMPOSSIBLE for data beside offloading, and if the cluster (may be NULL) lacks the storage that is needed. */
gboolean plan_check_data(const Plan *plan, const Cluster *cluster, GError **error);

/* Whether micro-batches may differ: their lengths are drawn, and not all padded alike. */
gboolean plan_has_unequal(const Plan *plan);
/* IMPOSSIBLE for a batching without lengths, and for what unequal micro-batches are not modelled with. */
gboolean plan_check_lengths(const Plan *plan, GError **error);

/* IMPOSSIBLE for compressed gradients beside what they are not defined or modelled with. */
gboolean plan_check_compression(const Plan *plan, GError **error);

/* IMPOSSIBLE for what parameter servers do not go with, and if the cluster (may be NULL) does not state how fast their
 * nodes are. */
gboolean plan_check_servers(const Plan *plan, const Cluster *cluster, GError **error);

/* Steps from one outer step, or that of a fragment, to the next; 1 without islands. */
int plan_outer_period(const Plan *plan);
/* Of these the last ones, in which a sum over islands runs, or behind which it does. */
int plan_outer_window(const Plan *plan);
/* How many steps a run needs in front of its last, so that it shows such a window and a step without it. */
int plan_steps_before_outer(const Plan *plan);
/* IMPOSSIBLE for islands, local steps and outer steps that do not go together, or not with the rest of the plan. */
gboolean plan_check_islands(const Plan *plan, GError **error);

/* dp · cp / islands: ranks that hold the same parameters (before ZeRO) in every step and see different tokens;
 * gradients are summed over them. */
int plan_data_ranks(const Plan *plan);

/* Whether an RMSNorm runs as single operations. */
gboolean plan_has_plain_norm(const Plan *plan);

/* Whether a token is sent once to each rank (over NICs once to each node) that has some of its experts, as in DeepEP,
 * instead of once to each expert. */
gboolean plan_dispatches_once(const Plan *plan);
/* Whether all tokens go to all ranks that share a layer's experts. */
gboolean plan_gathers_tokens(const Plan *plan);

/* Whether a forward and a backward should hide each other's exchanges with experts. */
gboolean plan_overlaps_experts(const Plan *plan);
/* Whether they do where they are paired: that also needs exchanges (ep > 1), outside dualpipe not by all_gather.
 * Forwards and backwards are paired in rounds of the interleaved schedule, and in 1f1b on a single pipeline rank,
 * which then runs a micro-batch's forward before the previous micro-batch's backward. */
gboolean plan_takes_turns(const Plan *plan);

/* Whether ranks keep whole gradients until a stage's last backward even under ZeRO-2 and 3: in a one-directional
 * pipeline, or over several micro-batches without a pipeline (quirks.c). */
gboolean plan_sums_whole(const Plan *plan);
/* Whether the plan is ZeRO-2 or 3 and its ranks do so. */
gboolean plan_reduces_once(const Plan *plan);
/* Its framework overlaps all collectives of dp, whatever the plan asks for. */
gboolean plan_overlaps_shards(const Plan *plan);

/* "tp-cp-ep-dp-pp": each axis once. */
gboolean plan_parse_order(Plan *plan, const char *text, GError **error);
