/* Whole numbers in a row, as lists of options have them: "4..8" (each), "8..64+8" (every eighth), "8..1024*2" (each
 * twice the one before). */
#pragma once
#include <glib.h>

typedef struct {
  gint64 first, last, step;
  gboolean multiplies; /* by `step`; else it is added */
} NumberRange;

/* Ends from `least` on, up to 2^52; step at least 1, factor at least 2; from 1 on with a factor. FALSE: that is none.
 */
gboolean number_range_parse(const char *text, gint64 least, NumberRange *range);
/* What an option that was given none expected. Static. */
const char *number_range_form(void);
/* The number after *value. FALSE: that was the last. */
gboolean number_range_next(const NumberRange *range, gint64 *value);
