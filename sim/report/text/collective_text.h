/* Collectives as text: the table that nccl-tests prints, and a collective shown step by step. */
#pragma once
#include "collective_steps.h"
#include "json_report.h"

/* Append the table: nccl-tests' columns (elements are floats; a rooted operation's root is rank 0), then our own;
 * behind it the notes. */
void text_collectives(const CollectiveReport *reports, int n, GString *out);

/* Append one line per step: its sends, and what every GPU then holds of every chunk. */
void text_collective_steps(const CollectiveSteps *steps, GString *out);
