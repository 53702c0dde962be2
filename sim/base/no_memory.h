/* Memory that the system does not give ends the program, whoever asked for it: one line on standard error, status 2.
 *
 * GLib ends a program by a signal then, after a message for which it may need memory itself, again and again until its
 * stack is full; other libraries look at no result. So a program that links this file has allocators of its own, before
 * those of the C library (or of what LD_PRELOAD names), which call these and never return NULL. Files are written whole
 * or not at all (whole_file.h) and sweeps go on where they were (result_store.h), as after any sudden end.
 *
 * Under a sanitizer its allocators stay the first. */
#pragma once
#include <glib.h>

/* Call first in main(). Fatal errors of GLib, such as a thread that cannot be started, then end the program in the same
 * way, and its stack has the pages that it will need: those that cannot be had end it now. */
void no_memory_ends(const char *program);

/* Memory for callers that can go on without it: NULL if the system does not give it. Freed with free(). */
gpointer no_memory_try(gsize alignment, gsize n_bytes);
