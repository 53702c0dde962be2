/* Traces of stepsim (simulate --trace) and stepreal (run --trace), whose form chrome_trace.h tells. */
#pragma once
#include "profile.h"

/* Adds the file's ranks. INPUT with file:line. */
gboolean own_read(Profile *profile, const char *file, GError **error);
