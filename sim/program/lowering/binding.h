/* Numbers of a lowered Program for other sizes of the same structure: of sequences, micro-batches … (what the workload
 * says beyond the ops that it needs). */
#pragma once
#include "lowering.h"

/* Gives the program, a copy of a lowered one, the numbers of this workload, of which lowering would make the same ops.
 * FALSE: it would tell entries of the tables apart that this program does not. */
gboolean program_bind(Program *program, const Workload *workload);
/* The same for a program expanded from `whole`, which has its numbers. */
gboolean program_bind_expanded(Program *program, const Program *whole, const Workload *workload);
