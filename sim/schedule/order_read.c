/* Reads the rows that order_csv.c describes: first all cells into one array with their positions, then checks whether
 * they form an order. Counts are derived from the largest numbers found, and compared with the number of cells before
 * anything of that size is allocated. Whether each stage and micro-batch is complete is checked here; whether the
 * order can run is checked in order_check.c. */
#include "order_read.h"
#include "error.h"
#include <string.h>
#include <sys/stat.h>

enum { MAX_BYTES = 1 << 28 };

typedef struct {
  Action action;
  int row, column; /* from 1; the same for both actions of a pair */
} Cell;

typedef struct {
  const char *file;
  GArray *cells;     /* of Cell, row by row; owned */
  GArray *n_columns; /* of int: cells per row; owned */
  int n_rows;
  gboolean ends_in_crlf;
} Sheet;

static gboolean fail_cell(const Sheet *sheet, const Cell *cell, GError **error, const char *what) {
  g_autoptr(GString) name = g_string_new(NULL);
  action_print(&cell->action, name);
  return fail_input(error, "%s:%d, column %d: %s %s", sheet->file, cell->row, cell->column, name->str, what);
}

static gboolean check_cell(const Sheet *sheet, const Cell *cell, GError **error) {
  const Action *action = &cell->action;
  if (action->kind > ACTION_REDUCE_GRAD)
    return fail_cell(sheet, cell, error, "is an op of a Program, no action of an order");
  if (action->stage < 0)
    return fail_cell(sheet, cell, error, "names no stage; expected one, as 1UNSHARD");
  return action_info(action->kind)->has_micro_batch || action->micro_batch < 0 ||
         fail_cell(sheet, cell, error,
                   "names a micro-batch, but is done for a whole stage; expected none, as 1UNSHARD");
}

static gboolean read_cell(Sheet *sheet, char *text, int column, GError **error) {
  text = g_strstrip(text);
  if (*text == '\0')
    return TRUE;
  Action actions[2];
  int n = action_parse_cell(text, actions, error);
  if (n == 0) {
    g_prefix_error(error, "%s:%d, column %d: ", sheet->file, sheet->n_rows, column);
    return FALSE;
  }
  for (int i = 0; i < n; i++) {
    Cell cell = {actions[i], sheet->n_rows, column};
    if (!check_cell(sheet, &cell, error))
      return FALSE;
    g_array_append_val(sheet->cells, cell);
  }
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
  g_array_append_val(sheet->n_columns, column);
  return sheet->cells->len > n_before ||
         fail_input(error, "%s:%d: no action in this row; expected a row per pipeline rank", sheet->file,
                    sheet->n_rows);
}

static const char byte_order_mark[] = "\xef\xbb\xbf"; /* as spreadsheets write it */

static gboolean read_rows(Sheet *sheet, char *text, gsize length, GError **error) {
  if (memchr(text, '\0', length))
    return fail_input(error, "%s: a binary file; expected rows of actions as 0F0,0F1,0B0", sheet->file);
  char *first = g_str_has_prefix(text, byte_order_mark) ? text + strlen(byte_order_mark) : text;
  for (char *row = first; row < text + length;) {
    char *end = strchr(row, '\n');
    if (end && sheet->n_rows == 0)
      sheet->ends_in_crlf = end > row && end[-1] == '\r';
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

/* What each (stage, micro-batch) has, as bits of its kinds, and which rank each stage is on. */
typedef struct {
  const Sheet *sheet;
  int n_stages, n_micro_batches, n_pipes;
  guint8 *seen;    /* [stage][micro-batch] bits 1 << ActionKind of F I W B; owned */
  int *stage_rank; /* −1 = not seen; owned */
} Census;

static guint8 *seen_of(const Census *census, int stage, int micro_batch) {
  return &census->seen[(gsize)stage * census->n_micro_batches + micro_batch];
}

static gboolean is_compute(const Cell *cell) {
  return action_info(cell->action.kind)->is_compute;
}

static gboolean count_cell(Census *census, const Cell *cell, GError **error) {
  const Action *action = &cell->action;
  guint8 *seen = seen_of(census, action->stage, action->micro_batch);
  guint bit = 1u << action->kind, halves = 1u << ACTION_I | 1u << ACTION_W;
  if (*seen & bit)
    return fail_cell(census->sheet, cell, error, "is there twice");
  if ((bit & halves && *seen & 1u << ACTION_B) || (action->kind == ACTION_B && *seen & halves))
    return fail_cell(
        census->sheet, cell, error,
        "repeats a gradient: a micro-batch has either B, or I and W (PyTorch up to 2.5 wrote BW, or B and W)");
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

/* The kind that a (stage, micro-batch) lacks; NULL: none. */
static const char *missing_kind(guint seen) {
  return !(seen & 1u << ACTION_F)                      ? "F"
         : !(seen & (1u << ACTION_B | 1u << ACTION_I)) ? (seen & 1u << ACTION_W ? "I" : "B")
         : !(seen & (1u << ACTION_B | 1u << ACTION_W)) ? "W"
                                                       : NULL;
}

static gboolean check_complete(const Census *census, GError **error) {
  for (int stage = 0; stage < census->n_stages; stage++)
    for (int micro_batch = 0; micro_batch < census->n_micro_batches; micro_batch++) {
      if (micro_batch_pipe(micro_batch, census->n_micro_batches, census->n_pipes) !=
          stage / (census->n_stages / census->n_pipes))
        continue;
      const char *missing = missing_kind(*seen_of(census, stage, micro_batch));
      if (missing == NULL)
        continue;
      int rank = census->stage_rank[stage];
      g_autofree char *row = rank < 0 ? g_strdup("") : g_strdup_printf(":%d", rank + 1);
      return fail_input(error, "%s%s: %d%s%d is missing; the largest stage is %d, the largest micro-batch %d",
                        census->sheet->file, row, stage, missing, micro_batch, census->n_stages - 1,
                        census->n_micro_batches - 1);
    }
  return TRUE;
}

/* Communication must be on the rank where its stage computes. */
static gboolean check_communication_ranks(const Census *census, GError **error) {
  for (guint i = 0; i < census->sheet->cells->len; i++) {
    const Cell *cell = cell_at(census->sheet, i);
    int rank = census->stage_rank[cell->action.stage];
    if (rank == cell->row - 1)
      continue;
    g_autofree char *what =
        g_strdup_printf("is in the wrong row: stage %d computes in row %d", cell->action.stage, rank + 1);
    return fail_cell(census->sheet, cell, error, what);
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

/* Two pipes: the first half of the micro-batches passes the first half of the stages, the rest the other half, and
 * every rank has two stages. */
static gboolean has_two_pipes(const Sheet *sheet, int n_stages, int n_micro_batches) {
  if (sheet->n_rows < 2 || n_stages != 2 * sheet->n_rows || n_micro_batches < 2)
    return FALSE;
  for (guint i = 0; i < sheet->cells->len; i++) {
    const Cell *cell = cell_at(sheet, i);
    if (is_compute(cell) &&
        micro_batch_pipe(cell->action.micro_batch, n_micro_batches, 2) != cell->action.stage / (n_stages / 2))
      return FALSE;
  }
  return TRUE;
}

/* The largest stage and micro-batch give the counts; if there are too few cells for them, something is missing. */
static gboolean census_size(Census *census, GError **error) {
  const Sheet *sheet = census->sheet;
  const Cell *top_stage = cell_at(sheet, 0), *top_batch = top_stage;
  double n_compute = 0;
  for (guint i = 0; i < sheet->cells->len; i++) {
    const Cell *cell = cell_at(sheet, i);
    if (cell->action.stage > top_stage->action.stage)
      top_stage = cell;
    if (cell->action.micro_batch > top_batch->action.micro_batch)
      top_batch = cell;
    n_compute += is_compute(cell);
  }
  if (top_batch->action.micro_batch < 0)
    return fail_input(error, "%s: no compute action; expected F, and B or I and W, of every stage and micro-batch",
                      sheet->file);
  double most = (top_stage->action.stage + 1.0) * (top_batch->action.micro_batch + 1.0);
  census->n_pipes =
      most <= n_compute && has_two_pipes(sheet, top_stage->action.stage + 1, top_batch->action.micro_batch + 1) ? 2 : 1;
  double least = 2.0 * most / census->n_pipes;
  if (n_compute < least)
    return fail_input(error,
                      "%s: %.0f compute actions, but stages up to %d (line %d, column %d) with micro-batches up to %d "
                      "(line %d, column %d) need at least %.0f: some are missing",
                      sheet->file, n_compute, top_stage->action.stage, top_stage->row, top_stage->column,
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
    if (is_compute(cell_at(census->sheet, i)) && !count_cell(census, cell_at(census->sheet, i), error))
      return FALSE;
  return check_complete(census, error) && check_chunks(census, error) && check_communication_ranks(census, error);
}

static void name_communication(Order *order, ActionKind kind) {
  order->has_send_recv |= kind >= ACTION_SEND_F && kind <= ACTION_RECV_B;
  order->has_unshard |= kind == ACTION_UNSHARD || kind == ACTION_RESHARD;
  order->has_reduce_grad |= kind == ACTION_REDUCE_GRAD;
}

static void add_idle(Order *order, int rank, int n) {
  if (n <= 0)
    return;
  if (order->idle == NULL) {
    order->idle = g_new(GArray *, order->placement->n_ranks);
    for (int r = 0; r < order->placement->n_ranks; r++)
      order->idle[r] = g_array_new(FALSE, FALSE, sizeof(IdleSlots));
  }
  IdleSlots slots = {order->actions[rank]->len, (guint)n};
  g_array_append_val(order->idle[rank], slots);
}

static Order *order_of_census(Census *census) {
  const Sheet *sheet = census->sheet;
  Placement *placement = g_new(Placement, 1);
  *placement = (Placement){.n_ranks = sheet->n_rows,
                           .n_stages = census->n_stages,
                           .n_pipes = census->n_pipes,
                           .stage_rank = g_steal_pointer(&census->stage_rank)};
  Order *order = order_new_empty(placement, census->n_micro_batches);
  order->ends_in_crlf = sheet->ends_in_crlf;
  guint i = 0;
  for (int rank = 0; rank < sheet->n_rows; rank++) {
    int column = 0; /* of the previous cell */
    for (; i < sheet->cells->len && cell_at(sheet, i)->row == rank + 1; i++) {
      const Cell *cell = cell_at(sheet, i);
      add_idle(order, rank, cell->column - column - 1);
      g_array_append_val(order->actions[rank], cell->action);
      name_communication(order, cell->action.kind);
      column = cell->column;
    }
    add_idle(order, rank, g_array_index(sheet->n_columns, int, rank) - column);
  }
  return order;
}

/* The file's text, owned by the caller. Refuses devices, whose text may never end. */
static char *read_text(const char *file, gsize *length, GError **error) {
  g_autoptr(GError) reason = NULL;
  struct stat status = {0};
  char *text = NULL;
  if (file == NULL)
    fail_input(error, "cannot read an order: no file named");
  else if (stat(file, &status) == 0 &&
           (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode) || status.st_size > MAX_BYTES))
    fail_input(error, "%s: a device or larger than 256 MiB, expected rows of actions", file);
  else if (!g_file_get_contents(file, &text, length, &reason))
    fail_input(error, "cannot read an order: %s", reason->message);
  return text;
}

Order *order_read_csv(const char *file, GError **error) {
  gsize length = 0;
  g_autofree char *text = read_text(file, &length, error);
  if (text == NULL)
    return NULL;
  Sheet sheet = {.file = file,
                 .cells = g_array_new(FALSE, FALSE, sizeof(Cell)),
                 .n_columns = g_array_new(FALSE, FALSE, sizeof(int))};
  Census census = {.sheet = &sheet};
  Order *order = NULL;
  if (read_rows(&sheet, text, length, error) && take_census(&census, error))
    order = order_of_census(&census);
  if (order != NULL && !order_check(order, file, error))
    g_clear_pointer(&order, order_free);
  g_array_unref(sheet.cells);
  g_array_unref(sheet.n_columns);
  g_free(census.seen);
  g_free(census.stage_rank);
  return order;
}
