/* A duplicate key is found once the rows are sorted, because equal keys are then neighbours. The sort is stable, so
 * the later line is the one at fault. */
#include "yaml_rows.h"

enum { MAX_ROWS = 1 << 16 }; /* the file's limit of nodes is reached before this */

static gboolean check_distinct(const GArray *rows, const YamlRowType *type, GError **error) {
  for (guint i = 1; i < rows->len; i++) {
    const char *row = rows->data + (gsize)i * type->size, *before = row - type->size;
    if (type->compare(before, row) == 0)
      return yaml_fail(*(const YamlNode *)row, error, "the same was measured twice, first in line %d",
                       yaml_line(*(const YamlNode *)before));
  }
  return TRUE;
}

GArray *yaml_rows_read(YamlNode list, const YamlRowType *type, GError **error) {
  int n_rows = yaml_list_length(list, MAX_ROWS, error);
  if (n_rows < 0)
    return NULL;
  g_autoptr(GArray) rows = g_array_sized_new(FALSE, FALSE, type->size, (guint)n_rows);
  g_array_set_clear_func(rows, type->clear);
  for (YamlNode item = yaml_list_item(list, 0); yaml_is_present(item); item = yaml_list_next(item)) {
    g_array_append_vals(rows, type->blank, 1);
    char *row = rows->data + (gsize)(rows->len - 1) * type->size;
    *(YamlNode *)row = item;
    if (!yaml_map_read(item, type->fields, type->n_fields, row, error))
      return NULL;
  }
  g_array_sort(rows, type->compare);
  return check_distinct(rows, type, error) ? g_steal_pointer(&rows) : NULL;
}

int yaml_rows_compare(const gint64 *a, const gint64 *b, int n) {
  int i = 0;
  while (i < n - 1 && a[i] == b[i])
    i++;
  return (a[i] > b[i]) - (a[i] < b[i]);
}
