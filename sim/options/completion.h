/* What may stand where the cursor is, for the completion of shells (sim/options/shell): from the rows that --help
 * prints, and the names of what is shipped. */
#pragma once
#include <glib.h>

/* Options whose values name what is shipped: <data>/<subdir>/<name><suffix>. */
typedef struct {
  const char *option, *subdir, *suffix;
} Shipped;
enum { N_SHIPPED = 4 };
extern const Shipped shipped[N_SHIPPED];

/* The entry named by the first `length` bytes of `name`; NULL: none. */
const GOptionEntry *completion_entry(const GOptionEntry *entries, const char *name, gsize length);

/* What a verb takes; borrowed. */
typedef struct {
  const GOptionEntry *entries; /* ends with a NULL long_name */
  const char *words;           /* as in its usage: "FIGURE [FILE]"; NULL: none */
  const char *texts[2]; /* where lists of words are explained, below "Figures:" or "--without …:"; may be NULL */
} Completed;

/* Candidates for the last of n words behind the verb, one a line, with a tab and what it means; a line ":files", a tab
 * and a text: what begins with this text may go on as a path. Owned by the caller. */
char *completion_of(const Completed *verb, int n, char **words);
/* Add a candidate, if it begins with what was typed. */
gboolean completion_offer(GString *text, const char *typed, const char *head, const char *name, const char *meaning);
