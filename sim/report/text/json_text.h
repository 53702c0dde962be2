/* JSON written by hand, for files too large to build as a tree first. */
#pragma once
#include <glib.h>

/* Append `text` as a JSON string, quotes included. NULL becomes "". Bytes that are not UTF-8 become U+FFFD. */
void json_append_string(GString *out, const char *text);
/* Append a number with ten significant digits and a decimal point in any locale; non-finite: null. */
void json_append_number(GString *out, double value);
