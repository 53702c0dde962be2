/* The words of a shell script, as far as lists of arguments need it: quotes, line continuations, comments, arrays, and
 * variables that the script sets itself to a plain text or gives a default (${TP:-4}). What a variable has of
 * "--options" is words where it is set: nothing is taken twice where it is used. They are none if it is set anew before
 * it is used, or never used where a command has options. Nothing is run. */
#pragma once
#include <glib.h>

typedef struct {
  char *text; /* owned; what is not known stays as it is written, "$1" */
  guint line;
  gboolean ends; /* the last one of a command */
} ShellWord;

/* GArray of ShellWord that owns its texts. Owned by the caller. `notices` gets "name:line: …" of what counts for
 * nothing. */
GArray *shell_words(const char *name, const char *text, GPtrArray *notices);
