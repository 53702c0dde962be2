/* Orders as PyTorch's pipelining schedules write them (format "compute_only"): a row per pipeline rank, a cell per time
 * slot, an empty cell where the rank idles.
 *
 *     0F0,0F1,,,0B0,0B1
 *     ,1F0,1B0,1F1,1B1
 *
 * Reading keeps all cells in one array with their place, then asks whether they make an order: counts are taken from
 * the largest numbers found, and checked against the number of cells before anything of their size is allocated. */
#include "error.h"
#include "order.h"
#include <string.h>

char *order_to_csv(const Order *order) {
  GString *csv = g_string_new(NULL);
  for (int rank = 0; rank < order->placement->n_ranks; rank++) {
    for (guint i = 0; i < order->actions[rank]->len; i++) {
      if (i > 0)
        g_string_append_c(csv, ',');
      action_print(&g_array_index(order->actions[rank], Action, i), csv);
    }
    g_string_append_c(csv, '\n');
  }
  return g_string_free(csv, FALSE);
}

typedef struct {
  Action action;
  int row, column; /* from 1 */
} Cell;

typedef struct {
  const char *file;
  GArray *cells; /* of Cell, row by row; owned */
  int n_rows;
} Sheet;

static gboolean fail_cell(const Sheet *sheet, const Cell *cell, GError **error, const char *what) {
  g_autoptr(GString) name = g_string_new(NULL);
  action_print(&cell->action, name);
  return fail_input(error, "%s:%d, column %d: %s %s", sheet->file, cell->row, cell->column, name->str, what);
}

static gboolean read_cell(Sheet *sheet, char *text, int column, GError **error) {
  text = g_strstrip(text);
  if (*text == '\0')
    return TRUE;
  Cell cell = {.row = sheet->n_rows, .column = column};
  if (!action_parse(text, &cell.action, error)) {
    g_prefix_error(error, "%s:%d, column %d: ", sheet->file, cell.row, cell.column);
    return FALSE;
  }
  if (!action_info(cell.action.kind)->is_compute)
    return fail_cell(sheet, &cell, error,
                     "is not a compute action: only compute-only orders (F, I, W, B) are read, communication is added "
                     "when the order is lowered");
  g_array_append_val(sheet->cells, cell);
  return TRUE;
}

static gboolean read_row(Sheet *sheet, char *row, GError **error) {
  sheet->n_rows++;
  guint n_before = sheet->cells->len;
  int column = 0;
  for (char *cell = row; cell != NULL;) {
    char *comma = strchr(cell, ',');
    if (comma)
      *comma++ = '\0';
    if (!read_cell(sheet, cell, ++column, error))
      return FALSE;
    cell = comma;
  }
  return sheet->cells->len > n_before ||
         fail_input(error, "%s:%d: no action in this row; expected a row per pipeline rank", sheet->file,
                    sheet->n_rows);
}

static gboolean read_rows(Sheet *sheet, char *text, gsize length, GError **error) {
  if (memchr(text, '\0', length))
    return fail_input(error, "%s: a binary file; expected rows of actions as 0F0,0F1,0B0", sheet->file);
  for (char *row = text; row < text + length;) {
    char *end = strchr(row, '\n');
    if (end)
      *end++ = '\0';
    else
      end = text + length;
    if (!read_row(sheet, row, error))
      return FALSE;
    row = end;
  }
  return sheet->n_rows > 0 || fail_input(error, "%s: empty; expected a row of actions per pipeline rank", sheet->file);
}

static const Cell *cell_at(const Sheet *sheet, guint i) {
  return &g_array_index(sheet->cells, Cell, i);
}

/* What a (stage, micro-batch) has, as bits of its kinds, and where each stage stands. */
typedef struct {
  const Sheet *sheet;
  int n_stages, n_micro_batches;
  guint8 *seen;    /* [stage][micro-batch] bits 1 << ActionKind; owned */
  int *stage_rank; /* −1 = not seen; owned */
} Census;

static guint8 *seen_of(const Census *census, int stage, int micro_batch) {
  return &census->seen[(gsize)stage * census->n_micro_batches + micro_batch];
}

static gboolean count_cell(Census *census, const Cell *cell, GError **error) {
  const Action *action = &cell->action;
  guint8 *seen = seen_of(census, action->stage, action->micro_batch);
  guint bit = 1u << action->kind, halves = 1u << ACTION_I | 1u << ACTION_W;
  if (*seen & bit)
    return fail_cell(census->sheet, cell, error, "is there twice");
  if ((bit & halves && *seen & 1u << ACTION_B) || (action->kind == ACTION_B && *seen & halves))
    return fail_cell(census->sheet, cell, error, "repeats a gradient: a micro-batch has either B, or I and W");
  *seen |= (guint8)bit;
  int rank = cell->row - 1, *known = &census->stage_rank[action->stage];
  if (*known >= 0 && *known != rank) {
    g_autofree char *what =
        g_strdup_printf("puts stage %d on a second rank: row %d has it too", action->stage, *known + 1);
    return fail_cell(census->sheet, cell, error, what);
  }
  *known = rank;
  return TRUE;
}

static gboolean check_complete(const Census *census, GError **error) {
  for (int stage = 0; stage < census->n_stages; stage++)
    for (int micro_batch = 0; micro_batch < census->n_micro_batches; micro_batch++) {
      guint seen = *seen_of(census, stage, micro_batch);
      const char *missing = !(seen & 1u << ACTION_F)                      ? "F"
                            : !(seen & (1u << ACTION_B | 1u << ACTION_I)) ? "B"
                            : !(seen & (1u << ACTION_B | 1u << ACTION_W)) ? "W"
                                                                          : NULL;
      if (missing)
        return fail_input(error, "%s: %d%s%d is missing; the largest stage is %d, the largest micro-batch %d",
                          census->sheet->file, stage, missing, micro_batch, census->n_stages - 1,
                          census->n_micro_batches - 1);
    }
  return TRUE;
}

static gboolean check_chunks(const Census *census, GError **error) {
  int n_ranks = census->sheet->n_rows;
  g_autofree int *n_chunks = g_new0(int, n_ranks);
  for (int stage = 0; stage < census->n_stages; stage++)
    n_chunks[census->stage_rank[stage]]++;
  for (int rank = 1; rank < n_ranks; rank++)
    if (n_chunks[rank] != n_chunks[0])
      return fail_input(error, "%s:%d: %d stages in this row, but %d in the first; expected as many on every rank",
                        census->sheet->file, rank + 1, n_chunks[rank], n_chunks[0]);
  return TRUE;
}

/* Largest stage and micro-batch give the counts; too few cells for them means that something is missing. */
static gboolean census_size(Census *census, GError **error) {
  const Sheet *sheet = census->sheet;
  const Cell *top_stage = cell_at(sheet, 0), *top_batch = top_stage;
  for (guint i = 0; i < sheet->cells->len; i++) {
    const Cell *cell = cell_at(sheet, i);
    if (cell->action.stage > top_stage->action.stage)
      top_stage = cell;
    if (cell->action.micro_batch > top_batch->action.micro_batch)
      top_batch = cell;
  }
  double least = 2.0 * (top_stage->action.stage + 1.0) * (top_batch->action.micro_batch + 1.0);
  if (sheet->cells->len < least)
    return fail_input(error,
                      "%s: %u actions, but stages up to %d (line %d, column %d) with micro-batches up to %d (line %d, "
                      "column %d) need at least %.0f: some are missing",
                      sheet->file, sheet->cells->len, top_stage->action.stage, top_stage->row, top_stage->column,
                      top_batch->action.micro_batch, top_batch->row, top_batch->column, least);
  census->n_stages = top_stage->action.stage + 1;
  census->n_micro_batches = top_batch->action.micro_batch + 1;
  return TRUE;
}

static gboolean take_census(Census *census, GError **error) {
  if (!census_size(census, error))
    return FALSE;
  census->seen = g_new0(guint8, (gsize)census->n_stages * census->n_micro_batches);
  census->stage_rank = g_new(int, census->n_stages);
  for (int stage = 0; stage < census->n_stages; stage++)
    census->stage_rank[stage] = -1;
  for (guint i = 0; i < census->sheet->cells->len; i++)
    if (!count_cell(census, cell_at(census->sheet, i), error))
      return FALSE;
  return check_complete(census, error) && check_chunks(census, error);
}

static Order *order_of_census(Census *census) {
  Placement *placement = g_new(Placement, 1);
  *placement = (Placement){.n_ranks = census->sheet->n_rows,
                           .n_stages = census->n_stages,
                           .n_pipes = 1,
                           .stage_rank = g_steal_pointer(&census->stage_rank)};
  Order *order = order_new_empty(placement, census->n_micro_batches);
  for (guint i = 0; i < census->sheet->cells->len; i++) {
    const Cell *cell = cell_at(census->sheet, i);
    g_array_append_val(order->actions[cell->row - 1], cell->action);
  }
  return order;
}

Order *order_read_csv(const char *file, GError **error) {
  g_autofree char *text = NULL;
  gsize length = 0;
  g_autoptr(GError) reason = NULL;
  if (!file || !g_file_get_contents(file, &text, &length, &reason)) {
    fail_input(error, "cannot read an order: %s", reason ? reason->message : "no file named");
    return NULL;
  }
  Sheet sheet = {.file = file, .cells = g_array_new(FALSE, FALSE, sizeof(Cell))};
  Census census = {.sheet = &sheet};
  Order *order = NULL;
  if (read_rows(&sheet, text, length, error) && take_census(&census, error))
    order = order_of_census(&census);
  g_array_unref(sheet.cells);
  g_free(census.seen);
  g_free(census.stage_rank);
  return order;
}
