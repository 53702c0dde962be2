/* What was typed as one of the valid names, and "did you mean": the nearest to it. */
#pragma once
#include <glib.h>

/* The entry of the NULL-terminated `names` nearest to `typed`, case-blind, or NULL: first one within two edits (insert,
 * delete, replace, swap of neighbours; of several as near the one with the nearer capitals), then the only one that
 * starts with `typed`, then the longest that `typed` goes on from with a punctuation mark, then the only one that has
 * `typed` somewhere, then one within half the typed length in edits (so that noise suggests nothing). The result points
 * into `names`. */
const char *suggest_nearest(const char *typed, const char *const *names);

/* Whether `typed` is another word than `name`, and at most two edits from it, case-blind: too few to mean another thing
 * where names are long. */
gboolean suggest_is_slip(const char *typed, const char *name);

/* The index of `typed` in the NULL-terminated `names`: of the name itself, else of the first that has the same letters
 * and digits, case-blind, where both have one (AllToAll, all-to-all and alltoall are all_to_all); −1: none. */
int suggest_same(const char *typed, const char *const *names);

/* "did you mean \"b\"?" of the nearest; where that is no slip of it, of all names that have what was typed somewhere,
 * if they are two to five: "did you mean \"b\" or \"c\"?". NULL: nothing is near. Owned by the caller. */
char *suggest_question(const char *typed, const char *const *names);

/* "expected one of a, b, c; did you mean \"b\"?" (suggest_question()). Owned by the caller. */
char *suggest_message(const char *typed, const char *const *names);
