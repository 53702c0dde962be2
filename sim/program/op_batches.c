#include "op_batches.h"
#include <string.h>

/* Batch → index of its first op + 1, for the ops before `end`. */
static GHashTable *batches_before(const OpList *list, const gint32 *first, gint32 end) {
  GHashTable *batches = g_hash_table_new(NULL, NULL);
  for (gint32 i = 0; i < end; i++)
    if (first[i] == i)
      g_hash_table_insert(batches, GINT_TO_POINTER(list->ops[i].batch), GINT_TO_POINTER(i + 1));
  return batches;
}

/* A batch's ops are normally adjacent and batches are numbered in ascending order. A hand-written Program may break
 * this; then the batches seen so far go into a hash table. */
gint32 *op_list_batches(const OpList *list) {
  gint32 *first = NULL, highest = -1;
  g_autoptr(GHashTable) batches = NULL;
  for (gint32 i = 0; i < list->n_ops; i++) {
    const gint32 batch = list->ops[i].batch;
    if (batch < 0)
      continue;
    if (first == NULL) {
      first = g_new(gint32, list->n_ops);
      memset(first, 0xff, sizeof *first * (gsize)list->n_ops);
    }
    first[i] = i;
    if (i > 0 && list->ops[i - 1].batch == batch)
      first[i] = first[i - 1];
    else if (batch <= highest && batches == NULL)
      batches = batches_before(list, first, i);
    if (batches != NULL && first[i] == i) {
      const gint32 found = GPOINTER_TO_INT(g_hash_table_lookup(batches, GINT_TO_POINTER(batch)));
      first[i] = found > 0 ? found - 1 : i;
      g_hash_table_insert(batches, GINT_TO_POINTER(batch), GINT_TO_POINTER(first[i] + 1));
    }
    highest = MAX(highest, batch);
  }
  return first;
}
