/* Lists of whole numbers in options and files: "0,8,16" or "0..7,16". */
#pragma once
#include <glib.h>

/* Append the numbers in `text`, in order, to `numbers` (of int); each from 0 to `most`. INPUT if it is not such a
 * list, or has more than `longest` numbers. The message calls one of them `noun` ("rank"). */
gboolean number_list_read(const char *text, const char *noun, int most, guint longest, GArray *numbers, GError **error);
