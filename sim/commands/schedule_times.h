/* What `stepsim schedule` is told about a stage: `--times F=1,I=1,W=1`, `--memory F=1,I=0,W=1` and
 * `--memory-cap 8`. */
#pragma once
#include "order_run.h"

typedef struct {
  StageTimes stage;
  gboolean bare; /* numbers without a unit: relative times */
} GivenTimes;

/* Nanoseconds in a bare time unit: lcm(1 … 16), so that halves … sixteenths of it are whole. */
enum { BARE_UNIT_NS = 720720 };

/* `text` NULL: one bare unit each. F, I and W are required, FB (an overlapped pair) and send optional. INPUT with
 * what was found. */
gboolean parse_times(const char *text, GivenTimes *times, GError **error);
/* F allocates what I and W free: I + W must equal F. */
gboolean parse_memory(const char *text, HeldShares *held, GError **error);
/* A number above 0; `text` NULL: 0, no limit. */
gboolean parse_memory_cap(const char *text, double *cap, GError **error);
