/* Logs of nccl-tests: the text that its programs print, and the JSON that they write with -J.
 *
 *     # Collective test starting: all_reduce_perf
 *     #  Rank  0 Group  0 Pid   4711 on      node1 device  0 [0000:07:00] NVIDIA A100-SXM4-80GB
 *     #       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw …
 *     #        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
 *          1048576        262144     float     sum      -1    33.20   31.58   55.27       0    33.15   31.63   55.36 …
 *
 * Columns are found by their names, so that logs of all versions serve, also those with per-iteration times or time
 * stamps. Other lines between (NCCL's own, the launcher's) are passed over. One log may hold the output of several
 * programs. Times are of one operation, microseconds in the file. */
#pragma once
#include <glib.h>

typedef struct {
  double bytes, time_s;
  double algbw_Bps, busbw_Bps; /* as printed: rounded to the second digit or fewer */
  int line;                    /* of the file */
} NcclTestsPoint;

/* What one program measured. */
typedef struct {
  int line;            /* where it begins in the file */
  int op;              /* as Collective numbers them (measured_op_names()); −1: not said */
  int n_gpus, n_nodes; /* 0: not said */
  GArray *points;      /* of NcclTestsPoint, in-place and out-of-place alike, as they come; not empty; owned */
} NcclTestsTable;

typedef struct {
  char *file;        /* owned */
  char *version;     /* of nccl-tests; NULL: not said; owned */
  GPtrArray *tables; /* of NcclTestsTable; not empty; owned */
} NcclTestsLog;

/* NULL with INPUT and file:line: no table, a row that is cut off, other units than those above, a time that is none or
 * does not agree with the bandwidth beside it, wrong results, a program that measures no collective. */
NcclTestsLog *nccl_tests_read(const char *file, GError **error);
void nccl_tests_free(NcclTestsLog *log);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(NcclTestsLog, nccl_tests_free)
