/* What a calibration has measured so far, as the text that is kept of it: part after part (a case, the grid), so that a
 * text of which the end is lost still holds the parts before. */
#pragma once
#include "kernel_times.h"

typedef struct CalibrationProgress CalibrationProgress;
/* `header`: one line that tells this calibration from others whose times are not its own; copied. */
CalibrationProgress *calibration_progress_new(const char *header);
void calibration_progress_free(CalibrationProgress *progress);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CalibrationProgress, calibration_progress_free)

/* Takes a text back: whole parts, and their kernels into `times`. Where it is cut off or damaged, what stands before
 * counts, of another calibration's nothing; returned is then the line, what is found there and what was expected, owned
 * by the caller; else NULL. */
char *calibration_progress_read(CalibrationProgress *progress, const char *text, KernelTimes *times);
gboolean calibration_progress_has(const CalibrationProgress *progress, const char *part);
int calibration_progress_n_parts(const CalibrationProgress *progress);
/* `part` is done, with what `times` holds since the part before. Returns the whole text, borrowed. */
const char *calibration_progress_add(CalibrationProgress *progress, const char *part, KernelTimes *times);
