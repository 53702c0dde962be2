/* "1,234 of 5,000 (24.7 %) …" on standard error: rewritten in place on a terminal, otherwise a new line now and
 * then. */
#pragma once
#include <glib.h>

typedef struct {
  gboolean is_terminal;
  gint64 began_us, last_us; /* monotonic */
  gint64 n_last;            /* done by then */
  double rate;              /* done per second, recent seconds weighted more */
  int n_shown;              /* width of the line currently shown */
} ProgressLine;

/* The state of the work. */
typedef struct {
  const char *doing;  /* shown before it, "screening: "; NULL: nothing */
  gint64 n_wanted;    /* in all */
  gint64 n_before;    /* done before it began; not counted in the rate */
  gint64 n_now;       /* done since then */
  const char *detail; /* what became of them; NULL: omitted */
  gboolean is_most;   /* it may end before all are done */
  gboolean is_news;   /* the detail: on a terminal it is due at once */
} Progress;

void progress_line_init(ProgressLine *line);
/* Whether progress_line_show() would show anything but news: on a terminal, not during the first second. */
gboolean progress_line_is_due(const ProgressLine *line);
/* Show it if it is due, or on a terminal has news. */
void progress_line_show(ProgressLine *line, const Progress *progress);
/* Erase the line. */
void progress_line_end(ProgressLine *line);
/* The text of the line at a rate of so many per second. Owned by the caller. */
char *progress_text(const Progress *progress, double per_s);
/* The same in fewer than so many columns: without the detail, or cut. Owned by the caller. */
char *progress_text_within(const Progress *progress, double per_s, int columns);
/* "1,234,567". Owned by the caller. */
char *progress_thousands(gint64 n);
