/* A helper process of the first rank of a machine. It reports a rank's death on behalf of the other ranks, which may
 * be killed before they can. */
#pragma once
#include "board.h"

typedef struct Witness Witness;

/* Forks; call it before MPI starts. NULL if it cannot be started (the run goes on without it). */
Witness *witness_start(void);
/* A file descriptor that closes when this process dies, for its board line; −1 when `witness` is NULL. */
int witness_lifeline(const Witness *witness);
/* Starts watching the ranks of `board`, which this process must have created. */
void witness_watch(Witness *witness, const Board *board);
/* For ranks that did not create the board, which need no witness: ends the process but keeps the lifeline. NULL is
 * fine. */
void witness_dismiss(Witness *witness);
/* Ends the process and reaps it. NULL is fine. */
void witness_stop(Witness *witness);
