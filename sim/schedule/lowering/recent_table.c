#include "recent_table.h"

#include "number_key.h"

typedef struct {
  gpointer value;
  gsize size;
  GDestroyNotify free_value;
} Entry;

struct RecentTable {
  GHashTable *recent; /* key (GArray of gint64) → Entry: used since the last swap; owned */
  GHashTable *older;  /* used only before that; owned */
  gsize size, most;   /* of recent, with its limit */
  GDestroyNotify free_value;
};

static void entry_free(gpointer data) {
  Entry *entry = data;
  entry->free_value(entry->value);
  g_free(entry);
}

static GHashTable *new_half(void) {
  return g_hash_table_new_full(number_key_hash, number_key_equal, (GDestroyNotify)g_array_unref, entry_free);
}

RecentTable *recent_table_new(gsize most, GDestroyNotify free_value) {
  RecentTable *table = g_new(RecentTable, 1);
  *table = (RecentTable){.recent = new_half(), .older = new_half(), .most = most / 2, .free_value = free_value};
  return table;
}

void recent_table_free(RecentTable *table) {
  if (table == NULL)
    return;
  g_hash_table_unref(table->recent);
  g_hash_table_unref(table->older);
  g_free(table);
}

/* Takes ownership of both; the key must be new. */
static void add(RecentTable *table, GArray *key, Entry *entry) {
  if (table->size + entry->size > table->most) {
    g_hash_table_unref(table->older);
    table->older = table->recent;
    table->recent = new_half();
    table->size = 0;
  }
  table->size += entry->size;
  g_hash_table_insert(table->recent, key, entry);
}

static Entry *find(RecentTable *table, const GArray *key) {
  gpointer older_key, older;
  if (g_hash_table_steal_extended(table->older, key, &older_key, &older))
    add(table, older_key, older);
  return g_hash_table_lookup(table->recent, key);
}

gpointer recent_table_find(RecentTable *table, const GArray *key) {
  const Entry *entry = find(table, key);
  return entry != NULL ? entry->value : NULL;
}

void recent_table_add(RecentTable *table, GArray *key, gpointer value, gsize size) {
  const Entry *before = find(table, key);
  if (before != NULL) {
    table->size -= before->size;
    g_hash_table_remove(table->recent, key);
  }
  Entry *entry = g_new(Entry, 1);
  *entry = (Entry){value, size, table->free_value};
  add(table, key, entry);
}
