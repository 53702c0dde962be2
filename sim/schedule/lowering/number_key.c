#include "number_key.h"

#include <string.h>

GArray *number_key_new(void) {
  return g_array_sized_new(FALSE, FALSE, sizeof(gint64), 512);
}

guint number_key_hash(gconstpointer data) {
  const GArray *key = data;
  guint64 hash = key->len;
  for (guint i = 0; i < key->len; i++) {
    hash = (hash ^ (guint64)g_array_index(key, gint64, i)) * 0x9E3779B97F4A7C15u; /* 2⁶⁴ / golden ratio */
    hash ^= hash >> 32;
  }
  return (guint)hash;
}

gboolean number_key_equal(gconstpointer a, gconstpointer b) {
  const GArray *x = a, *y = b;
  return x->len == y->len && memcmp(x->data, y->data, x->len * sizeof(gint64)) == 0;
}
