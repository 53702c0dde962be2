/* Private to the Program: by which equal entries of its tables are found. */
#pragma once
#include "program.h"

ProgramIndex *program_index_new(void);
void program_index_free(ProgramIndex *index);
