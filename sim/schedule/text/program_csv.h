/* A lowered Program in PyTorch's pipelining CSV with communication, which its runtime and order_read_csv() take. */
#pragma once
#include "program.h"

/* The first step: a row per pipeline rank, a cell per action in list order. An action cut into parts is one cell where
 * its first part stands, a pair that runs as one is one cell. PyTorch gathers and reduces whole stages: UNSHARD stands
 * at the first gather of a stage that is in shards, RESHARD behind its last user before it is gathered anew,
 * REDUCE_GRAD at the last reduction of the stage's gradient. What comes with the optimizer has no place in the grammar.
 */
char *program_to_csv(const Program *program);
