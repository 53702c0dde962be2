/* What the text and the JSON reader of nccl_tests.h share. Private to them. */
#pragma once
#include "nccl_tests.h"

/* A log without tables. */
NcclTestsLog *nccl_tests_new(const char *file);
/* Append an empty table to the log. */
NcclTestsTable *nccl_tests_add_table(NcclTestsLog *log, int line);
/* The operation that "path/all_reduce_perf" measures; INPUT for another program. */
gboolean nccl_tests_op(const NcclTestsLog *log, int line, const char *program, int *op, GError **error);
/* Check a measurement (time and bandwidths in us and GB/s, as written) and append it. */
gboolean nccl_tests_add_point(const NcclTestsLog *log, NcclTestsTable *table, int line, double bytes, double time_us,
                              double algbw_GBps, double busbw_GBps, GError **error);

gboolean nccl_tests_read_text(NcclTestsLog *log, const char *text, GError **error);
gboolean nccl_tests_read_json(NcclTestsLog *log, GError **error);
