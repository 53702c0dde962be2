/* A rank's gathers write into a fixed number of buffers in turn. A gather's buffer is written from its FETCH on, where
 * it has one, else from the gather itself. */
#pragma once
#include "program.h"

/* How many buffers the list needs for no gather to write into one that is in use, from where the gather that filled it
 * is issued to its last use. */
int gather_buffers_needed(const OpList *list);
/* A Program must have each gather, or its FETCH, wait for the last use of the buffer that it writes into. IMPOSSIBLE
 * naming the first that does not. Indices must be in range. */
gboolean gather_buffers_check(const Program *program, GError **error);
