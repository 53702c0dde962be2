/* A Validation as people read it. */
#pragma once
#include "validation.h"

/* Append: how many rows, how fast; a table by group; verdicts on memory; the ten worst rows; why rows failed, counted.
 */
void validation_text(GString *out, const Validation *validation);
