/* What `stepsim schedule` is told about a stage: `--times F=1,I=1,W=1`, `--memory F=1,I=0,W=1` and
 * `--memory-cap 8`. */
#pragma once
#include "order_run.h"

typedef struct {
  StageTimes stage;
  gboolean bare; /* numbers without unit: relative times */
} GivenTimes;

/* A bare time unit is this many nanoseconds, so that halves … sixteenths of it are whole: lcm(1 … 16). */
enum { BARE_UNIT_NS = 720720 };

/* NULL: one bare unit each. F, I and W are needed, FB (an overlapped pair) and send may be left out. INPUT naming what
 * was found. */
gboolean parse_times(const char *text, GivenTimes *times, GError **error);
/* F holds what I and W drop: the three must add up. */
gboolean parse_memory(const char *text, HeldShares *held, GError **error);
/* A number above 0; NULL: 0, no limit. */
gboolean parse_memory_cap(const char *text, double *cap, GError **error);
