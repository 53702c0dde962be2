/* Lists of whole numbers in options and files: "0,8,16" or "0..7,16". */
#pragma once
#include <glib.h>

/* Append the numbers in `text`, in order, to `numbers` (of int); each from 0 to `most`. INPUT if it is not such a
 * list, or has more than `longest` numbers. The message calls one of them `noun` ("rank"). */
gboolean number_list_read(const char *text, const char *noun, int most, guint longest, GArray *numbers, GError **error);

/* Ranges of whole numbers in option lists: "4..8" (each), "8..64+8" (every eighth), "8..1024*2" (each twice the one
 * before). */

typedef struct {
  gint64 first, last, step;
  gboolean multiplies; /* by `step`; FALSE: adds `step` */
} NumberRange;

/* Ends are from `least` (with a factor, at least 1) to 2^52, FIRST ≤ LAST; a step is at least 1, a factor at
 * least 2. FALSE: `text` is not such a range. */
gboolean number_range_parse(const char *text, gint64 least, NumberRange *range);
/* The valid forms, for error messages. Static. */
const char *number_range_form(void);
/* Advance *value. FALSE: it was the last. */
gboolean number_range_next(const NumberRange *range, gint64 *value);
