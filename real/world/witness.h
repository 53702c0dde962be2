/* A process beside the first rank of a machine that tells of a rank's death in the name of all others, who may be
 * killed before they can. */
#pragma once
#include "board.h"

typedef struct Witness Witness;

/* Forks; to be called before MPI starts. NULL when there can be none (the run goes on without). */
Witness *witness_start(void);
/* A file descriptor of this process that closes when it dies, for its line of the board; −1 when `witness` is NULL. */
int witness_lifeline(const Witness *witness);
/* It watches the ranks of `board`, which this process made. */
void witness_watch(Witness *witness, const Board *board);
/* Only the maker of the board needs one: the process ends, the lifeline stays. NULL is fine. */
void witness_dismiss(Witness *witness);
/* Ends it and waits for that. NULL is fine. */
void witness_stop(Witness *witness);
