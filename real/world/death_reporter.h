/* A helper process of the first rank of a machine. It reports a rank's death on behalf of the other ranks, which may
 * be killed before they can. */
#pragma once
#include "rank_status.h"

typedef struct DeathReporter DeathReporter;

/* Forks; call it before MPI starts. NULL if it cannot be started (the run goes on without it). */
DeathReporter *death_reporter_start(void);
/* A file descriptor that closes when this process dies, for its status table line; −1 when `reporter` is NULL. */
int death_reporter_lifeline(const DeathReporter *reporter);
/* Starts watching the ranks of `status table`, which this process must have created. */
void death_reporter_watch(DeathReporter *reporter, const StatusTable *statuses);
/* For ranks that did not create the status table, which need no reporter: ends the process but keeps the lifeline. NULL
 * is fine. */
void death_reporter_dismiss(DeathReporter *reporter);
/* Ends the process and reaps it. NULL is fine. */
void death_reporter_stop(DeathReporter *reporter);
