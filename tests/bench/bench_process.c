/* Wall time of a whole process: bench_process NAME RUNS COMMAND [ARGUMENT…]. Prints minimum, median and maximum. */
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(gconstpointer a, gconstpointer b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double run_once(char **argv) {
  g_autoptr(GError) error = NULL;
  gint64 start_us = g_get_monotonic_time();
  g_spawn_sync(NULL, argv, NULL, G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL, NULL, NULL, &error);
  g_assert_no_error(error);
  return (g_get_monotonic_time() - start_us) * 1e-3;
}

int main(int argc, char **argv) {
  int n_runs = argc > 3 ? atoi(argv[2]) : 0;
  if (n_runs < 1) {
    fprintf(stderr, "usage: bench_process NAME RUNS COMMAND [ARGUMENT...]\n");
    return 2;
  }
  g_autofree double *ms = g_new(double, n_runs);
  run_once(argv + 3); /* files into the cache */
  for (int i = 0; i < n_runs; i++)
    ms[i] = run_once(argv + 3);
  qsort(ms, n_runs, sizeof *ms, compare);
  printf("%-42s %.1f ms (median of %d; %.1f to %.1f)\n", argv[1], ms[n_runs / 2], n_runs, ms[0], ms[n_runs - 1]);
  return 0;
}
