#include "reasons.h"

#include <string.h>

static gboolean is_word(char c) {
  return g_ascii_isalnum(c) || c == '_' || c == '-';
}

/* Bytes of the number that stands alone at the beginning of `text`, 0 where none does. */
static gsize number_length(const char *text) {
  static const char digits[] = "0123456789";
  gsize n = text[0] == '-';
  if (!g_ascii_isdigit(text[n]))
    return 0;
  n += strspn(text + n, digits);
  if (text[n] == '.' && g_ascii_isdigit(text[n + 1]))
    n += 1 + strspn(text + n + 1, digits);
  if (text[n] == 'e' && (text[n + 1] == '+' || text[n + 1] == '-'))
    n += 2 + strspn(text + n + 2, digits);
  return is_word(text[n]) ? 0 : n;
}

/* Bytes of a word with what points are in it, "v1.2"; of anything else, one. */
static gsize word_length(const char *text) {
  gsize n = 1;
  while ((is_word(text[n - 1]) || text[n - 1] == '.') && (is_word(text[n]) || (text[n] == '.' && is_word(text[n + 1]))))
    n++;
  return n;
}

char *reason_kind(const char *reason, const char *placeholder) {
  GString *kind = g_string_new(NULL);
  while (*reason != '\0') {
    const gsize number = number_length(reason), length = number > 0 ? number : word_length(reason);
    g_string_append_len(kind, number > 0 ? placeholder : reason, number > 0 ? -1 : (gssize)length);
    reason += length;
  }
  return g_string_free(kind, FALSE);
}

/* --- counting --- */

typedef struct {
  gint64 n;
  char *message; /* owned; NULL: there is more than one */
} Kind;

static void kind_free(gpointer data) {
  g_free(((Kind *)data)->message);
  g_free(data);
}

/* char * → Kind *; owns both. */
GHashTable *reasons_new(void) {
  return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, kind_free);
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

void reasons_add(GHashTable *reasons, const char *message, gint64 n) {
  count(reasons, reason_kind(message, "…"), message, n);
}

static void clear(gpointer reason) {
  g_free(((Reason *)reason)->text);
}

static int by_count(gconstpointer a, gconstpointer b) {
  const Reason *x = a, *y = b;
  return x->n != y->n ? (x->n > y->n ? -1 : 1) : strcmp(x->text, y->text);
}

GArray *reasons_collect(GHashTable *const *reasons, int n) {
  g_autoptr(GHashTable) all = reasons_new();
  GHashTableIter at;
  gpointer text, data;
  for (int i = 0; i < n; i++) {
    g_hash_table_iter_init(&at, reasons[i]);
    while (g_hash_table_iter_next(&at, &text, &data))
      count(all, g_strdup(text), ((const Kind *)data)->message, ((const Kind *)data)->n);
  }
  GArray *collected = g_array_new(FALSE, FALSE, sizeof(Reason));
  g_array_set_clear_func(collected, clear);
  g_hash_table_iter_init(&at, all);
  while (g_hash_table_iter_next(&at, &text, &data)) {
    const Kind *kind = data;
    const Reason reason = {g_strdup(kind->message != NULL ? kind->message : text), kind->n};
    g_array_append_val(collected, reason);
  }
  g_array_sort(collected, by_count);
  return collected;
}
