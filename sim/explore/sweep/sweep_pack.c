/* A row as bytes: index and status, kind and reason, then each cell as its type and its value. Texts have their length
 * before them, −1 for none. */
#include <string.h>

#include "sweep_row.h"

enum { NO_TEXT = -1 };

static void pack_text(GByteArray *bytes, const char *text) {
  const gint64 length = text != NULL ? (gint64)strlen(text) : NO_TEXT;
  g_byte_array_append(bytes, (const guint8 *)&length, sizeof length);
  if (text != NULL)
    g_byte_array_append(bytes, (const guint8 *)text, (guint)length);
}

void sweep_row_pack(const SweepRow *row, const SweepTable *table, GByteArray *bytes) {
  const gint64 head[] = {row->index, row->status};
  g_byte_array_append(bytes, (const guint8 *)head, sizeof head);
  pack_text(bytes, row->kind);
  pack_text(bytes, row->reason);
  for (guint i = 0; i < (guint)sweep_table_n_columns(table); i++) {
    const Cell *cell = &row->cells[i];
    const guint8 type = (guint8)cell->type;
    g_byte_array_append(bytes, &type, 1);
    if (cell->type == CELL_WHOLE)
      g_byte_array_append(bytes, (const guint8 *)&cell->whole, sizeof cell->whole);
    else if (cell->type == CELL_REAL)
      g_byte_array_append(bytes, (const guint8 *)&cell->real, sizeof cell->real);
    else if (cell->type == CELL_TEXT)
      pack_text(bytes, cell->text);
  }
}

typedef struct {
  const guint8 *bytes;
  gsize n, at;
} Packed;

static gboolean take(Packed *packed, gpointer target, gsize n) {
  if (n > packed->n - packed->at)
    return FALSE;
  memcpy(target, packed->bytes + packed->at, n);
  packed->at += n;
  return TRUE;
}

static gboolean take_text(Packed *packed, char **text) {
  gint64 length;
  if (!take(packed, &length, sizeof length) || length < NO_TEXT || length > (gint64)(packed->n - packed->at))
    return FALSE;
  *text = length == NO_TEXT ? NULL : g_strndup((const char *)packed->bytes + packed->at, (gsize)length);
  packed->at += (gsize)MAX(length, 0);
  return TRUE;
}

static gboolean take_cell(Packed *packed, Cell *cell) {
  guint8 type;
  if (!take(packed, &type, 1) || type > CELL_TEXT)
    return FALSE;
  cell->type = (CellType)type;
  if (type == CELL_WHOLE)
    return take(packed, &cell->whole, sizeof cell->whole);
  if (type == CELL_REAL)
    return take(packed, &cell->real, sizeof cell->real);
  return type == CELL_NONE || take_text(packed, &cell->text);
}

gboolean sweep_row_unpack(SweepRow *row, const SweepTable *table, const guint8 *bytes, gsize n_bytes, gsize *at) {
  Packed packed = {bytes, n_bytes, *at};
  gint64 head[2];
  if (!take(&packed, head, sizeof head) || head[1] < 0 || head[1] >= N_SWEEP_STATUSES)
    return FALSE;
  sweep_row_init(row, table, head[0]);
  row->status = (SweepStatus)head[1];
  gboolean ok = take_text(&packed, &row->kind) && take_text(&packed, &row->reason);
  for (guint i = 0; ok && i < (guint)sweep_table_n_columns(table); i++)
    ok = take_cell(&packed, &row->cells[i]);
  if (!ok)
    sweep_row_clear(row, table);
  *at = packed.at;
  return ok;
}
