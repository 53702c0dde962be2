/* Hash table keys that are sequences of int64 numbers: a GArray of gint64. */
#pragma once
#include <glib.h>

/* Empty, with enough room for most keys. Owned by the caller. */
GArray *number_key_new(void);
static inline void number_key_add(GArray *key, gint64 number) {
  g_array_append_val(key, number);
}

guint number_key_hash(gconstpointer key);
gboolean number_key_equal(gconstpointer a, gconstpointer b);
