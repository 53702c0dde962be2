#include "progress_line.h"

#include <math.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const double terminal_from_s = 1, terminal_every_s = 0.2, plain_every_s = 20;
static const double rate_over_s = 10; /* configurations of one kind come together: the rate follows them */

char *progress_thousands(gint64 n) {
  g_autofree char *digits = g_strdup_printf("%" G_GINT64_FORMAT, n);
  GString *text = g_string_new(digits);
  for (gssize at = (gssize)text->len - 3; at > 0; at -= 3)
    g_string_insert_c(text, at, ',');
  return g_string_free(text, FALSE);
}

void progress_line_init(ProgressLine *line) {
  const gint64 now_us = g_get_monotonic_time();
  *line = (ProgressLine){.is_terminal = isatty(STDERR_FILENO), .began_us = now_us, .last_us = now_us};
}

/* "8 s", "12 min", "3.4 h", "5.6 days" */
static char *duration(double s) {
  if (s < 100)
    return g_strdup_printf("%.0f s", ceil(s));
  if (s < 6000)
    return g_strdup_printf("%.0f min", s / 60);
  return s < 360000 ? g_strdup_printf("%.1f h", s / 3600) : g_strdup_printf("%.1f days", s / 86400);
}

/* An average that forgets by 1/e in `rate_over_s`. */
static void follow_rate(ProgressLine *line, gint64 n_now, double passed_s) {
  const double rate = (double)(n_now - line->n_last) / passed_s;
  line->rate = line->n_last == 0 ? rate : line->rate + (rate - line->rate) * (1 - exp(-passed_s / rate_over_s));
  line->n_last = n_now;
}

/* Columns of the terminal; 80 if it does not say. */
static int terminal_columns(void) {
  struct winsize size;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

char *progress_text(const Progress *progress, double per_s) {
  const gint64 n = progress->n_before + progress->n_now;
  g_autofree char *done = progress_thousands(n), *wanted = progress_thousands(progress->n_wanted);
  g_autofree char *left = per_s > 0 ? duration((double)(progress->n_wanted - n) / per_s) : g_strdup("?");
  const char *most = progress->is_most ? "at most " : "";
  return g_strdup_printf("%s%s of %s%s (%.1f %%)%s%s; %.*f/s, %s%s left",
                         progress->doing != NULL ? progress->doing : "", done, most, wanted,
                         100.0 * (double)n / (double)progress->n_wanted, progress->detail != NULL ? ": " : "",
                         progress->detail != NULL ? progress->detail : "", per_s < 10 ? 1 : 0, per_s, most, left);
}

/* A line that reached the last column would begin another one, which the next does not write over: the detail is left
 * out, then the end. */
char *progress_text_within(const Progress *progress, double per_s, int columns) {
  char *text = progress_text(progress, per_s);
  Progress bare = *progress;
  bare.detail = NULL;
  if (g_utf8_strlen(text, -1) >= columns) {
    g_free(text);
    text = progress_text(&bare, per_s);
  }
  if (g_utf8_strlen(text, -1) < columns)
    return text;
  char *cut = g_utf8_substring(text, 0, MAX(columns - 1, 0));
  g_free(text);
  return cut;
}

gboolean progress_line_is_due(const ProgressLine *line) {
  const gint64 now_us = g_get_monotonic_time();
  return 1e-6 * (double)(now_us - line->last_us) >= (line->is_terminal ? terminal_every_s : plain_every_s) &&
         1e-6 * (double)(now_us - line->began_us) >= terminal_from_s;
}

void progress_line_show(ProgressLine *line, const Progress *progress) {
  if (!progress_line_is_due(line) && !(line->is_terminal && progress->is_news))
    return;
  const gint64 now_us = g_get_monotonic_time();
  const double passed_s = 1e-6 * (double)(now_us - line->last_us);
  line->last_us = now_us;
  follow_rate(line, progress->n_now, passed_s);
  const int columns = line->is_terminal ? terminal_columns() : G_MAXINT;
  g_autofree char *text = progress_text_within(progress, line->rate, columns);
  if (!line->is_terminal) {
    g_printerr("%s\n", text);
    return;
  }
  const int n = (int)g_utf8_strlen(text, -1);
  g_printerr("\r%s%*s", text, CLAMP(line->n_shown - n, 0, columns - 1 - n), "");
  line->n_shown = n;
}

void progress_line_end(ProgressLine *line) {
  if (line->n_shown > 0)
    g_printerr("\r%*s\r", MIN(line->n_shown, terminal_columns() - 1), "");
  line->n_shown = 0;
}
