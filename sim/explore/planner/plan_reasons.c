#include "plan_reasons.h"

#include <string.h>

#include "reason_kind.h"

struct PlanReasons {
  GHashTable *counts; /* char * → gint64 *; owned */
};

PlanReasons *plan_reasons_new(void) {
  PlanReasons *reasons = g_new(PlanReasons, 1);
  reasons->counts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  return reasons;
}

void plan_reasons_free(PlanReasons *reasons) {
  if (reasons == NULL)
    return;
  g_hash_table_unref(reasons->counts);
  g_free(reasons);
}

/* Takes over `text`. */
static void count(GHashTable *counts, char *text, gint64 n) {
  gint64 *counted = g_hash_table_lookup(counts, text);
  if (counted == NULL) {
    counted = g_new0(gint64, 1);
    g_hash_table_insert(counts, text, counted);
  } else {
    g_free(text);
  }
  *counted += n;
}

void plan_reasons_add(PlanReasons *reasons, const char *message, gint64 n) {
  count(reasons->counts, reason_kind(message, "…"), n);
}

static void clear(gpointer reason) {
  g_free(((PlannerReason *)reason)->text);
}

static int by_count(gconstpointer a, gconstpointer b) {
  const PlannerReason *x = a, *y = b;
  return x->n != y->n ? (x->n > y->n ? -1 : 1) : strcmp(x->text, y->text);
}

GArray *plan_reasons_collect(PlanReasons *const *reasons, int n) {
  g_autoptr(PlanReasons) all = plan_reasons_new();
  GHashTableIter at;
  gpointer text, counted;
  for (int i = 0; i < n; i++) {
    g_hash_table_iter_init(&at, reasons[i]->counts);
    while (g_hash_table_iter_next(&at, &text, &counted))
      count(all->counts, g_strdup(text), *(gint64 *)counted);
  }
  GArray *collected = g_array_new(FALSE, FALSE, sizeof(PlannerReason));
  g_array_set_clear_func(collected, clear);
  g_hash_table_iter_init(&at, all->counts);
  while (g_hash_table_iter_next(&at, &text, &counted)) {
    PlannerReason reason = {g_strdup(text), *(gint64 *)counted};
    g_array_append_val(collected, reason);
  }
  g_array_sort(collected, by_count);
  return collected;
}
