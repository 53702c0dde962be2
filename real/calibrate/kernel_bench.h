/* Kernels by themselves, back to back on one stream: what running a model's layers (kernel_times.h) does not show. All
 * ranks of the world measure at the same time. A device failure is IMPOSSIBLE. */
#pragma once
#include "kernel_times.h"

typedef struct {
  char *device_name; /* owned */
  double clock_Hz;   /* read after one second of matrix products; 0: unknown */
  double memory_bytes;
  double launch_s;         /* host time to issue one kernel */
  double kernel_s;         /* shortest time of a kernel on the device, in a row of kernels */
  double edge_s;           /* as below, after everything else */
  gboolean is_host_memory; /* the processor is a core of the host */
} DeviceFacts;

/* `edge_s`: what the two events around a kernel add to the time between them, s. `least_s`: shortest time of a kernel
 * in a row of kernels, s. Both are 0 if the host computes, and measured after a second of products of `number`
 * otherwise. `device_name`: this rank's processor, by its own name, owned by the caller; NULL: not wanted. */
gboolean kernel_bench_edge(World *world, const DeviceType *device, Number number, char **device_name, double *edge_s,
                           double *least_s, GError **error);
/* IMPOSSIBLE if edges measured before and after kernels were timed are further apart than a kernel's time may be
 * wrong. */
gboolean kernel_bench_edges_agree(double least_s, double most_s, GError **error);
/* Identifies a grid of kernel_bench_grid(): "grid bf16, 512 to 8192". Owned by the caller. */
char *kernel_bench_grid_text(Number number, gint64 least, gint64 most);
/* Matrix products over a grid of sizes, for shapes that no model has: m, n and k each run from `least` up to `most` in
 * factors of 4, in all layouts. The edge of `times` is subtracted. */
gboolean kernel_bench_grid(KernelTimes *times, Number number, gint64 least, gint64 most, World *world,
                           const DeviceType *device, GError **error);
/* Measures launches, memory and clock, and at last the edge again; adds the times of a plain pass over memory, by size,
 * to `times`: item "memory", on a GPU with operands that are not in its cache; there also "memory.cached", always over
 * the same ones. `number`: format of the products that load the device. */
gboolean kernel_bench_device(KernelTimes *times, Number number, World *world, const DeviceType *device,
                             DeviceFacts *facts, GError **error);
