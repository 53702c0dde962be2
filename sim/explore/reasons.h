/* Reasons that differ only in their numbers are one: "tp 3 does not divide 8" and "tp 5 does not divide 8". */
#pragma once
#include <glib.h>

/* `reason` with `placeholder` for each free-standing number: with N, "tp 3 × pp 5" → "tp N × pp N". Names keep their
 * numbers: llama-3-8b. Owned by the caller. */
char *reason_kind(const char *reason, const char *placeholder);

/* Counts of reasons, for one thread. */
GHashTable *reasons_new(void);
/* Count `n` more of a message. */
void reasons_add(GHashTable *reasons, const char *message, gint64 n);

typedef struct {
  char *text; /* the reason, with "…" for numbers that vary; owned */
  gint64 n;
} Reason;
/* `n` counts together: of Reason, most frequent first, ties by text; a message that occurred in one form only is kept
 * verbatim. Owned by the caller. */
GArray *reasons_collect(GHashTable *const *reasons, int n);
