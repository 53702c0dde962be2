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
/* From the moment now_ns, of a run that was followed up to it (follow.h), with the first n_made steps of the tape. */
void clock_run_from(Clock *clock, gint64 now_ns, gint32 n_made);
