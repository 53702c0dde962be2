/* What all functions of the library share. */
#pragma once
#include <locale.h>

#include "stepsim.h"
#include "sweep_row.h"

/* Numbers have points within a call, whatever the caller's locale has: to be given to library_leave(). */
locale_t library_enter(void);
/* Tells the caller what went wrong (NULL: nothing), and frees it. */
void library_leave(locale_t before, GError *error, StepsimFailure *failure);

/* Of the error of a call that a StepsimWatch stopped. */
GQuark library_stopped_quark(void);

/* The same for all. */
const SweepTable *library_table(void);
/* Borrows all from `row`. */
StepsimRow library_row(const SweepRow *row);

/* The parser's options but for `refused` (ends with NULL); which may go. */
typedef GArray LibraryOptions;
LibraryOptions *library_options_new(const Parser *parser, const char *const *refused);
/* NULL: there are fewer. */
const StepsimOption *library_nth_option(const LibraryOptions *options, size_t i);
/* Sets the parser's options from the caller's. INPUT, also for one of `refused` (ends with NULL). */
gboolean library_set_options(Parser *parser, const char *const *options, const char *const *refused, GError **error);
