/* Nsight Systems' export to SQLite (nsys export --type sqlite): CUPTI's tables of kernels, copies and calls, NVTX's of
 * ranges. Each GPU of a process is a rank. Ranges named "step 7", "iteration 7", "ProfilerStep#7" or the like mark
 * steps. Source: docs.nvidia.com/nsight-systems, "SQLite Schema Reference". */
#pragma once
#include "profile.h"

/* Adds the file's ranks. INPUT naming the file. */
gboolean nsight_read(Profile *profile, const char *file, GError **error);
