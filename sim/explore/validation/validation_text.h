/* A Validation as people read it, in a terminal and in documents. */
#pragma once
#include "validation.h"

/* Append: how many rows, how fast; which are read as a release that they do not name; a table by group; verdicts on
 * memory; the ten worst rows; why rows failed, counted. */
void validation_text(GString *out, const Validation *validation);

/* The table by group as Markdown: rows, errors in %, the baseline, memory, verdicts on memory as right / all; and a
 * table of the ten worst rows. Nothing in it depends on the machine. Owned by the caller. */
char *validation_markdown(const Validation *validation);
