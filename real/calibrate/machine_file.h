/* What was measured, as files that stepsim takes: <folder>/<name>.yaml describes the cluster, <folder>/gpus/<name>.yaml
 * its processor, <folder>/nccl/<name>.yaml its collective library. */
#pragma once
#include "gpu.h"
#include "host_times.h"
#include "kernel_bench.h"
#include "link_times.h"

typedef struct {
  const char *file;   /* of the cluster; the others follow from it */
  const char *source; /* one line: what measured when and how */
  const DeviceFacts *facts;
  const KernelTime *kernels;
  int n_kernels;
  const LinkTimes *links;
  const HostTimes *host;
  const Gpu *base; /* described peaks, tiles and memory to keep; NULL: everything from what was measured */
  int n_ranks, n_local;
} MachineDescription;

/* Folders are made. INPUT naming the file that could not be written; then none of them was. */
gboolean machine_files_write(const MachineDescription *machine, GError **error);
char *machine_gpu_file(const char *file); /* owned by the caller */
char *machine_library_file(const char *file);
