/* Two predictions beside each other, as `simulate --json` prints them: what differs in their plans, what that costs,
 * and where the time went. What A takes longer than B in all parts of the step is what its step takes longer. */
#pragma once
#include <json-glib/json-glib.h>

#include "metrics.h"

typedef struct {
  const char *name; /* what the user calls it; borrowed */
  JsonNode *node;   /* owned */
  JsonObject *root; /* borrowed from it, as are the next */
  JsonObject *plan; /* every option as it came out */
  const char *model, *cluster;
  double breakdown_s[N_BREAKDOWN];
} Result;

/* `name` is borrowed. INPUT, naming it and the key, for an object that is no result. */
gboolean result_take(Result *result, const char *name, JsonNode *node, GError **error);
void result_clear(Result *result);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Result, result_clear)
/* Whether it fits in memory, host's and drives' included. */
gboolean result_fits(const Result *result);

void result_diff_text(GString *out, const Result *a, const Result *b);
/* One object and a newline; owned by the caller. */
char *result_diff_json(const Result *a, const Result *b);
