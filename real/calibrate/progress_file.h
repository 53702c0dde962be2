/* The file in which a calibration saves its progress (calibration_progress.h). */
#pragma once
#include <glib.h>

/* The whole file and its length in bytes; owned by the caller. NULL if there is no file, and, with the error set, if it
 * cannot be read. */
char *progress_file_read(const char *file, gsize *length, GError **error);
/* Written completely or not at all: to <file>.new, then renamed. A killed process may leave <file>.new; the next
 * overwrites it. Creates the folder. INPUT, naming what could not be written. */
gboolean progress_file_write(const char *file, const char *text, GError **error);
/* For when the calibration is done. */
void progress_file_remove(const char *file);
