/* Logs of nccl-tests: the text its programs print, and the JSON they write with -J.
 *
 *     # Collective test starting: all_reduce_perf
 *     #  Rank  0 Group  0 Pid   4711 on      node1 device  0 [0000:07:00] NVIDIA A100-SXM4-80GB
 *     #       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw …
 *     #        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
 *          1048576        262144     float     sum      -1    33.20   31.58   55.27       0    33.15   31.63   55.36 …
 *
 * Columns are found by name, so logs of all versions can be read, including those with per-iteration times or time
 * stamps. Other lines in between (NCCL's own, the launcher's) are skipped. One log may hold the output of several
 * programs. Times are per operation, in microseconds in the file. */
#pragma once
#include <glib.h>

typedef struct {
  double bytes, time_s;
  double algbw_Bps, busbw_Bps; /* as printed: rounded to two digits or fewer */
  int line;                    /* of the file */
} NcclTestsPoint;

/* What one program measured. */
typedef struct {
  int line;            /* where it begins in the file */
  int op;              /* as Collective numbers them (measured_op_names()); −1: not said */
  int n_gpus, n_nodes; /* 0: not said */
  GArray *points;      /* of NcclTestsPoint, in-place and out-of-place, in file order; not empty; owned */
} NcclTestsTable;

typedef struct {
  char *file;        /* owned */
  char *version;     /* of nccl-tests; NULL: not said; owned */
  GPtrArray *tables; /* of NcclTestsTable; not empty; owned */
} NcclTestsLog;

/* NULL with INPUT and file:line for: no table, a truncated row, other units than those above, a time that is not one
 * or contradicts the bandwidth beside it, wrong results, a program that measures no collective. */
NcclTestsLog *nccl_tests_read(const char *file, GError **error);
void nccl_tests_free(NcclTestsLog *log);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(NcclTestsLog, nccl_tests_free)
