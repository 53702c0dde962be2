/* bench_library MODEL CLUSTER PLANS: predicts the plans of a file, one per line ("tp=8 pp=4"), through the library's
 * header alone, and prints how many there were, the seconds of a processor that took, and the sum of their step times.
 */
#include <glib.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "stepsim.h"

static double step_time(const StepsimPrediction *prediction) {
  static size_t column;
  while (strcmp(stepsim_column(column), "step_time_s") != 0)
    column++;
  return stepsim_row(prediction)->cells[column].real;
}

int main(int argc, char **argv) {
  g_autofree char *text = NULL;
  StepsimFailure failure = {0};
  StepsimDescription *description = argc == 4 ? stepsim_open(argv[1], argv[2], &failure) : NULL;
  if (description == NULL || !g_file_get_contents(argv[3], &text, NULL, NULL)) {
    fprintf(stderr, "usage: %s MODEL CLUSTER PLANS: %s\n", argv[0], failure.message != NULL ? failure.message : "");
    return 2;
  }
  g_auto(GStrv) lines = g_strsplit(g_strchomp(text), "\n", -1);
  double sum_s = 0;
  const clock_t from = clock();
  for (char **line = lines; *line != NULL; line++) {
    g_auto(GStrv) options = g_strsplit(*line, " ", -1);
    StepsimPrediction *prediction = stepsim_predict(description, (const char *const *)options, &failure);
    sum_s += prediction != NULL ? step_time(prediction) : 0;
    stepsim_free(failure.message);
    stepsim_prediction_free(prediction);
  }
  printf("%u %.6f %.17g\n", g_strv_length(lines), (double)(clock() - from) / CLOCKS_PER_SEC, sum_s);
  stepsim_close(description);
  return 0;
}
