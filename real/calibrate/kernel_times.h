/* How long each kernel of a real model takes on this machine. The executor runs a few layers, sharded as a plan shards
 * them, through forward, backward and optimizer, and times every item in place. So caches, clocks and neighbouring
 * kernels are those of a training step. All ranks of the world run the same at the same time, as in training. */
#pragma once
#include "executor.h"

typedef struct {
  WorkItem item;           /* only the fields that identify it: a product, attention or memory kernel */
  double median_s, spread; /* (third quartile − first) / median */
  int n;
} KernelTime;

/* One model under one sharding. */
typedef struct {
  const Model *model;
  int tp, cp;
  CpComm cp_comm;
  gint64 micro_batch, seq_len; /* whole sequences */
  gboolean sequence_parallel;
  Precision precision;
  Recipe recipe;
  Attention attention;
} CutCase;

typedef struct KernelTimes KernelTimes;
KernelTimes *kernel_times_new(void);
void kernel_times_free(KernelTimes *times);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(KernelTimes, kernel_times_free)

/* "tinystories-15m fp32, tp 1, cp 2 ring, 1 × 256 tokens, flash". Owned by the caller. */
char *cut_case_text(const CutCase *cut);
/* Runs warm-up steps, then `n_steps` whose times are added. IMPOSSIBLE: this cut of this model cannot run here (too
 * large, heads not divisible, fused attention not by the library that is wanted for it …); earlier times are kept.
 * Attention with a window is not added. `*attention`: what ran fused attention (device.h), owned by the caller; NULL:
 * nothing to report. */
gboolean kernel_times_measure(KernelTimes *times, const CutCase *cut, World *world, const DeviceType *device,
                              int n_steps, char **attention, GError **error);
/* Of the items timed in steps of models by this process: how many the device reached before the host had issued all of
 * them, their time, and how much of it may be launches. */
typedef struct {
  int n, n_late;
  double late_s, launch_s;
} LaunchesInTimes;
const LaunchesInTimes *kernel_times_launches(const KernelTimes *times);
/* Adds one sample; it is negative if two events were closer together than what they add. */
void kernel_times_add(KernelTimes *times, const WorkItem *item, double time_s);
/* `edge_s` is subtracted from every time measured in a step: it is what the events around a kernel add. Kernels whose
 * median is 0 or below `least_s`, the shortest time of a kernel, are left out by the functions below: the events' own
 * error is larger. */
void kernel_times_set_edge(KernelTimes *times, double edge_s, double least_s);
double kernel_times_edge_s(const KernelTimes *times);
/* How many kernels are left out. */
int kernel_times_n_short(KernelTimes *times);

/* Collective. On rank 0 every median becomes the mean of the ranks' medians (all measure the same kernels at the same
 * time); ranks that left the kernel out do not count. */
void kernel_times_share(KernelTimes *times, World *world);
/* All kernels in a fixed order; borrowed. */
const KernelTime *kernel_times_all(KernelTimes *times, int *n);
/* Appends one line per kernel, which kernel_times_read_line() reads back. That returns FALSE for a line that this
 * function would not write, or that no machine could have measured (a time of 0 or hours, no rows, an impossible
 * FLOP/s). */
void kernel_times_write(KernelTimes *times, GString *out);
gboolean kernel_times_read_line(KernelTimes *times, const char *line);
