/* Values under number keys (number_key.h), those used of late: in two halves. When one is full the other is let go, but
 * for what has been used since it was. The latest value stays, however large. */
#pragma once
#include <glib.h>

typedef struct RecentTable RecentTable;
/* Keeps values of so much size in all, which are given back to `free_value`. */
RecentTable *recent_table_new(gsize most, GDestroyNotify free_value);
void recent_table_free(RecentTable *table);

/* NULL: there is none, or not any more. */
gpointer recent_table_find(RecentTable *table, const GArray *key);
/* Takes over key and value; one of the same key goes. */
void recent_table_add(RecentTable *table, GArray *key, gpointer value, gsize size);
