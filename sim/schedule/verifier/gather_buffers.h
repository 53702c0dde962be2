/* Gathers of a rank's list write into so many buffers in turn, each from its FETCH on where it has one. */
#pragma once
#include "program.h"

/* How many it takes to leave every gather's own alone, as far as the list goes, from where it is issued to its last
 * use. */
int gather_buffers_needed(const OpList *list);
/* That a gather's buffer is free when it, or its FETCH, starts is the Program's to see to: what used it last has ended
 * by then. IMPOSSIBLE naming the first that does not wait for it. Indices must be in range. */
gboolean gather_buffers_check(const Program *program, GError **error);
