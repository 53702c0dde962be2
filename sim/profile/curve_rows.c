#include "curve_rows.h"

gint curve_rows_compare(gconstpointer a, gconstpointer b) {
  const CurveRow *x = a, *y = b;
  const int by_name = g_strcmp0(x->curve, y->curve);
  return by_name != 0 ? by_name
                      : (x->point.size_bytes > y->point.size_bytes) - (x->point.size_bytes < y->point.size_bytes);
}

void curve_rows_keep_growing(GArray *rows) {
  g_array_sort(rows, curve_rows_compare);
  guint n = 0;
  for (guint i = 0; i < rows->len; i++) {
    const CurveRow row = g_array_index(rows, CurveRow, i);
    gboolean counts = TRUE;
    while (counts && n > 0) {
      const CurveRow *last = &g_array_index(rows, CurveRow, n - 1);
      if (last->curve != row.curve ||
          (last->point.time_s < row.point.time_s && last->point.size_bytes < row.point.size_bytes))
        break;
      counts = row.n >= last->n;
      n -= counts ? 1 : 0;
    }
    if (counts)
      g_array_index(rows, CurveRow, n++) = row;
  }
  g_array_set_size(rows, n);
}
