/* A rank's gathers write into a fixed number of buffers in rotation. A gather's buffer is in use from its FETCH, if
 * it has one, else from the gather itself. */
#pragma once
#include "program.h"

/* How many buffers the list needs so that no gather writes into one in use, counted from the issue of the gather that
 * filled it to its last use. */
int gather_buffers_needed(const OpList *list);
/* Checks that each gather, or its FETCH, waits for the last use of the buffer that it writes into. IMPOSSIBLE naming
 * the first that does not. Indices must be in range. */
gboolean gather_buffers_check(const Program *program, GError **error);
