#include "progress_line.h"

#include <math.h>
#include <unistd.h>

static const double terminal_every_s = 0.2, plain_every_s = 20;

char *progress_thousands(gint64 n) {
  g_autofree char *digits = g_strdup_printf("%" G_GINT64_FORMAT, n);
  GString *text = g_string_new(digits);
  for (gssize at = (gssize)text->len - 3; at > 0; at -= 3)
    g_string_insert_c(text, at, ',');
  return g_string_free(text, FALSE);
}

char *progress_counts(const gint64 counts[N_SWEEP_STATUSES]) {
  static const char *const words[N_SWEEP_STATUSES] = {[SWEEP_RAN] = "ran",
                                                      [SWEEP_OUT_OF_MEMORY] = "out of memory",
                                                      [SWEEP_TOO_LARGE] = "too large to run",
                                                      [SWEEP_IMPOSSIBLE] = "impossible"};
  GString *text = g_string_new(NULL);
  for (int status = 0; status < N_SWEEP_STATUSES; status++) {
    g_autofree char *n = progress_thousands(counts[status]);
    if (counts[status] > 0 || status == SWEEP_RAN)
      g_string_append_printf(text, "%s%s %s", text->len > 0 ? ", " : "", n, words[status]);
  }
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

static char *text_of(const ProgressLine *line, const SweepProgress *progress, gint64 now_us) {
  const gint64 n_now = sweep_progress_n_now(progress), n = progress->n_before + n_now;
  const double rate = (double)n_now / MAX(1e-6 * (double)(now_us - line->began_us), 1e-3);
  g_autofree char *done = progress_thousands(n), *wanted = progress_thousands(progress->n_wanted);
  g_autofree char *counts = progress_counts(progress->n_now);
  g_autofree char *left = n_now > 0 ? duration((double)(progress->n_wanted - n) / rate) : g_strdup("?");
  return g_strdup_printf("%s of %s (%.1f %%): %s; %.*f/s, %s left", done, wanted,
                         100.0 * (double)n / (double)progress->n_wanted, counts, rate < 10 ? 1 : 0, rate, left);
}

void progress_line_show(ProgressLine *line, const SweepProgress *progress) {
  const gint64 now_us = g_get_monotonic_time();
  if (1e-6 * (double)(now_us - line->last_us) < (line->is_terminal ? terminal_every_s : plain_every_s))
    return;
  line->last_us = now_us;
  g_autofree char *text = text_of(line, progress, now_us);
  if (!line->is_terminal) {
    g_printerr("%s\n", text);
    return;
  }
  const int n = (int)g_utf8_strlen(text, -1);
  g_printerr("\r%s%*s", text, MAX(line->n_shown - n, 0), "");
  line->n_shown = n;
}

void progress_line_end(ProgressLine *line) {
  if (line->n_shown > 0)
    g_printerr("\r%*s\r", line->n_shown, "");
  line->n_shown = 0;
}
