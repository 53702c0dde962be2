/* A Validation for people, in a terminal and in documents. */
#pragma once
#include "validation.h"

/* Append: number of rows and speed; which rows are read as a release they do not name; a table by group; verdicts on
 * memory; the ten worst rows; why rows failed, with counts. */
void validation_text(GString *out, const Validation *validation);

/* The table by group as Markdown: rows, errors in %, the baseline, memory, verdicts on memory as right / all; and a
 * table of the ten worst rows. Independent of the machine. Owned by the caller. */
char *validation_markdown(const Validation *validation);
