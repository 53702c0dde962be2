/* Derives Programs of more micro-batches from one with fewer. In a schedule with a repeating steady state the longer
 * list only has more copies of one group (repeats.h). Copying that group takes a tenth of the time of lowering and
 * verifying everything. */
#pragma once
#include "repeats.h"

/* What lower() makes for n_more more groups, without effects and with the table entries, and their numbers, of the
 * program that has these repeats. It is known to be sound, except that sends are still to be matched and the program
 * still to be run to its end. For one step, lowered from a schedule. NULL: cannot be derived. Owned by the caller. */
Program *program_of_more_groups(const ProgramRepeats *repeats, gint64 n_more);
