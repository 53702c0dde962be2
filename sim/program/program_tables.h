/* Private to the Program: the index that finds equal entries of its tables. */
#pragma once
#include "program.h"

ProgramIndex *program_index_new(void);
void program_index_free(ProgramIndex *index);
