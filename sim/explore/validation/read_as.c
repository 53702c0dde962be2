#include "read_as.h"

#include <string.h>

#include "row_notes.h"

static void read_as_clear(gpointer data) {
  g_free(((ReadAs *)data)->framework);
}

static ReadAs *find(GArray *counted, const char *framework, const char *read_as) {
  for (guint i = 0; i < counted->len; i++) {
    ReadAs *known = &g_array_index(counted, ReadAs, i);
    if (strcmp(known->framework, framework) == 0 && strcmp(known->read_as, read_as) == 0)
      return known;
  }
  return NULL;
}

GArray *read_as_count(const MeasuredRows *rows) {
  GArray *counted = g_array_new(FALSE, FALSE, sizeof(ReadAs));
  g_array_set_clear_func(counted, read_as_clear);
  for (guint i = 0; i < rows->rows->len; i++) {
    const MeasuredRow *row = &g_array_index(rows->rows, MeasuredRow, i);
    if (!row->is_by_release)
      continue;
    g_autofree char *framework =
        row_notes_framework(measured_row_cell(row, "notes"), measured_row_cell(row, "framework"));
    ReadAs *known = find(counted, framework, row->read_as);
    if (known != NULL) {
      known->n_rows++;
      continue;
    }
    const ReadAs first = {g_steal_pointer(&framework), row->read_as, 1};
    g_array_append_val(counted, first);
  }
  return counted;
}
