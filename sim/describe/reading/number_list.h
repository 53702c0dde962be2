/* Lists of whole numbers as options and files write them: "0,8,16" or "0..7,16". */
#pragma once
#include <glib.h>

/* Append what `text` lists to `numbers` (of int), in its order; each from 0 to `most`. INPUT where it is no such list,
 * or more than `longest` numbers are in it: the message calls one of them `noun` ("rank"). */
gboolean number_list_read(const char *text, const char *noun, int most, guint longest, GArray *numbers, GError **error);
