/* Collectives in words: the table that nccl-tests prints, and a collective taken apart step by step. */
#pragma once
#include "collective_steps.h"
#include "json_report.h"

/* Append the table: nccl-tests' columns (elements are floats; a rooted operation's root is rank 0), then ours. */
void text_collectives(const CollectiveReport *reports, int n, GString *out);

/* Append a line for each step: its sends, and what every GPU then has of every chunk. */
void text_collective_steps(const CollectiveSteps *steps, GString *out);
