/* What `stepsim schedule` is told about a stage: `--times F=1,I=1,W=1`, `--memory F=1,I=0,W=1` and
 * `--memory-cap 8`. */
#pragma once
#include "order_run.h"

/* Of one pipeline rank for one micro-batch: in nanoseconds, or in units of their own if they are bare numbers. */
typedef struct {
  double f, i, w;
  double pair; /* of an overlapped F and B; 0: not given */
  double send;
  gboolean bare;
} GivenTimes;

/* Nanoseconds that a bare unit stands for in a trace: lcm(1 … 16), so that halves … sixteenths of it are whole. */
enum { BARE_UNIT_NS = 720720 };

/* `text` NULL: one bare unit each. F, I and W are required, FB (an overlapped pair) and send optional. INPUT with
 * what was found. */
gboolean parse_times(const char *text, GivenTimes *times, GError **error);
/* For a run on a clock that counts `ticks` per nanosecond or bare unit (StageTimes in ticks). */
StageTimes given_times_in(const GivenTimes *times, double ticks);
/* The ticks with which every one of a rank's `n_passes` chunks takes a whole number of them, so that what is printed is
 * as exact as the decimals given; fewer if a run of `n_in_a_row` micro-batches, one after the other, would exceed
 * 2^53. */
double given_times_ticks(const GivenTimes *times, int n_passes, double n_in_a_row);
/* F allocates what I and W free: I + W must equal F. */
gboolean parse_memory(const char *text, HeldShares *held, GError **error);
/* A number above 0; `text` NULL: 0, no limit. */
gboolean parse_memory_cap(const char *text, double *cap, GError **error);
