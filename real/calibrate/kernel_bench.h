/* Kernels by themselves, one behind the other on one stream: what models' layers (kernel_times.h) do not show. All
 * ranks of the world measure at once. Devices that fail do so with IMPOSSIBLE. */
#pragma once
#include "kernel_times.h"

typedef struct {
  char *device_name; /* owned */
  double clock_Hz;   /* just after a second of products; 0: not known */
  double memory_bytes;
  double launch_s;         /* host time to issue one kernel */
  double kernel_s;         /* least time of a kernel on the device, among others */
  gboolean is_host_memory; /* the processor is a core of the host */
} DeviceFacts;

/* What an event before and one behind a kernel add to the time between them, and the least time of a kernel among
 * others, s: both 0 where the host computes. `device_name`: what this rank's processor calls itself, owned by the
 * caller; NULL: not wanted. */
gboolean kernel_bench_edge(World *world, const DeviceType *device, char **device_name, double *edge_s, double *least_s,
                           GError **error);
/* Products of a grid of sizes, for shapes no model had: sizes of m, n and k from `least`, each four times the one
 * before, up to `most`, in all layouts. */
/* What tells such a grid from others: "grid bf16, 512 to 8192". Owned by the caller. */
char *kernel_bench_grid_text(Number number, gint64 least, gint64 most);
gboolean kernel_bench_grid(KernelTimes *times, Number number, gint64 least, gint64 most, World *world,
                           const DeviceType *device, GError **error);
/* Launches; adds the curve of a plain pass over memory (item "memory"). `number`: of the products that load the
 * device before its clock is read. */
gboolean kernel_bench_device(KernelTimes *times, Number number, World *world, const DeviceType *device,
                             DeviceFacts *facts, GError **error);
