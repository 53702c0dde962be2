/* Everything that is printed about one step, as plain numbers; text_report.h and json_report.h print it. Simulated
 * and measured steps fill the same struct. Owns nothing. */
#pragma once
#include "interval.h"
#include "link_use.h"
#include "memory_profile.h"
#include "overlap.h"
#include "plan.h"
#include "tier_memory.h"

/* Kernels of one layer's forward and backward on one GPU, without collectives: seconds per micro-batch. */
typedef struct {
  double total_s;            /* 0: not known */
  double products_s;         /* matrix products */
  double products_at_peak_s; /* the same products at the peak of their formats */
  double attention_s;        /* fused attention */
} LayerKernels;

/* Of compressed gradients, per GPU and step: means over pipeline ranks. */
typedef struct {
  double kernels_s;               /* of what makes them smaller and back; 0: they are not compressed */
  double sent_bytes, plain_bytes; /* instead of these */
} CompressionUse;

/* Parameter servers. */
typedef struct {
  int n;
  double bytes, capacity_bytes; /* of one; capacity 0: not stated */
  gboolean fits;
  double network, memory; /* shares of the step in which they are busy */
} ServerReport;

/* Outer steps, or those of fragments: one at the end of every period. */
typedef struct {
  int period;          /* in steps */
  double plain_step_s; /* a step without any; NaN: there is none */
  double outer_s;      /* what it adds to a period of such steps */
  double sent_bytes;   /* by the GPUs of an island for each */
} IslandReport;

/* Sequences of drawn lengths. Of kernels' time alone, forward and backward on all stages: */
typedef struct {
  gint64 n_sequences;         /* of a step; 0: all have --seq-len */
  gint64 tokens;              /* of these, without padding */
  gint64 n_cut;               /* that were longer */
  double padding_share;       /* of the tokens that are computed */
  double slowest_micro_batch; /* over the mean of all ranks of dp; 1: all are alike */
  double slowest_dp_rank;     /* over the mean: the sum of its micro-batches */
} LengthsReport;

typedef struct {
  /* what was run */
  const char *model_name, *cluster_name, *gpu_name;
  const Plan *plan;            /* completed */
  gint64 n_layers;             /* of the model; 0 = not known */
  gint64 n_experts;            /* routed experts of a layer; 0 = none, or not known */
  gint64 n_next_layers;        /* the model's extra heads that predict further tokens; left out */
  gboolean trains_next_layers; /* --mtp-layers can include them */
  gint64 window;               /* tokens that a token attends to in windowed layers; 0: all preceding ones */
  double trained_parameters;   /* of the model, or of adapters beside it; 0: all */
  int domain_gpus;             /* GPUs in one scale-up domain; 0 = not known */
  const char *peak_number;     /* format of peak_flops: "bf16" … */
  double peak_flops;           /* FLOP/s of one GPU */

  /* how fast */
  double step_time_s, tokens_per_s, tokens_per_s_per_gpu;
  Interval interval;     /* of step_time_s; zeroed: it was measured */
  double tflops_per_gpu; /* model FLOPs, 1e12/s */
  double mfu, hfu;       /* shares of peak_flops */
  double gpu_energy_Wh;  /* all GPUs, one step, each at its maximum power; NaN: not known */

  /* where the time went: means over ranks, see metrics.h */
  double breakdown_s[N_BREAKDOWN];
  double bubble_fraction, bubble_overhead;
  LengthsReport lengths;
  double data_s; /* that readers need for a step's data, of the rank that needs most; 0: always there */
  CompressionUse compression;
  IslandReport islands; /* zeroed: none */
  ServerReport servers; /* zeroed: none */
  double uneven_s;      /* part of the mean bubble beyond the bubble of the rank that waits least: stages differ */
  double hidden_s[N_MOVERS], exposed_s[N_MOVERS];
  double traffic_bytes[N_MOVERS]; /* sent by a GPU per step, mean over pipeline ranks; copies count both directions */

  const Cluster *cluster;            /* NULL: link use is not known */
  LinkUse link_use[TIMING_MAX_WAYS]; /* only with a cluster */
  BoundingLink bounding;             /* only with a cluster */

  LayerKernels layer_kernels; /* of a layer with experts if the model has any; zeroed: not known */

  /* memory of the worst rank */
  double peak_bytes;             /* of the model: without reserved_bytes */
  double reserved_bytes;         /* context and libraries */
  double allocator_bytes;        /* the peak as PyTorch's allocator counts what it reserved; 0: not known */
  double device_bytes;           /* and as the driver shows it */
  double capacity_bytes;         /* of the GPU; 0 = not known */
  gboolean fits;                 /* peak + reserved ≤ capacity, and every tier in use fits */
  int worst_rank;                /* the first such rank of the plan, folded or not */
  double memory_bytes[N_MEMORY]; /* at the peak; sums to peak_bytes */
  TierUse tiers[N_TIERS];        /* host memory and drives; zeroed: nothing is offloaded */
  const int *in_flight;          /* [pp] peak micro-batches × chunks held; NULL = not known */

  /* how it was computed */
  int n_measured, n_interpolated, n_modelled; /* matrix products by the source of their time */
  guint64 n_events;
  int n_ranks_simulated;
  double wall_s;
} StepReport;

/* Fill in what comes from a trace, a memory profile, a Program. */
void step_report_set_metrics(StepReport *report, const Metrics *metrics);
void step_report_set_memory(StepReport *report, const MemoryProfile *profile, double reserved_bytes,
                            double capacity_bytes);
/* `workload` is what the program was lowered from; without one there is no traffic. Sums what each op sends with a
 * bandwidth-optimal algorithm: sends in full, collectives by collective_sent_bytes(), including tp collectives
 * inside whole pieces. */
void step_report_set_traffic(StepReport *report, const Program *program, const Workload *workload);

/* Sets islands. */
void step_report_set_islands(StepReport *report, const Metrics *metrics, const Program *program,
                             const Workload *workload);
/* Sets `lengths`; `timing`: with the times of n_ranks ranks of dp that differ. */
void step_report_set_lengths(StepReport *report, const Program *program, const Timing *timing, const Batch *batch,
                             int n_ranks);

/* Sets data_s. */
void step_report_set_data(StepReport *report, const Program *program, const Timing *timing);

/* Sets compression. */
void step_report_set_compression(StepReport *report, const Program *program, const Workload *workload,
                                 const Timing *timing);

/* Sets layer_kernels. `peak_flops`: FLOP/s of one GPU by number format (indexed by Number). */
void step_report_set_kernels(StepReport *report, const Workload *workload, const Timing *timing,
                             const double *peak_flops);

/* Whether the GPUs have room, regardless of other tiers. */
gboolean step_report_fits_gpu(const StepReport *report);

/* "tp 8, pp 4 × 2 chunks, dp 2 · interleaved, 16 micro-batches of 1 × 4096 tokens · …". Owned by the caller. */
char *step_report_plan_line(const Plan *plan);
