/* The summary of a step that a person reads at a glance. */
#pragma once
#include "step_report.h"
#include "timing.h"

/* Append the report to `out`: UTF-8, lines of at most about 100 columns (advice apart); with `colour`, ANSI colours. */
void text_report_step(GString *out, const StepReport *report, gboolean colour);

/* Whether file descriptor `fd` is a terminal and the environment does not object (NO_COLOR, TERM=dumb). */
gboolean text_report_wants_colour(int fd);
/* A heading of a section, behind an empty line; bold with `colour`. */
void text_report_heading(GString *out, const char *text, gboolean colour);
/* A line on how much the cluster's faults reduce its links (cluster->health is set). */
void text_report_health(GString *out, const Cluster *cluster);
/* A line on how much of the bandwidth stated per GPU the inside of its nodes can carry (cluster->wiring is set). */
void text_report_wiring(GString *out, const Cluster *cluster);

/* The kernels of one layer, the embedding and the head: shapes, work and time, as printed by `stepsim simulate
 * --kernels`. */

/* `peak_flops`: FLOP/s of one GPU by number format (indexed by Number); gives the time at peak and the share of peak
 * reached. */
void kernel_table_print(const Workload *workload, const Timing *timing, const double *peak_flops, GString *out);
