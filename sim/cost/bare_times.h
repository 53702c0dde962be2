/* Timings of bare orders, whose works are a phase and a stage: the times are given, not modelled. */
#pragma once
#include "timing.h"

/* [n_stages] nanoseconds each; B = I + W. */
typedef struct {
  const gint64 *f_ns, *i_ns, *w_ns;
  const gint64 *pair_ns; /* of an F and a B that run as one (OVERLAP_F_B); NULL: as long as one after the other. Each
                            gets its share in proportion to F : I + W of its own stage, so that on equal stages the
                            two sum to it exactly */
  gint64 send_ns;        /* of each send; collectives take no time */
} BareTimes;

Timing *timing_of_bare_times(const Program *program, const BareTimes *times);
