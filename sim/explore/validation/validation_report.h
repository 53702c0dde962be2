/* A Validation for people, scripts and pictures. Texts are owned by the caller. */
#pragma once
#include "validation.h"

/* Append: number of rows and speed; which frameworks' names rules read as another file; a table by group; verdicts on
 * memory; the ten worst rows; why rows failed, with counts. */
void validation_text(GString *out, const Validation *validation);

/* What all rows are off by, in a sentence; the table by group as Markdown: rows, errors in %, the baseline, memory,
 * verdicts on memory as right / all; and a table of the ten worst rows. Independent of the machine. */
char *validation_markdown(const Validation *validation);

/* One JSON object and a newline: rows, predicted, failed[{id, source, row, reason}], mape, median_ape, p90_ape, bias,
 * baseline_mape, timed, memory_rows, memory_mape, memory_bias, out_of_memory{ran, ran_right, out_of_memory,
 * out_of_memory_right}, without[parts left out of the model], read_as[{framework, file, rows}], rows_per_s,
 * threads, groups{name → the same, of rows to out_of_memory}. Errors are shares; null where there are none. */
char *validation_json(const Validation *validation);

/* Every row in full, in order: its own columns (those of all files, each once), then predicted_step_time_s, error,
 * ape, predicted_memory_gb (GB = 1e9 bytes; of tensors), predicted_reserved_gb, predicted_device_gb (shown_memory.h),
 * failure and read_as (the framework file it was read with); missing values are empty. */
char *validation_csv(const Validation *validation);

/* Predicted against measured step times, both logarithmic, one series of points per group, in a .svg, .png or .pdf
 * file. INPUT as gnuplot_run(), and if no row has both. */
gboolean validation_plot(const Validation *validation, const char *file, GError **error);
