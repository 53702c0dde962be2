/* "1,234 of 5,000 (24.7 %) …" on standard error: a line that is written over on a terminal, else a line now and then.
 */
#pragma once
#include "sweep_run.h"

typedef struct {
  gboolean is_terminal;
  gint64 last_us; /* monotonic */
  gint64 n_last;  /* tried until then */
  double rate;    /* configurations per second, of the last seconds more than of those before */
  int n_shown;    /* columns of the line that stands there */
} ProgressLine;

void progress_line_init(ProgressLine *line);
/* Show it, when it is time to. */
void progress_line_show(ProgressLine *line, const SweepProgress *progress);
/* Take the line away. */
void progress_line_end(ProgressLine *line);
/* "310 ran, 42 out of memory, …" of what was tried since it began. Owned by the caller. */
char *progress_counts(const gint64 counts[N_SWEEP_STATUSES]);
/* "1,234,567". Owned by the caller. */
char *progress_thousands(gint64 n);
