/* Runs one rank's list of an expanded, verified Program: issues every op on its stream, in list order, behind exactly
 * the events the Program names, and notes when each was issued, ready and done. Nothing is reordered.
 *
 * To the Program's edges it adds those of memory that is used again (pool.h). */
#pragma once
#include "trace.h"
#include "trainer.h"

typedef struct Executor Executor;

/* Called by the host at a step's end of gradients: after all reductions, before the optimizer, with every stream idle;
 * and once more at the end of the run, with step = n_steps. */
typedef gboolean (*GradientHook)(Trainer *trainer, int step, gpointer data, GError **error);

/* Called after a run for every kernel's item, optimizer steps included, with the time it took on its stream: between
 * the two events around it. */
typedef void (*ItemVisitor)(const WorkItem *item, int step, gint64 time_ns, gpointer data);

typedef struct {
  const Workload *workload; /* plan.steps steps */
  const Program *program;   /* expanded */
  World *world;
  int rank; /* in the layout; the world's, or 0 of a reference run */
  const DeviceType *device;
  const DeviceType *check_device; /* of the one-rank run of check_numerics(); NULL: the same */
  const CommType *comm;
  gint64 capacity_bytes; /* 0: the device's */
  Training training;
  GradientHook hook; /* NULL: none */
  gpointer hook_data;
  void (*progress)(int step, int n_steps, gpointer data); /* NULL: none */
  gpointer progress_data;
  ItemVisitor visit_item; /* NULL: items are not timed apart */
  int visit_from;         /* the first step whose items are */
  gpointer visit_data;
} Execution;

typedef struct {
  gint64 *start_ns, *end_ns, *issue_ns; /* [ops of this rank's list], CLOCK_MONOTONIC of this machine; owned */
  int n_ops;
  double *losses; /* [steps] this rank's share: Σ over its tokens, and its cp ranks', / tokens of the global batch; 0
                    without a head; owned */
  LossScale *scales; /* [steps + 1] of fp16, the same on every rank; NULL: none; owned */
  char *device_name; /* owned */
  double clock_Hz;   /* 0: not known */
  char *attention;   /* what ran the fused one last (device.h); NULL: nothing to tell; owned */
} ExecutionResult;

/* The error names the op where one is at fault. On failure other ranks go on until the caller ends them
 * (world_fail()). */
gboolean execute(const Execution *execution, ExecutionResult *result, GError **error);
void execution_result_clear(ExecutionResult *result);

/* "1RECV_F0 of step 2". Owned by the caller. */
char *op_text(const Program *program, const Op *op);
