/* The file in which a calibration keeps its progress (calibration_progress.h). */
#pragma once
#include <glib.h>

/* All of it, and its bytes. NULL where there is none; with the error set where it is and cannot be read. Owned by the
 * caller. */
char *progress_file_read(const char *file, gsize *length, GError **error);
/* Whole or not at all: by <file>.new, which a process that is killed meanwhile leaves and the next takes over. Its
 * folder is made. INPUT naming what could not be written. */
gboolean progress_file_write(const char *file, const char *text, GError **error);
/* The calibration is done. */
void progress_file_remove(const char *file);
