/* What a calibration has measured so far, as text to be saved. The text grows part by part (a case, the grid), so a
 * truncated text still holds the parts before the cut. */
#pragma once
#include "kernel_times.h"

typedef struct CalibrationProgress CalibrationProgress;
/* `header`: one line that identifies this calibration; times saved under another header are not used. Copied. */
CalibrationProgress *calibration_progress_new(const char *header);
void calibration_progress_free(CalibrationProgress *progress);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CalibrationProgress, calibration_progress_free)

/* Restores saved text: the complete parts, and their kernels into `times`. Of truncated or damaged text, the parts
 * before the damage are kept; of another calibration's text, nothing. In these cases returns a message with the line,
 * what was found and what was expected, owned by the caller; otherwise NULL. */
char *calibration_progress_read(CalibrationProgress *progress, const char *text, KernelTimes *times);
gboolean calibration_progress_has(const CalibrationProgress *progress, const char *part);
/* Parts may also be notes, to be known when a calibration goes on: those that begin with `prefix`, without it, sorted;
 * of borrowed strings, owned by the caller. */
GPtrArray *calibration_progress_notes(const CalibrationProgress *progress, const char *prefix);
int calibration_progress_n_parts(const CalibrationProgress *progress);
/* Records `part` as done, with the times that `times` gained since the previous part. Returns the whole text,
 * borrowed. */
const char *calibration_progress_add(CalibrationProgress *progress, const char *part, KernelTimes *times);

/* The file in which it is saved: the whole of it and its length in bytes; owned by the caller. NULL if there is no
 * file, and, with the error set, if it cannot be read. */
char *progress_file_read(const char *file, gsize *length, GError **error);
/* Written whole or not at all. Creates the folder. INPUT, naming what could not be written. */
gboolean progress_file_write(const char *file, const char *text, GError **error);
