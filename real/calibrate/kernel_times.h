/* How long each kernel of real models takes here: layers of a model, cut as a plan cuts them, run forward, backward and
 * through the optimizer by the executor itself, every item timed where it stands. So caches, clocks and neighbours are
 * those of a training step. All ranks of the world run the same at once, as they will in training. */
#pragma once
#include "executor.h"

typedef struct {
  WorkItem item;           /* what identifies it: product, attention or memory kernel */
  double median_s, spread; /* (third quartile − first) / median */
  int n;
} KernelTime;

/* One cut of one model. */
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
/* Run `n_steps` after those of warm-up and take in the times. IMPOSSIBLE: this model and cut cannot be run here (too
 * large, heads not divisible …); what was measured before is kept. */
gboolean kernel_times_measure(KernelTimes *times, const CutCase *cut, World *world, const DeviceType *device,
                              int n_steps, GError **error);
/* One sample; below 0 where less lay between two events than they add. */
void kernel_times_add(KernelTimes *times, const WorkItem *item, double time_s);
/* What is taken off the times of kernels in steps, which is what the events around them add; and the least time of a
 * kernel. Kernels whose median is less, or 0, are left out of what follows: the events' own error is larger. */
void kernel_times_set_edge(KernelTimes *times, double edge_s, double least_s);
/* How many are left out. */
int kernel_times_n_short(KernelTimes *times);

/* On rank 0: every median becomes the mean of all ranks', who have measured the same at the same time, but of those
 * that left it out. Collective. */
void kernel_times_share(KernelTimes *times, World *world);
/* In a fixed order; borrowed. */
const KernelTime *kernel_times_all(KernelTimes *times, int *n);
/* Text that kernel_times_read_line() takes back line by line: one per kernel. A line that could not have been written,
 * or that no machine could have measured (a time of 0 or hours, no rows, more FLOPs than any), is refused: FALSE. */
void kernel_times_write(KernelTimes *times, GString *out);
gboolean kernel_times_read_line(KernelTimes *times, const char *line);
