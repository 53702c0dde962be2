/* Traces of stepsim (simulate --trace) and stepreal (run --trace), whose form chrome_trace.h tells. */
#pragma once
#include "profile.h"
#include "trace.h"

/* Adds the file's ranks. INPUT with file:line. */
gboolean own_read(Profile *profile, const char *file, GError **error);
/* By the names that sim/work gives to kernels. */
ProfileKind own_kernel_kind(const char *name);
/* The same of a trace in memory; complete. */
Profile *profile_of_trace(const Trace *trace);
