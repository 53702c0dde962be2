/* Pictures of numbers that many runs gave: data in, picture out, through the scripts of plots/.
 * Errors of all: INPUT as gnuplot_run(). Rows of one series stand together, in the order they are drawn. */
#pragma once
#include "metrics.h"

typedef struct {
  const char *schedule; /* the series */
  int n_micro_batches;
  double simulated, closed_form; /* bubble fraction, idle / step; NAN = unknown */
} BubblePoint;
gboolean plot_bubble(const BubblePoint *points, int n_points, const char *title, const char *file, GError **error);

typedef struct {
  const char *series;
  int n_gpus;
  double mfu; /* share */
} MfuPoint;
gboolean plot_mfu(const MfuPoint *points, int n_points, const char *title, const char *file, GError **error);

typedef struct {
  const char *series;
  double bytes, busbw_Bps;
} BusbwPoint;
/* `limit_Bps`: what a ring could reach, as a line; 0: none. Of several series the first is the choice among the others.
 */
gboolean plot_busbw(const BusbwPoint *points, int n_points, double limit_Bps, const char *title, const char *file,
                    GError **error);

typedef struct {
  const char *label; /* under the bar */
  /* per GPU; reserved: context and libraries */
  double weights_bytes, gradients_bytes, optimizer_bytes, activations_bytes, buffers_bytes, reserved_bytes;
} MemoryBar;
/* `capacity_bytes` 0: no line. */
gboolean plot_memory(const MemoryBar *bars, int n_bars, double capacity_bytes, const char *title, const char *file,
                     GError **error);

/* Where the step's time goes on each pipeline rank: means over the recorded ranks of each, parts that nobody spends
 * time on left out. */
gboolean plot_breakdown(const Trace *trace, const Metrics *metrics, const char *title, const char *file,
                        GError **error);
