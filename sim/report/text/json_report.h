/* The JSON objects that scripts read: `--json` of simulate, schedule, memory, collective and compare. Keys are a
 * contract (docs name them); numbers are written so that reading them gives the same double; what is not a finite
 * number is written as null. */
#pragma once
#include "compare.h"
#include "schedule_report.h"
#include "step_report.h"

/* One pretty-printed object and a newline; owned by the caller. */
char *json_report_step(const StepReport *report);

char *json_report_schedule(const ScheduleReport *report);

/* Who holds what on one GPU. */
typedef struct {
  double parameters;          /* of the whole model */
  double state_bytes_per_gpu; /* weights + gradients + optimizer */
  double weights_bytes, gradients_bytes, optimizer_bytes;
  double activations_bytes;
  double buffers_bytes;          /* gathered parameters, copies of gradients … */
  double reserved_bytes;         /* context and libraries */
  double total_bytes;            /* of all that is known */
  gboolean tiers_are_used;       /* the plan offloads: then */
  const char *tiers_per;         /* "gpu" or "node": of which the following are */
  double host_bytes, nvme_bytes; /* of host memory and drives */
  gboolean has_capacity;         /* else nobody knows whether it fits */
  gboolean fits;
  double min_gpus;                     /* fewest GPUs that hold the state; not finite: unknown */
  gint64 max_micro_batch, max_seq_len; /* largest that fit, all else left as it is; 0: none; −1: unknown */
} StateReport;
char *json_report_memory(const StateReport *report);

/* One collective of one size, as nccl-tests prints it. */
typedef struct {
  const char *op, *algorithm, *protocol;
  int n_gpus;
  gint64 bytes;
  double time_s, algbw_Bps, busbw_Bps;
  double sent_bytes; /* by each GPU; the root's, where there is one */
  int n_sms;         /* that it keeps busy; 0: not known (null) */
  int root;          /* its place among the GPUs; −1: it has none */
} CollectiveReport;
/* One object, or an array of them when n > 1. */
char *json_report_collectives(const CollectiveReport *reports, int n);

/* A predicted trace beside a measured one; `row` ≥ 0: phases and ranks of that row alone. */
char *json_report_compare(const Compare *compare, int row);
