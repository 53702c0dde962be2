/* Reads what chrome_trace_write() wrote, for simulated and measured training steps alike.
 *
 * Times are exact: the file has microseconds with three decimals, and a double holds those to the nanosecond for 52
 * days. Memory: about 90 bytes per record (one per op and per collective inside an op); the file itself is never
 * held. */
#pragma once
#include "program.h"

/* One op, or a collective inside a whole compute op. */
typedef struct {
  gint64 start_ns, end_ns;
  gint64 pair;  /* equal on a send and its receive and on no other record; −1 unknown */
  gint64 group; /* for a collective: equal on the members that meet; −1: no other member was recorded */
  double bytes; /* moved; 0 for compute */
  double flops; /* 0 for communication */
  gint32 rank;  /* recorded rank */
  GQuark name, category;
  gint32 step, stage, micro_batch; /* stage, micro_batch −1 none */
  guint8 stream, action;
  gboolean is_nested; /* a slice inside the whole op before it, from which it takes step, stage, micro-batch and
                         action */
} ChromeRecord;

typedef struct {
  char *file;
  gboolean is_measured; /* written by stepreal; else simulated */
  gboolean folded;      /* recorded rank r stands for all ranks of pipeline rank r */
  gint32 n_recorded, n_ranks, n_stages, n_micro_batches, n_steps;
  gint32 size[N_AXES];
  gint32 pipeline_stride; /* rank distance between neighbouring pipeline ranks, if not folded */
  GArray *records;        /* of ChromeRecord, in file order: ranks ascending, each in list order; without kernels */
} ChromeTrace;

/* INPUT naming file:line and what was expected: not JSON, not written by stepsim or stepreal, values out of range. */
ChromeTrace *chrome_read(const char *file, GError **error);
void chrome_trace_free(ChromeTrace *trace);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ChromeTrace, chrome_trace_free)

int chrome_trace_pipeline_rank(const ChromeTrace *trace, int rank);
