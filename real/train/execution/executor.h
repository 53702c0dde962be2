/* Runs one rank's op list of an expanded, verified Program: issues every op on its stream, in list order, after
 * exactly the events the Program names, and records when each op was issued, started and ended. Nothing is reordered.
 *
 * In addition to the Program's edges, ops wait for memory that is reused (pool.h). */
#pragma once
#include "trace.h"
#include "trainer.h"

typedef struct Executor Executor;

/* Called by the host in each step once gradients are complete: after all reductions, before the optimizer, with every
 * stream idle; and once more at the end of the run, with step = n_steps. */
typedef gboolean (*GradientHook)(Trainer *trainer, int step, gpointer data, GError **error);

/* Called after a run for every kernel item, optimizer steps included, with its time on the stream: between the two
 * events around it. `launch_ns`: how much of it may be launches, because the device reached the item so long before
 * the host had issued all of it. */
typedef void (*ItemVisitor)(const WorkItem *item, int step, gint64 time_ns, gint64 launch_ns, gpointer data);

typedef struct {
  const Workload *workload; /* plan.steps steps */
  const Program *program;   /* expanded */
  World *world;
  int rank; /* in the layout; the world's rank, or 0 in a reference run */
  const DeviceType *device;
  const DeviceType *check_device; /* for the one-rank run of check_numerics(); NULL: the same */
  const CommType *comm;
  gint64 capacity_bytes; /* 0: the device's memory size */
  Training training;
  GradientHook hook; /* NULL: none */
  gpointer hook_data;
  void (*progress)(int step, int n_steps, gpointer data); /* NULL: none */
  gpointer progress_data;
  ItemVisitor visit_item; /* NULL: items are not timed individually */
  int visit_from;         /* first step whose items are timed */
  gpointer visit_data;
} Execution;

typedef struct {
  gint64 *start_ns, *end_ns, *issue_ns; /* [ops of this rank's list], CLOCK_MONOTONIC of this machine; owned */
  gint64 *issued_ns;                    /* likewise: when the host had issued all of it; 0 for the host's own ops */
  int n_ops;
  double *losses;    /* [steps] this rank's share: Σ over its tokens, including those of its cp ranks, / tokens of the
                        global batch; 0 without a head; owned */
  LossScale *scales; /* [steps + 1] in fp16, the same on every rank; NULL: none; owned */
  char *device_name; /* owned */
  double clock_Hz;   /* 0: unknown */
  char *attention;   /* backend of fused attention (device.h); NULL: nothing to report; owned */
  gboolean attention_fell_back; /* some of it was not by the library that is wanted for it */
} ExecutionResult;

/* The error names the failing op, if there is one. On failure other ranks continue until the caller ends them
 * (world_fail()). */
gboolean execute(const Execution *execution, ExecutionResult *result, GError **error);
void execution_result_clear(ExecutionResult *result);

/* "1RECV_F0 of step 2". Owned by the caller. */
char *op_text(const Program *program, const Op *op);
