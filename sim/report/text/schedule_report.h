/* Result of running an order on its own: bubble by stage spans and by makespan, and what is in flight. Times are in
 * the unit of the given stage times. */
#pragma once
#include "memory_profile.h"
#include "metrics.h"

typedef struct {
  double makespan;                         /* end of the last op, all steps */
  double step_time;                        /* of the last step: from the end of the step before (one step: makespan) */
  double span;                             /* longest stage span of a step: last end − first start */
  double bubble_time;                      /* that span less its work */
  double bubble_fraction, bubble_overhead; /* idle / span, idle / work */
  double makespan_bubble_time;             /* step_time less the work of the busiest rank */
  double makespan_bubble_fraction, makespan_bubble_overhead; /* of step_time, of that work */
  double closed_form_bubble;                                 /* over stage spans; NAN: none is known */
  gboolean closed_form_is_exact;                             /* otherwise: no such order has a shorter one */
  int *in_flight;                                            /* [n_ranks] peak micro-batches × chunks held; owned */
  double *peak_memory; /* [n_ranks] most held, in the unit of the given memory; owned */
  int n_ranks, n_steps;
  gint64 n_actions, n_sends; /* of all ranks and steps: F, I, W, B; activations and gradients to other ranks */
} ScheduleReport;

/* `unit_ns`: one unit of the given times. The closed form is left unknown. */
void schedule_report_init(ScheduleReport *report, const Trace *trace, const Metrics *metrics, double unit_ns);
void schedule_report_clear(ScheduleReport *report);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(ScheduleReport, schedule_report_clear)

/* Some ten lines; `unit` with its leading space: " s". */
void schedule_report_text(const ScheduleReport *report, const char *title, const char *unit, GString *out);
