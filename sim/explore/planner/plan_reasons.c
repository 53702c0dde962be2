#include "plan_reasons.h"

#include <string.h>

#include "reason_kind.h"

/* Messages that differ in numbers alone. */
typedef struct {
  gint64 n;
  char *message; /* owned; NULL: there is more than one */
} Kind;

struct PlanReasons {
  GHashTable *kinds; /* char * → Kind *; owned */
};

static void kind_free(gpointer data) {
  Kind *kind = data;
  g_free(kind->message);
  g_free(kind);
}

PlanReasons *plan_reasons_new(void) {
  PlanReasons *reasons = g_new(PlanReasons, 1);
  reasons->kinds = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, kind_free);
  return reasons;
}

void plan_reasons_free(PlanReasons *reasons) {
  if (reasons == NULL)
    return;
  g_hash_table_unref(reasons->kinds);
  g_free(reasons);
}

/* Takes over `text`; `message` NULL: more than one. */
static void count(GHashTable *kinds, char *text, const char *message, gint64 n) {
  Kind *kind = g_hash_table_lookup(kinds, text);
  if (kind == NULL) {
    kind = g_new0(Kind, 1);
    kind->message = g_strdup(message);
    g_hash_table_insert(kinds, text, kind);
  } else {
    g_free(text);
  }
  if (g_strcmp0(kind->message, message) != 0)
    g_clear_pointer(&kind->message, g_free);
  kind->n += n;
}

void plan_reasons_add(PlanReasons *reasons, const char *message, gint64 n) {
  count(reasons->kinds, reason_kind(message, "…"), message, n);
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
  gpointer text, data;
  for (int i = 0; i < n; i++) {
    g_hash_table_iter_init(&at, reasons[i]->kinds);
    while (g_hash_table_iter_next(&at, &text, &data)) {
      const Kind *kind = data;
      count(all->kinds, g_strdup(text), kind->message, kind->n);
    }
  }
  GArray *collected = g_array_new(FALSE, FALSE, sizeof(PlannerReason));
  g_array_set_clear_func(collected, clear);
  g_hash_table_iter_init(&at, all->kinds);
  while (g_hash_table_iter_next(&at, &text, &data)) {
    const Kind *kind = data;
    PlannerReason reason = {g_strdup(kind->message != NULL ? kind->message : text), kind->n};
    g_array_append_val(collected, reason);
  }
  g_array_sort(collected, by_count);
  return collected;
}
