/* Keys of hash tables that are rows of int64 numbers: a GArray of gint64. */
#pragma once
#include <glib.h>

/* Empty, with room for as many as most have. Owned by the caller. */
GArray *number_key_new(void);
static inline void number_key_add(GArray *key, gint64 number) {
  g_array_append_val(key, number);
}

guint number_key_hash(gconstpointer key);
gboolean number_key_equal(gconstpointer a, gconstpointer b);
