/* The JSON objects that scripts read: `--json` of simulate, schedule, memory, collective and compare. Keys are a
 * contract (documented in docs/). Numbers read back as the same double; non-finite numbers are written as null. */
#pragma once
#include "compare.h"
#include "json_values.h"
#include "schedule_report.h"
#include "step_report.h"

/* One pretty-printed object and a newline; owned by the caller. */
char *json_report_step(const StepReport *report);
/* The same members in an object that is open, and stays so. */
void json_report_step_into(JsonBuilder *builder, const StepReport *report);

char *json_report_schedule(const ScheduleReport *report);

/* What one GPU holds under one ZeRO stage. */
typedef struct {
  const char *impossible; /* why the plan is under this stage; NULL: it is not, and the other fields are set */
  double weights_bytes, gradients_bytes, optimizer_bytes;
  double activations_bytes;
  double buffers_bytes;          /* gathered parameters, copies of gradients … */
  double total_bytes;            /* of everything known */
  double host_bytes, nvme_bytes; /* of host memory and drives, if the plan offloads */
  double sent_bytes;             /* over dp × cp in a step; non-finite: not known */
  gboolean fits;
} StateRow;

enum { N_ZERO_STAGES = 4 };

typedef struct {
  double parameters; /* of the whole model */
  StateRow stages[N_ZERO_STAGES];
  int zero;                            /* the plan's stage, which must be possible */
  double reserved_bytes;               /* context and libraries */
  gboolean tiers_are_used;             /* the plan offloads */
  const char *tiers_per;               /* "gpu" or "node": what host_bytes and nvme_bytes refer to */
  gboolean has_capacity;               /* otherwise whether it fits is not known */
  double min_gpus;                     /* fewest GPUs that hold the state; non-finite: unknown */
  double bubble_overhead;              /* of the pipeline's equal stages; non-finite: not known */
  gint64 max_micro_batch, max_seq_len; /* largest that fit, everything else unchanged; 0: none; −1: unknown */
} StateReport;
char *json_report_memory(const StateReport *report);

/* One collective of one size, as nccl-tests prints it. */
typedef struct {
  const char *op, *algorithm, *protocol;
  int n_gpus;
  gint64 bytes;
  double time_s, algbw_Bps, busbw_Bps;
  double sent_bytes; /* per GPU; for a rooted operation, of the root */
  int n_sms;         /* that it occupies; 0: not known (null) */
  int root;          /* its place among the GPUs; −1: none */
  char *note;        /* on what the library's tuner chooses; NULL: nothing to say; owned by who fills it in */
} CollectiveReport;
/* One object, or an array of them when n > 1. */
char *json_report_collectives(const CollectiveReport *reports, int n);

/* A predicted trace beside a measured one; `row` ≥ 0: phases and ranks of that row only. */
char *json_report_compare(const Compare *compare, int row);
