#include "bare_times.h"

#include <math.h>

static gint64 whole_ns(const BareTimes *times, int stage) {
  return times->f_ns[stage] + times->i_ns[stage] + times->w_ns[stage];
}

static gint64 pair_ns(const BareTimes *times, int stage) {
  return times->pair_ns != NULL ? times->pair_ns[stage] : whole_ns(times, stage);
}

/* F's part of a pair. */
static gint64 share_of_f(const BareTimes *times, int stage) {
  const gint64 alone_ns = whole_ns(times, stage), both_ns = pair_ns(times, stage);
  return alone_ns > 0 ? llround((double)both_ns * times->f_ns[stage] / alone_ns) : both_ns;
}

/* A bare order's work has a phase and a stage and no host time. */
static OpTime time_bare(const Program *program, const Work *work, const BareTimes *times) {
  int stage = work->stage;
  g_assert(stage >= 0 && stage < program->n_stages);
  gint64 f_ns = times->f_ns[stage], b_ns = times->i_ns[stage] + times->w_ns[stage];
  if (work->overlapped) {
    f_ns = share_of_f(times, stage);
    b_ns = pair_ns(times, stage) - f_ns;
  }
  const gint64 of_phase[N_PHASES] = {
      [PHASE_F] = f_ns, [PHASE_I] = times->i_ns[stage], [PHASE_W] = times->w_ns[stage], [PHASE_B] = b_ns};
  return (OpTime){.run_ns = of_phase[work->phase], .tail_ns = of_phase[work->phase]};
}

Timing *timing_of_bare_times(const Program *program, const BareTimes *times) {
  Timing *timing = g_new0(Timing, 1);
  timing->n_works = (int)program->works->len;
  timing->works = g_new0(OpTime, timing->n_works);
  for (int i = 0; i < timing->n_works; i++)
    timing->works[i] = time_bare(program, &g_array_index(program->works, Work, i), times);
  timing->n_transfers = (int)program->transfers->len;
  timing->transfers = g_new0(OpTime, timing->n_transfers);
  for (int i = 0; i < timing->n_transfers; i++)
    if (g_array_index(program->transfers, Transfer, i).group < 0)
      timing->transfers[i] = (OpTime){.run_ns = times->send_ns, .tail_ns = times->send_ns};
  return timing;
}
