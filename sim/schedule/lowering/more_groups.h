/* Programs of more micro-batches from one of fewer. Where a schedule goes in turn a list of more groups is the same
 * with so many more of one (repeats.h): to copy that group takes a tenth of what lowering and proving them all does. */
#pragma once
#include "repeats.h"

/* What lower() makes of n_more groups more, with the tables of the program that repeats so, but no effects, and its
 * ops' numbers of these: it is sound as that is, but for sends and what ops wait for, which are still to be matched and
 * followed to the end. Of one step, lowered from a schedule. NULL: its repeats do not tell. Owned by the caller. */
Program *program_of_more_groups(const ProgramRepeats *repeats, gint64 n_more);
