/* Writes the measurements as input files for stepsim: <folder>/<name>.yaml describes the cluster,
 * <folder>/gpus/<name>.yaml its processor, <folder>/nccl/<name>.yaml its collective library. */
#pragma once
#include "gpu.h"
#include "host_times.h"
#include "kernel_bench.h"
#include "link_times.h"

typedef struct {
  const char *file;   /* the cluster file; the other names follow from it */
  const char *source; /* one line: what was measured with, when and how */
  const DeviceFacts *facts;
  const KernelTime *kernels;
  int n_kernels;
  const LinkTimes *links;
  const HostTimes *host;
  const Gpu *base; /* keeps all that it says but what is measured here; NULL: everything is derived from measurements */
  int n_ranks, n_local;
} MachineDescription;

/* Whether a GPU file can be written beside `file` that has `base` as its base: INPUT if it would be its own, or one of
 * too long a chain. */
gboolean machine_base_check(const char *file, const Gpu *base, GError **error);
/* Creates the folders. INPUT, naming the file, if one cannot be written; then none is. */
gboolean machine_files_write(const MachineDescription *machine, GError **error);
char *machine_gpu_file(const char *file); /* owned by the caller */
char *machine_library_file(const char *file);
