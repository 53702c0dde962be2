/* Everything that is printed about one step, as plain numbers: text_report.h and json_report.h write it. Simulated and
 * measured steps fill the same struct. Owns nothing. */
#pragma once
#include "link_timeline.h"
#include "link_use.h"
#include "memory_profile.h"
#include "overlap.h"
#include "tier_memory.h"

/* Kernels of a layer's forward and backward on one GPU, collectives apart: seconds per micro-batch. */
typedef struct {
  double total_s;            /* 0: not known */
  double products_s;         /* matrix products */
  double products_at_peak_s; /* the same at the peak of their formats */
  double attention_s;        /* fused attention */
} LayerKernels;

typedef struct {
  /* what was run */
  const char *model_name, *cluster_name, *gpu_name;
  const Plan *plan;            /* completed */
  gint64 n_layers;             /* of the model; 0 = not known */
  gint64 n_experts;            /* routed ones of a layer; 0 = none, or not known */
  gint64 n_next_layers;        /* heads of the model that predict a token further, which are left out */
  gboolean trains_next_layers; /* --mtp-layers takes them */
  gint64 window;               /* tokens that a token attends to in layers with a window; 0: all that come before it */
  int domain_gpus;             /* GPUs that reach each other over the scale-up links; 0 = not known */
  const char *peak_number;     /* format that peak_flops is stated for: "bf16" … */
  double peak_flops;           /* FLOP/s of one GPU */

  /* how fast */
  double step_time_s, tokens_per_s, tokens_per_s_per_gpu;
  double tflops_per_gpu; /* model FLOPs, 1e12/s */
  double mfu, hfu;       /* shares of peak_flops */
  double gpu_energy_Wh;  /* of all GPUs in a step, at the most that each may draw; NaN: not known */

  /* where the time went: means over ranks, see metrics.h */
  double breakdown_s[N_BREAKDOWN];
  double bubble_fraction, bubble_overhead;
  double uneven_s; /* of the mean bubble, what a rank waits longer than the one that waits least: stages differ */
  double hidden_s[N_MOVERS], exposed_s[N_MOVERS];
  double traffic_bytes[N_MOVERS]; /* sent by a GPU per step, mean over pipeline ranks; copied, both ways */

  const Cluster *cluster;            /* NULL: what its links do is not known */
  LinkUse link_use[TIMING_MAX_WAYS]; /* with a cluster */
  BoundingLink bounding;             /* with a cluster */

  LayerKernels layer_kernels; /* of layers with experts where the model has any; zeroed: not known */

  /* memory of the worst rank */
  double peak_bytes;             /* of the model: without reserved_bytes */
  double reserved_bytes;         /* context and libraries */
  double capacity_bytes;         /* of the GPU; 0 = not known */
  gboolean fits;                 /* peak + reserved ≤ capacity; and every tier that is used */
  int worst_rank;                /* of the plan, the first such, folded or not */
  double memory_bytes[N_MEMORY]; /* at the peak; sums to peak_bytes */
  TierUse tiers[N_TIERS];        /* of host memory and drives; zeroed: nothing is offloaded */
  const int *in_flight;          /* [pp] peak micro-batches × chunks held; NULL = not known */

  /* how it was computed */
  int n_measured, n_interpolated, n_modelled; /* matrix products by where their time came from */
  guint64 n_events;
  int n_ranks_simulated;
  double wall_s;
} StepReport;

/* Fill the parts that follow from a trace, from a memory profile, from a Program. */
void step_report_set_metrics(StepReport *report, const Metrics *metrics);
void step_report_set_memory(StepReport *report, const MemoryProfile *profile, double reserved_bytes,
                            double capacity_bytes);
/* `workload` is what the program was lowered from; without one there is no traffic. Sums what each op sends with a
 * bandwidth-optimal algorithm: sends in full, collectives by collective_sent_bytes(), the tp collectives inside whole
 * pieces included. */
void step_report_set_traffic(StepReport *report, const Program *program, const Workload *workload);

/* Sets layer_kernels. `peak_flops`: FLOP/s of one GPU by number format (indexed by Number). */
void step_report_set_kernels(StepReport *report, const Workload *workload, const Timing *timing,
                             const double *peak_flops);

/* Whether the GPUs hold it, whatever other tiers do. */
gboolean step_report_fits_gpu(const StepReport *report);

/* "tp 8, pp 4 × 2 chunks, dp 2 · interleaved, 16 micro-batches of 1 × 4096 tokens · …". Owned by the caller. */
char *step_report_plan_line(const Plan *plan);
