/* A lowered Program as PyTorch's pipelining CSV with communication, which its runtime and order_read_csv() can
 * read. */
#pragma once
#include "program.h"

/* The first step: a row per pipeline rank, a cell per action in list order. An action cut into parts is one cell, at
 * its first part; a pair that runs as one is one cell. PyTorch gathers and reduces whole stages: UNSHARD is at the
 * first gather of a sharded stage, RESHARD after its last user before it is gathered again, REDUCE_GRAD at the last
 * reduction of the stage's gradient. The grammar has no place for the optimizer and what comes with it. */
char *program_to_csv(const Program *program);
