/* Optimal string alignment distance: Levenshtein's table with one more edit, the swap of two neighbours. Cell (i, j)
 * is the fewest edits that turn the first i bytes of one word into the first j of the other, so three rows are
 * enough:
 *
 *     d(i, j) = min( d(i−1, j) + 1, d(i, j−1) + 1, d(i−1, j−1) + [a_i ≠ b_j], d(i−2, j−2) + 1 if swapped )
 *
 * A name that begins with the typed text, or has it as a word, is nearer than one that differs by a typo: b200 means
 * b200-sxm-180gb, not gb200.
 *
 * Words whose lengths alone put them out of reach are not compared, so megabytes of noise cost nothing. */
#include "suggest.h"

#include <string.h>

enum { FEW_EDITS = 2 }; /* a typo */

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

/* Of two names equally near ignoring case, the one whose capitals are nearer: GBps suggests GB/s, not Gb/s, an eighth
 * of it. */
static gboolean is_nearer_in_case(const char *typed, const char *name, const char *than) {
  const size_t length = strlen(typed);
  return edit_distance(typed, length, name, strlen(name), as_it_is) <
         edit_distance(typed, length, than, strlen(than), as_it_is);
}

/* The name fewest edits away, if fewer than `bound`; `n_edits` (optional) receives their number. */
static const char *by_edits(const char *typed, const char *const *names, size_t bound, size_t *n_edits) {
  const size_t typed_length = strlen(typed);
  const char *nearest = NULL;
  for (size_t i = 0; names[i] != NULL; i++) {
    const size_t length = strlen(names[i]);
    if (MAX(length, typed_length) - MIN(length, typed_length) > bound)
      continue;
    const size_t distance = edit_distance(typed, typed_length, names[i], length, case_blind);
    if (distance < bound || (distance == bound && nearest != NULL && is_nearer_in_case(typed, names[i], nearest))) {
      bound = distance;
      nearest = names[i];
    }
  }
  if (n_edits != NULL)
    *n_edits = bound;
  return nearest;
}

/* The longest name that `typed` continues with a punctuation mark ("--tp-size": --tp). */
static const char *longest_within(const char *typed, const char *const *names) {
  const size_t typed_length = strlen(typed);
  const char *longest = NULL;
  for (size_t i = 0; names[i] != NULL; i++) {
    const size_t length = strlen(names[i]);
    if (length >= 3 && length < typed_length && g_ascii_strncasecmp(names[i], typed, length) == 0 &&
        g_ascii_ispunct(typed[length]) && (longest == NULL || length > strlen(longest)))
      longest = names[i];
  }
  return longest;
}

/* --- letters and digits only: "llama3" begins "llama-3-8b", and "h100" is a word of "dgx-h100" --- */

/* Skip characters that are neither letters nor digits. */
static const char *next_letter(const char *at) {
  while (*at != '\0' && !g_ascii_isalnum(*at))
    at++;
  return at;
}

typedef enum { HAS_NOT, HAS_INSIDE, HAS_WORD, BEGINS, IS_SAME, N_WAYS } Way; /* later is nearer */

/* Whether the name at `at` continues with the letters and digits of `typed`; *is_end: and ends there. */
static gboolean goes_on_with(const char *at, const char *typed, gboolean *is_end) {
  at = next_letter(at);
  for (typed = next_letter(typed); *typed != '\0'; typed = next_letter(typed + 1)) {
    if (g_ascii_tolower(*at) != g_ascii_tolower(*typed))
      return FALSE;
    at = next_letter(at + 1);
  }
  *is_end = *at == '\0';
  return TRUE;
}

static Way way_of(const char *name, const char *typed) {
  const char *start = next_letter(name);
  gboolean is_end = FALSE;
  if (goes_on_with(start, typed, &is_end))
    return is_end ? IS_SAME : BEGINS;
  Way way = HAS_NOT;
  for (const char *at = start; *at != '\0' && way < HAS_WORD; at++)
    if (g_ascii_isalnum(*at) && goes_on_with(at, typed, &is_end))
      way = g_ascii_isalnum(at[-1]) ? HAS_INSIDE : HAS_WORD;
  return way;
}

enum { MOST_ASKED = 4, LEAST_LETTERS = 3 }; /* names in a question; letters that are enough to compare */

typedef struct {
  const char *names[MOST_ASKED]; /* shortest first; among equals by capitals, then in the list's order */
  int n;                         /* of all candidates, may exceed MOST_ASKED */
} Found;

static gboolean goes_before(const char *typed, const char *name, const char *other) {
  const size_t length = strlen(name), of_other = strlen(other);
  return length < of_other || (length == of_other && is_nearer_in_case(typed, name, other));
}

static void put(Found *found, const char *typed, const char *name) {
  int at = MIN(found->n, MOST_ASKED);
  found->n++;
  while (at > 0 && goes_before(typed, name, found->names[at - 1]))
    at--;
  for (int i = MOST_ASKED - 1; i > at; i--)
    found->names[i] = found->names[i - 1];
  if (at < MOST_ASKED)
    found->names[at] = name;
}

static gboolean has_few_letters(const char *typed) {
  int n = 0;
  for (; *typed != '\0' && n < LEAST_LETTERS; typed++)
    n += g_ascii_isalnum(*typed) ? 1 : 0;
  return n < LEAST_LETTERS;
}

static size_t longest_of(const char *const *names) {
  size_t longest = 0;
  for (size_t i = 0; names[i] != NULL; i++)
    longest = MAX(longest, strlen(names[i]));
  return longest;
}

/* The names that contain the typed text in the nearest way that occurs. */
static Found around(const char *typed, const char *const *names, Way *way) {
  Found found = {0};
  *way = HAS_NOT;
  if (has_few_letters(typed) || strlen(typed) > 2 * longest_of(names))
    return found;
  for (size_t i = 0; names[i] != NULL; i++) {
    const Way of_name = way_of(names[i], typed);
    if (of_name > *way) {
      *way = of_name;
      found.n = 0;
    }
    if (of_name == *way && of_name != HAS_NOT)
      put(&found, typed, names[i]);
  }
  return found;
}

/* Up to MOST_ASKED names that may have been meant, likeliest first. */
static Found meant(const char *typed, const char *const *names) {
  Way way;
  const Found found = around(typed, names, &way);
  const size_t n_letters = strlen(typed) - strspn(typed, "-"); /* all options have the dashes */
  size_t n_edits;
  const char *nearest = by_edits(typed, names, n_letters / 2 + 1, &n_edits);
  if (way >= HAS_WORD)
    return found;
  if (nearest != NULL && n_edits <= FEW_EDITS)
    return (Found){{nearest}, 1};
  if (found.n > 0)
    return found;
  const char *within = longest_within(typed, names);
  nearest = within != NULL ? within : nearest;
  return (Found){{nearest}, nearest != NULL};
}

const char *suggest_nearest(const char *typed, const char *const *names) {
  return typed != NULL && names != NULL ? meant(typed, names).names[0] : NULL;
}

gboolean suggest_is_slip(const char *typed, const char *name) {
  const size_t typed_length = strlen(typed), length = strlen(name);
  if (MAX(typed_length, length) > MIN(typed_length, length) + FEW_EDITS)
    return FALSE;
  const size_t distance = edit_distance(typed, typed_length, name, length, case_blind);
  return distance > 0 && distance <= FEW_EDITS;
}

char *suggest_question(const char *typed, const char *const *names) {
  if (typed == NULL)
    return NULL;
  const Found found = meant(typed, names);
  if (found.n == 0)
    return NULL;
  g_autoptr(GString) question = g_string_new("did you mean ");
  for (int i = 0; i < MIN(found.n, MOST_ASKED); i++) {
    const char *quote = found.names[i][0] == '-' ? "" : "\"";
    g_string_append_printf(question, "%s%s%s%s", i > 0 ? " or " : "", quote, found.names[i], quote);
  }
  g_string_append_c(question, '?');
  return g_string_free(g_steal_pointer(&question), FALSE);
}

char *suggest_message(const char *typed, const char *const *names) {
  g_autofree char *list = g_strjoinv(", ", (char **)names);
  g_autofree char *question = suggest_question(typed, names);
  return g_strdup_printf("expected one of %s%s%s", list, question != NULL ? "; " : "",
                         question != NULL ? question : "");
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
