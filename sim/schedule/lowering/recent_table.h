/* Recently used values under number keys (number_key.h), kept in two halves. When the newer half is full, the older
 * one is freed, except for values used since. The latest value is always kept, however large. */
#pragma once
#include <glib.h>

typedef struct RecentTable RecentTable;
/* Keeps values of at most `most` total size; evicted ones are passed to `free_value`. */
RecentTable *recent_table_new(gsize most, GDestroyNotify free_value);
void recent_table_free(RecentTable *table);

/* NULL: none, or no longer kept. */
gpointer recent_table_find(RecentTable *table, const GArray *key);
/* Takes ownership of key and value; replaces a value under the same key. */
void recent_table_add(RecentTable *table, GArray *key, gpointer value, gsize size);
