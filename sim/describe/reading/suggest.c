/* Optimal string alignment distance: Levenshtein's table with one more move, the swap of two neighbours. Cell (i, j) is
 * the fewest edits that turn the first i bytes of one word into the first j of the other, so three rows are enough:
 *
 *     d(i, j) = min( d(i−1, j) + 1, d(i, j−1) + 1, d(i−1, j−1) + [a_i ≠ b_j], d(i−2, j−2) + 1 if swapped )
 *
 * Beyond a few edits a name with the same start is nearer than one with the same letters.
 *
 * A word is never compared when the lengths alone already put it out of reach: megabytes of noise cost nothing. */
#include "suggest.h"

#include <string.h>

enum { FEW_EDITS = 2 }; /* a slip of the fingers; beyond it a common start says more */

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

typedef char (*Fold)(char letter);

static char as_it_is(char letter) {
  return letter;
}

static char case_blind(char letter) {
  return g_ascii_tolower(letter);
}

static size_t edit_distance(const char *a, size_t length_a, const char *b, size_t length_b, Fold fold) {
  g_autofree size_t *rows = g_new(size_t, 3 * (length_b + 1));
  size_t *before = rows, *above = rows + length_b + 1, *row = rows + 2 * (length_b + 1);
  for (size_t j = 0; j <= length_b; j++)
    row[j] = j;
  for (size_t i = 1; i <= length_a; i++) {
    size_t *recycled = before;
    before = above;
    above = row;
    row = recycled;
    row[0] = i;
    for (size_t j = 1; j <= length_b; j++) {
      char x = fold(a[i - 1]), y = fold(b[j - 1]);
      row[j] = least(above[j - 1] + (x != y), least(above[j], row[j - 1]) + 1);
      if (i > 1 && j > 1 && x == fold(b[j - 2]) && y == fold(a[i - 2]))
        row[j] = least(row[j], before[j - 2] + 1);
    }
  }
  return row[length_b];
}

/* The only name that begins with what was typed ("sim": simulate), else the longest one that what was typed goes on
 * from ("--tp-size": --tp). */
static const char *nearest_by_start(const char *typed, size_t typed_length, const char *const *names) {
  const char *longer = NULL, *shorter = NULL;
  int n_longer = 0;
  for (size_t i = 0; names[i] != NULL; i++) {
    size_t length = strlen(names[i]);
    if (typed_length >= 3 && g_ascii_strncasecmp(names[i], typed, typed_length) == 0) {
      longer = names[i];
      n_longer++;
    }
    if (length >= 3 && length < typed_length && g_ascii_strncasecmp(names[i], typed, length) == 0 &&
        g_ascii_ispunct(typed[length]) && (shorter == NULL || length > strlen(shorter)))
      shorter = names[i];
  }
  return n_longer == 1 ? longer : shorter;
}

/* The only name that has what was typed somewhere ("fsdp": pytorch-fsdp). */
static const char *only_around(const char *typed, const char *const *names) {
  const char *around = NULL;
  for (size_t i = 0; names[i] != NULL; i++) {
    if (strstr(names[i], typed) == NULL)
      continue;
    if (around != NULL)
      return NULL;
    around = names[i];
  }
  return around;
}

/* Of two names as near case-blind the one whose capitals are nearer: GB/s of GBps, which Gb/s would be an eighth of. */
static gboolean is_nearer_in_case(const char *typed, const char *name, const char *than) {
  const size_t length = strlen(typed);
  return edit_distance(typed, length, name, strlen(name), as_it_is) <
         edit_distance(typed, length, than, strlen(than), as_it_is);
}

const char *suggest_nearest(const char *typed, const char *const *names) {
  if (typed == NULL || names == NULL)
    return NULL;
  size_t typed_length = strlen(typed);
  const char *nearest = NULL;
  const size_t n_dashes = strspn(typed, "-"); /* which all options have */
  size_t nearest_distance = (typed_length - n_dashes) / 2 + 1;
  for (size_t i = 0; names[i] != NULL; i++) {
    size_t length = strlen(names[i]);
    size_t gap = length > typed_length ? length - typed_length : typed_length - length;
    if (gap > nearest_distance)
      continue;
    size_t distance = edit_distance(typed, typed_length, names[i], length, case_blind);
    if (distance < nearest_distance ||
        (distance == nearest_distance && nearest != NULL && is_nearer_in_case(typed, names[i], nearest))) {
      nearest_distance = distance;
      nearest = names[i];
    }
  }
  if (nearest != NULL && nearest_distance <= FEW_EDITS)
    return nearest;
  const char *by_start = nearest_by_start(typed, typed_length, names);
  const char *around = by_start == NULL && typed_length >= n_dashes + 3 ? only_around(typed + n_dashes, names) : NULL;
  return by_start != NULL ? by_start : around != NULL ? around : nearest;
}

gboolean suggest_is_slip(const char *typed, const char *name) {
  const size_t typed_length = strlen(typed), length = strlen(name);
  if (MAX(typed_length, length) > MIN(typed_length, length) + FEW_EDITS)
    return FALSE;
  const size_t distance = edit_distance(typed, typed_length, name, length, case_blind);
  return distance > 0 && distance <= FEW_EDITS;
}

enum { MOST_AROUND = 5 }; /* names that a question asks for; more are no help */

/* "a" or "b": the names that have `typed` somewhere, case-blind, where they are two or a few; else NULL. */
static char *few_around(const char *typed, const char *const *names) {
  if (typed == NULL || strlen(typed) < 3)
    return NULL;
  g_autofree char *part = g_ascii_strdown(typed, -1);
  g_autoptr(GString) few = g_string_new(NULL);
  int n = 0;
  for (size_t i = 0; names[i] != NULL; i++) {
    g_autofree char *name = g_ascii_strdown(names[i], -1);
    if (strstr(name, part) != NULL)
      g_string_append_printf(few, "%s\"%s\"", n++ > 0 ? " or " : "", names[i]);
  }
  return n >= 2 && n <= MOST_AROUND ? g_string_free(g_steal_pointer(&few), FALSE) : NULL;
}

char *suggest_question(const char *typed, const char *const *names) {
  g_autofree char *few = few_around(typed, names);
  const char *nearest = suggest_nearest(typed, names);
  if (few != NULL && (nearest == NULL || !suggest_is_slip(typed, nearest)))
    return g_strdup_printf("did you mean %s?", few);
  return nearest != NULL ? g_strdup_printf("did you mean \"%s\"?", nearest) : NULL;
}

char *suggest_message(const char *typed, const char *const *names) {
  g_autofree char *list = g_strjoinv(", ", (char **)names);
  g_autofree char *question = suggest_question(typed, names);
  return g_strdup_printf("expected one of %s%s%s", list, question != NULL ? "; " : "",
                         question != NULL ? question : "");
}

/* Past what is neither letter nor digit. */
static const char *next_letter(const char *at) {
  while (*at != '\0' && !g_ascii_isalnum(*at))
    at++;
  return at;
}

static gboolean has_same_letters(const char *a, const char *b) {
  a = next_letter(a);
  b = next_letter(b);
  gboolean has_any = FALSE;
  while (*a != '\0' && g_ascii_tolower(*a) == g_ascii_tolower(*b)) {
    has_any = TRUE;
    a = next_letter(a + 1);
    b = next_letter(b + 1);
  }
  return has_any && *a == *b;
}

int suggest_same(const char *typed, const char *const *names) {
  if (typed == NULL)
    return -1;
  int same = -1;
  for (int i = 0; names[i] != NULL; i++) {
    if (strcmp(typed, names[i]) == 0)
      return i;
    if (same < 0 && has_same_letters(typed, names[i]))
      same = i;
  }
  return same;
}
