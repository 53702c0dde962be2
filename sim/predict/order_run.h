/* A pipeline order run alone: given stage times, free communication, no optimizer. */
#pragma once
#include "engine.h"
#include "metrics.h"
#include "passes.h"

/* Of one pipeline rank for one micro-batch; a chunk takes its share, rounded to whole nanoseconds. */
typedef struct {
  double f_ns, i_ns, w_ns;
  double send_ns; /* of an activation or a gradient to another rank */
  double pair_ns; /* F and B that run as one (OVERLAP_F_B); 0: F + I + W, nothing is gained */
} StageTimes;

typedef struct {
  StageTimes times;
  int n_steps;            /* chained; ≥ 1 */
  gboolean barrier;       /* no rank begins a step before all have ended the one before */
  const HeldShares *held; /* activations, as Lowering.held; NULL: none */
} OrderSetting;

typedef struct {
  Program *program;
  Timing *timing;
  Trace *trace;
  Metrics *metrics;
} OrderRun;

/* What one of a rank's `n_passes` chunks takes as it is run: whole nanoseconds, and a pair's time filled in. */
StageTimes order_run_pass_times(const StageTimes *times, int n_passes);
/* Whether a run of so many passes stays within seconds and a few GiB. INPUT naming the counts. */
gboolean order_run_check_size(int n_ranks, int n_chunks, gint64 n_micro_batches, int n_steps, GError **error);
OrderRun *order_run_in(const Order *order, const OrderSetting *setting, const char *dump_after, char **dump,
                       GError **error);
/* The same with times and steps alone. IMPOSSIBLE when the order cannot run; `dump_after` and `dump` as lower(). */
OrderRun *order_run_new(const Order *order, const StageTimes *times, int n_steps, const char *dump_after, char **dump,
                        GError **error);
/* auto: the order made for a uniform stage's times, sends and memory, each rank holding at most `cap` (0: no limit; in
 * the unit of setting->held). Shortest stage span, or with a barrier shortest makespan, of one step. The order may have
 * another placement of as many chunks, where a schedule of the table that has it is better; where sends are longer than
 * passes, or pairs gain, the table's are compared as they run. IMPOSSIBLE as auto_order_new(). */
Order *order_run_auto(const Placement *placement, int n_micro_batches, const OrderSetting *setting, double cap,
                      GError **error);
void order_run_free(OrderRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(OrderRun, order_run_free)
/* Bubble on the stage span as a share of the span. */
double order_run_bubble_fraction(const OrderRun *run);
