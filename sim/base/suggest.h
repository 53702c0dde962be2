/* Match typed text against the valid names, and suggest the nearest ("did you mean"). */
#pragma once
#include <glib.h>

/* The entry of the NULL-terminated `names` nearest to `typed`, ignoring case, or NULL. In order of preference: the
 * same letters and digits; begins with them; has them as a word of its own ("h100": dgx-h100; the shortest of
 * several); within two edits (insert, delete, replace, swap of neighbours; among equals the one with the nearer
 * capitals); has them anywhere; the longest one that `typed` continues with a punctuation mark; within half the typed
 * length in edits (so that noise suggests nothing). Fewer than three letters and digits are matched by edits only.
 * The result points into `names`. */
const char *suggest_nearest(const char *typed, const char *const *names);

/* Whether `typed` differs from `name` by at most two edits, ignoring case: for long names too few to mean anything
 * else. */
gboolean suggest_is_slip(const char *typed, const char *name);

/* The index of `typed` in the NULL-terminated `names`: an exact match, else the first with the same letters and
 * digits, ignoring case, if both have any (AllToAll, all-to-all and alltoall are all_to_all); −1: none. */
int suggest_same(const char *typed, const char *const *names);

/* "did you mean \"b\" or \"c\"?": the name of suggest_nearest() and others that contain `typed` the same way, four at
 * most, options without quotes. NULL: nothing is near. Owned by the caller. */
char *suggest_question(const char *typed, const char *const *names);

/* "expected one of a, b, c; did you mean \"b\"?" (suggest_question()). Owned by the caller. */
char *suggest_message(const char *typed, const char *const *names);
