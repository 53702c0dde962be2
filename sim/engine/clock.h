/* Runs a Program by events in time order: where transfers share a rank's links or slow its kernels, an end depends on
 * what else happens meanwhile. */
#pragma once
#include "run_state.h"

typedef struct Clock Clock;

/* `run` is borrowed. */
Clock *clock_new(Run *run);
void clock_free(Clock *clock);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Clock, clock_free)

/* From the first moment to the last. */
void clock_run_all(Clock *clock);
/* Of a run that can be followed (follow.h), with the first n_made steps made so far, of which those before n_past are
 * final: takes over at now_ns, until at least `n_least` events have happened and no transfer is under way (FALSE), or
 * to the end (TRUE). n_least 0: to the end. */
gboolean clock_run_from(Clock *clock, gint64 now_ns, gint32 n_past, gint32 n_made, guint64 n_least);
/* Everything up to this time has happened, of all ops; of transfers. */
gint64 clock_past_ns(const Clock *clock);
gint64 clock_rest_ns(const Clock *clock);
/* That it has taken so far. */
guint64 clock_n_events(const Clock *clock);
