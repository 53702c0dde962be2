/* The part of TOML 1.0 that configurations are written in: tables, keys bare, quoted and dotted, strings of one line,
 * whole and real numbers, truth values, lists of these, also nested, and tables in braces. Refused with what they are:
 * lists of tables, strings of several lines, dates. (No C library for TOML is in Debian.) */
#pragma once
#include <glib.h>

/* `text`: strings without quotes; true and false; numbers without _, and in tens; a list's items joined by commas,
 * those of a list in it by semicolons. */
typedef void (*TomlVisit)(const char *key, const char *text, guint line, gpointer data);

/* Each value, with its key as "section.key". INPUT with name:line. */
gboolean toml_read(const char *name, const char *text, TomlVisit visit, gpointer data, GError **error);
