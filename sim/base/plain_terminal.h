/* Terminals of a locale whose letters are not UTF-8 (LANG=C, or none set). What stepsim prints is UTF-8; there it would
 * be noise. */
#pragma once
#include <stdio.h>

/* From here on what is printed to standard output and standard error, where they are such a terminal, is ASCII: x for
 * ×, # for bars, - and | for lines. Files and pipes stay UTF-8. Call once, after setlocale(). */
void plain_terminal_begin(void);
