/* "Did you mean": the valid name nearest to what was typed. */
#pragma once
#include <glib.h>

/* The entry of the NULL-terminated `names` with the smallest edit distance (insert, delete,
 * replace, swap of neighbours; case-blind) to `typed`, or NULL when every distance exceeds half the
 * typed length (so that noise suggests nothing). The result points into `names`. */
const char *suggest_nearest(const char *typed, const char *const *names);

/* "expected one of a, b, c; did you mean \"b\"?" (the question only when something is near).
 * Owned by the caller. */
char *suggest_message(const char *typed, const char *const *names);
