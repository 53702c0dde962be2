/* How a step is carried out: the fields of a plan with none left open, and what they, the framework and the schedule
 * come to. What is below sees neither Plan nor Framework: one who asks whether tokens are gathered reads a field here.
 *
 *     plan, framework → plan_complete() → Plan → Method → workload, Program, cost */
#pragma once
#include "cluster.h"
#include "model.h"
#include "schedules.h"
#include "settings.h"

typedef struct Plan Plan;

typedef struct {
  Settings;
  Plan *plan; /* completed; owned, as are the texts and lists of the fields above */

  AsRun as_run;           /* of the cluster; it is in `time` already */
  gboolean spans_domains; /* its GPUs are in several scale-up domains */
  Recompute recomputes;   /* as the plan has it; `recompute` is FULL for any that is of whole layers */
  int data_ranks; /* dp · cp of an island: ranks that hold the same parameters (before ZeRO) and see different tokens;
                     gradients are summed over them in every step */
  int outer_period;         /* steps from one outer step, or that of a fragment, to the next; 1 without islands */
  int outer_window;         /* of these the last ones, in which a sum over islands runs, or behind which it does */
  gboolean plain_norm;      /* an RMSNorm runs as single operations */
  gboolean dispatches_once; /* a token is sent once to each rank (over NICs once to each node) that has some of its
                               experts, as in DeepEP, instead of once to each expert */
  gboolean gathers_tokens;  /* all tokens go to all ranks that share a layer's experts */
  gboolean takes_turns;     /* where a forward and a backward are paired they hide each other's exchanges with experts:
                               in rounds of the interleaved schedule, and in 1f1b on a single pipeline rank, which then
                               runs a micro-batch's forward before the previous micro-batch's backward */
  gboolean counts_on_host;  /* the host waits for the routing result before tokens are sent to experts, or selected
                               from all gathered ones (with tp alone tokens may be gathered) */
  gboolean has_expert_operations; /* what surrounds the experts' products runs as single operations */
  gboolean launches_each_expert;  /* products and conversions of each expert are launched by themselves */
  gboolean rings_blocks;          /* cp is a ring that gathers the blocks of all ranks at once, as PyTorch's does */
  gboolean splits_stage_tensors;  /* each tp rank sends its part of an activation to the next stage, which gathers the
                                     parts */
  gboolean repeats_attention;     /* selective recompute reruns attention between its products: unfused attention, which
                                     keeps no scores, and flash attention if the framework checkpoints it anyway */
  gboolean keeps_every_other_product; /* selective recompute keeps attention's output and every other product of a
                                         layer, in PyTorch's order of execution: Q (not K), V, (not attn_out), the gate
                                         (not up), mlp_down; without a gate up (not mlp_down) */
  gboolean sums_whole;   /* ranks keep whole gradients until a stage's last backward even under ZeRO-2 and 3: in a
                            one-directional pipeline, or over several micro-batches without a pipeline */
  gboolean reduces_once; /* the same, and the step is one of ZeRO-2 or 3 */
  double buffer_passes;  /* times that a step reads or writes all of a rank's gradients before they are summed over dp,
                            if the GPU runs the optimizer */
  double gradient_sum_bytes; /* per parameter, of the operand of a gradient sum over dp */
  double gradient_add_bytes; /* per parameter: what adding a micro-batch's gradient to the running sum reads and writes;
                                0: follows from the formats of gradient and sum */
  double whole_gradient_bytes;  /* per parameter, of the gradient sum held by a rank that reduces once per stage */
  gboolean unscales_gradients;  /* the optimizer unscales gradients in fp32 (fp16_gradients: copied) */
  double copied_gradient_bytes; /* of fp32 gradient copies this needs, per parameter that a rank updates on its GPU,
                                   from the copy to the end of the optimizer; 0: no copies */
  double update_bytes; /* of these copies and of what else the optimizer makes while it runs, per such parameter */
} Method;

/* The plan is copied and completed: INPUT or IMPOSSIBLE as plan_complete() (NULL for model or cluster skips its
 * checks). */
Method *method_complete(const Model *model, const Cluster *cluster, const Plan *plan, GError **error);
/* Of a completed plan, which is copied. expert_tp, recompute_modules and _layers become what
 * open ones stand for. */
Method *method_new(const Plan *plan);
void method_free(Method *method);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Method, method_free)
/* The same again, after its plan has changed. */
void method_settle(Method *method);
/* The same step with another number of micro-batches. */
void method_set_micro_batches(Method *method, gint64 n_micro_batches);
/* Calls the schedule what auto came to ("auto: zb-v"), unless that is an order made for it. */
void method_set_found(Method *method);
/* The layers of each stage, as pipeline_layout_text() has them; takes over `layout`. */
void method_set_layout(Method *method, char *layout);
/* How many of a period's steps one of a run stands for: each of the window for itself, the one before it for all
 * others. */
static inline gint64 method_step_stands_for(const Method *method, int step) {
  const int before = method->steps - method->outer_window - step;
  return before <= 0 ? 1 : before == 1 ? method->outer_period - method->outer_window : 0;
}
/* Where an offloaded optimizer's gradients are once they have left the GPU, under a ZeRO stage. From ZeRO-2 on,
 * gradients of several micro-batches are summed in host memory, whichever tier holds the rest. */
MemoryTier method_gradient_tier(const Method *method, int zero);

/* Where stages lie; an order to be made for auto has them there too. Owned by the caller. */
Placement *method_placement(const Method *method);
/* Whether the order is one to be made (auto_plan.c). */
gboolean method_is_auto(const Method *method);
/* The order, if it is not. Owned by the caller. IMPOSSIBLE as order_new(), or if a file's counts differ from these. */
Order *method_order(const Method *method, GError **error);
/* Its schedule of the table; NULL: an order to be made, or one from a file. */
const ScheduleFacts *method_schedule(const Method *method);
/* What its order is made for, with so many micro-batches. */
OrderShape method_shape(const Method *method, gint64 n_micro_batches);
/* Micro-batches per group that the order's lists repeat (schedule_repeats()); 0: no repeats. */
gint64 method_group(const Method *method);
