/* What was typed as one of the valid names, and "did you mean": the nearest to it. */
#pragma once
#include <glib.h>

/* The entry of the NULL-terminated `names` nearest to `typed`, case-blind, or NULL: first one with the same
 * letters and digits, then one that begins with them, then one that has them as a word of its own ("h100":
 * dgx-h100; of several such the shortest), then one within two edits (insert, delete, replace, swap of neighbours;
 * of several as near the one with the nearer capitals), then one that has them somewhere, then the longest that
 * `typed` goes on from with a punctuation mark, then one within half the typed length in edits (so that noise
 * suggests nothing). Fewer than three letters and digits tell nothing but by edits. The result points into
 * `names`. */
const char *suggest_nearest(const char *typed, const char *const *names);

/* Whether `typed` is another word than `name`, and at most two edits from it, case-blind: too few to mean another
 * thing where names are long. */
gboolean suggest_is_slip(const char *typed, const char *name);

/* The index of `typed` in the NULL-terminated `names`: of the name itself, else of the first that has the same
 * letters and digits, case-blind, where both have one (AllToAll, all-to-all and alltoall are all_to_all); −1:
 * none. */
int suggest_same(const char *typed, const char *const *names);

/* "did you mean \"b\" or \"c\"?" of suggest_nearest() and what has `typed` as it does, four names at most, options
 * without quotes. NULL: nothing is near. Owned by the caller. */
char *suggest_question(const char *typed, const char *const *names);

/* "expected one of a, b, c; did you mean \"b\"?" (suggest_question()). Owned by the caller. */
char *suggest_message(const char *typed, const char *const *names);
