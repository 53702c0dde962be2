/* Runs a pipeline order alone: given stage times, free communication, no optimizer. */
#pragma once
#include "engine.h"
#include "metrics.h"
#include "passes.h"
#include "schedules.h"

/* The times of one pipeline rank for one micro-batch. A chunk takes its share, rounded to whole nanoseconds. Only their
 * ratios matter: a caller may let the clock count anything else. */
typedef struct {
  double f_ns, i_ns, w_ns;
  double send_ns; /* of an activation or gradient to another rank */
  double pair_ns; /* an F and a B that run as one (OVERLAP_F_B); 0: F + I + W, no gain */
} StageTimes;

typedef struct {
  StageTimes times;
  int n_steps;            /* in a row; ≥ 1 */
  gboolean barrier;       /* no rank begins a step before all ranks have ended the previous one */
  const HeldShares *held; /* activations, as in Lowering.held; NULL: none */
} OrderSetting;

typedef struct {
  Program *program;
  Timing *timing;
  Trace *trace;
  Metrics *metrics;
} OrderRun;

/* The times of one of a rank's `n_passes` chunks as it is run: in whole nanoseconds, with pair_ns filled in. */
StageTimes order_run_pass_times(const StageTimes *times, int n_passes);
/* Whether a run of this size stays within seconds and a few GiB. INPUT, naming the counts, if not. */
gboolean order_run_check_size(int n_ranks, int n_chunks, gint64 n_micro_batches, int n_steps, GError **error);
OrderRun *order_run_in(const Order *order, const OrderSetting *setting, const char *dump_after, char **dump,
                       GError **error);
/* order_run_in() with only times and steps set. IMPOSSIBLE when the order cannot run; `dump_after` and `dump` as in
 * lower(). */
OrderRun *order_run_new(const Order *order, const StageTimes *times, int n_steps, const char *dump_after, char **dump,
                        GError **error);
/* auto: the order made for a uniform stage's times, sends and memory, with each rank holding at most `cap` (in the
 * unit of setting->held; 0: no limit). It minimises the stage span of one step, or with a barrier its makespan. Without
 * chunks (0) it is the best on one and on AUTO_CHUNKS. It may use another placement of as many chunks if a
 * built-in schedule with that placement is better. If sends are longer than passes, or pairs gain time, built-in
 * schedules are compared by running them. IMPOSSIBLE as auto_order_new(). */
Order *order_run_auto(OrderShape shape, const OrderSetting *setting, double cap, GError **error);
void order_run_free(OrderRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(OrderRun, order_run_free)
/* The bubble as a share of the stage span. */
double order_run_bubble_fraction(const OrderRun *run);
