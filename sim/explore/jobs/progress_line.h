/* "1,234 of 5,000 (24.7 %) …" on standard error: a line that is written over on a terminal, else a line now and then.
 */
#pragma once
#include <glib.h>

typedef struct {
  gboolean is_terminal;
  gint64 began_us, last_us; /* monotonic */
  gint64 n_last;            /* done until then */
  double rate;              /* done per second, in the last seconds more than in those before */
  int n_shown;              /* columns of the line that stands there */
} ProgressLine;

/* How far something is. */
typedef struct {
  const char *doing;  /* what stands ahead of it, "screening: "; NULL: nothing */
  gint64 n_wanted;    /* in all */
  gint64 n_before;    /* done before it began, which says nothing of the rate */
  gint64 n_now;       /* done since */
  const char *detail; /* what became of them; NULL: nothing is said */
  gboolean is_most;   /* it may end before all are done */
} Progress;

void progress_line_init(ProgressLine *line);
/* Show it, when it is time to: on a terminal from a second on. */
void progress_line_show(ProgressLine *line, const Progress *progress);
/* Take the line away. */
void progress_line_end(ProgressLine *line);
/* What the line says at a rate of so many per second. Owned by the caller. */
char *progress_text(const Progress *progress, double per_s);
/* "1,234,567". Owned by the caller. */
char *progress_thousands(gint64 n);
