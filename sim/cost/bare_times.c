/* Timings of bare orders, whose work is a phase and a stage: given, not worked out. */
#include "timing_model.h"

#include <math.h>

/* Nanoseconds by stage. */
typedef struct {
  const gint64 *f, *i, *w, *pair;
} BareTimes;

/* What F takes of a pair. */
static gint64 share_of_f(const BareTimes *times, int stage) {
  gint64 whole_ns = times->f[stage] + times->i[stage] + times->w[stage];
  return whole_ns > 0 ? llround((double)times->pair[stage] * times->f[stage] / whole_ns) : times->pair[stage];
}

/* A bare order's work has a phase and a stage and no host. */
static OpTime time_bare(const Program *program, const Work *work, const BareTimes *times) {
  int stage = work->stage;
  g_assert(stage >= 0 && stage < program->n_stages);
  gint64 f_ns = times->f[stage], b_ns = times->i[stage] + times->w[stage];
  if (work->overlapped) {
    f_ns = share_of_f(times, stage);
    b_ns = times->pair[stage] - f_ns;
  }
  const gint64 of_phase[N_PHASES] = {
      [PHASE_F] = f_ns, [PHASE_I] = times->i[stage], [PHASE_W] = times->w[stage], [PHASE_B] = b_ns};
  return (OpTime){.run_ns = of_phase[work->phase], .tail_ns = of_phase[work->phase]};
}

Timing *timing_of_pair_times(const Program *program, const gint64 *f_ns, const gint64 *i_ns, const gint64 *w_ns,
                             const gint64 *pair_ns, gint64 send_ns) {
  const BareTimes times = {f_ns, i_ns, w_ns, pair_ns};
  Timing *timing = g_new0(Timing, 1);
  timing->n_works = (int)program->works->len;
  timing->works = g_new0(OpTime, timing->n_works);
  for (int i = 0; i < timing->n_works; i++)
    timing->works[i] = time_bare(program, &g_array_index(program->works, Work, i), &times);
  timing->n_transfers = (int)program->transfers->len;
  timing->transfers = g_new0(OpTime, timing->n_transfers);
  for (int i = 0; i < timing->n_transfers; i++)
    if (g_array_index(program->transfers, Transfer, i).group < 0)
      timing->transfers[i] = (OpTime){.run_ns = send_ns, .tail_ns = send_ns};
  return timing;
}

Timing *timing_of_times(const Program *program, const gint64 *f_ns, const gint64 *i_ns, const gint64 *w_ns,
                        gint64 send_ns) {
  g_autofree gint64 *pair_ns = g_new(gint64, program->n_stages);
  for (int stage = 0; stage < program->n_stages; stage++)
    pair_ns[stage] = f_ns[stage] + i_ns[stage] + w_ns[stage];
  return timing_of_pair_times(program, f_ns, i_ns, w_ns, pair_ns, send_ns);
}
