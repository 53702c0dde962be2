/* Each row is first filled as an array of columns, each holding the box that takes most of its time; runs of one box
 * then become text.
 *
 *     columns  0 0 . 1 1 1        rows   |F0.B0-|
 *     boxes    F0  idle  B0
 *
 * Exact grid: with g the greatest common divisor of all starts and ends, every box covers whole multiples of g, so g is
 * drawn as k ≥ 1 columns when end/g · k fits, and nothing is lost. What does not fit is broken into strips below each
 * other, as text is into lines, unless that makes more rows than a screen has; columns are then the grid's, or as wide
 * as the shortest box, which cannot vanish. A box cut by the end of a strip goes on in the next without a label:
 *
 *     0 |F0F1....B0|
 *     1 |..F0B0--F1|
 *        0
 *     0 |--..B1--|
 *     1 |B1--....|
 *        5      s */
#include "draw.h"

#include "trace.h"
#include <math.h>
#include <string.h>

enum { MIN_WIDTH = 40, MAX_WIDTH = 10000, N_SHADES = 4, IDLE = -1 };
enum { MOST_STRIPS = 8, ROWS_OF_SCREEN = 64 };

typedef struct {
  gint64 start_ns, end_ns;
  gint32 micro_batch, step;
  int chunk;
  guint8 action; /* ActionKind */
} Box;

typedef struct {
  PipelineRows rows;
  GArray **boxes; /* [rows] of Box, in time order */
  gint64 end_ns;
  gint64 grid_ns;     /* greatest common divisor of all times; 0 when there are none */
  gint64 shortest_ns; /* box */
  int n_digits;       /* of the largest micro-batch */
  int label_width;    /* columns */
  int n_columns;      /* of all strips */
  int strip_columns;  /* of each but the last, which may be shorter */
  gboolean colour;
  gboolean numbers; /* colour: boxes are at least a column wide, so digits say more than letters */
  gboolean present[N_ACTIONS];
} Drawing;

/* Colours are indices of the 256-colour palette. */
enum { LIGHT, DARK };
static const guint8 text_colours[][2] = {
    [LIGHT] = {231, 222}, /* of even and odd micro-batches: neighbours without a gap are told apart by it */
    [DARK] = {16, 19},
};

/* Background by chunk, strongest first, and the text that can be read on it. */
typedef struct {
  const char *meaning;
  guint8 background[N_SHADES], text[N_SHADES];
} Look;
static const Look looks[N_ACTIONS] = {
    [ACTION_F] = {"forward", {25, 32, 74, 117}, {LIGHT, LIGHT, DARK, DARK}},
    [ACTION_I] = {"input gradient", {30, 37, 80, 123}, {LIGHT, DARK, DARK, DARK}},
    [ACTION_W] = {"weight gradient", {172, 178, 222, 229}, {DARK, DARK, DARK, DARK}},
    [ACTION_B] = {"backward", {28, 70, 113, 157}, {LIGHT, DARK, DARK, DARK}},
    [ACTION_OPTIMIZER] = {"optimizer", {124, 124, 124, 124}, {LIGHT, LIGHT, LIGHT, LIGHT}},
};

/* --- boxes ------------------------------------------------------------------------------------------------------- */

static gint64 gcd(gint64 a, gint64 b) {
  while (b != 0) {
    gint64 rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static gboolean same_box(const Box *a, const Box *b) {
  return a->action == b->action && a->micro_batch == b->micro_batch && a->chunk == b->chunk && a->step == b->step;
}

/* A pass cut into layers without a gap is one box. */
static void add_box(GArray *boxes, const Box *box) {
  Box *last = boxes->len ? &g_array_index(boxes, Box, boxes->len - 1) : NULL;
  if (last && last->end_ns == box->start_ns && same_box(last, box))
    last->end_ns = box->end_ns;
  else
    g_array_append_vals(boxes, box, 1);
}

static GArray *row_boxes(const Trace *trace, const PipelineRows *rows, int row) {
  GArray *boxes = g_array_new(FALSE, FALSE, sizeof(Box));
  int rank = rows->recorded[row];
  if (rank < 0)
    return boxes;
  const OpList *list = trace_list(trace, rank);
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    gsize record = trace->first[rank] + (gsize)i;
    if (op->kind != OP_COMPUTE || !looks[op->action].meaning || trace->start_ns[record] < 0 ||
        trace->end_ns[record] <= trace->start_ns[record])
      continue;
    Box box = {.start_ns = trace->start_ns[record],
               .end_ns = trace->end_ns[record],
               .micro_batch = op->micro_batch,
               .step = op->step,
               .chunk = pipeline_rows_chunk(rows, row, op->stage),
               .action = op->action};
    add_box(boxes, &box);
  }
  return boxes;
}

static void measure_boxes(Drawing *drawing) {
  gint32 last_micro_batch = 0;
  for (int row = 0; row < drawing->rows.n_rows; row++) {
    for (guint i = 0; i < drawing->boxes[row]->len; i++) {
      const Box *box = &g_array_index(drawing->boxes[row], Box, i);
      drawing->end_ns = MAX(drawing->end_ns, box->end_ns);
      drawing->grid_ns = gcd(gcd(drawing->grid_ns, box->start_ns), box->end_ns);
      drawing->shortest_ns = MIN(drawing->shortest_ns, box->end_ns - box->start_ns);
      drawing->present[box->action] = TRUE;
      last_micro_batch = MAX(last_micro_batch, box->micro_batch);
    }
  }
  drawing->n_digits = 1;
  for (; last_micro_batch >= 10; last_micro_batch /= 10)
    drawing->n_digits++;
}

/* --- columns ----------------------------------------------------------------------------------------------------- */

/* The exact grid: in one strip magnified until the shortest box holds its label. */
static int exact_columns(const Drawing *drawing, int available) {
  gint64 n_units = drawing->end_ns / drawing->grid_ns;
  gint64 shortest_units = drawing->shortest_ns / drawing->grid_ns;
  gint64 wanted = (drawing->n_digits + shortest_units) / shortest_units; /* ⌈(digits + 1) / shortest⌉ */
  return (int)(n_units * CLAMP(available / n_units, 1, wanted));
}

/* Columns: the grid, or else such that each box has one, as far as the strips reach; else all the width there is. */
static void choose_columns(Drawing *drawing, int available) {
  const int most = available * CLAMP(ROWS_OF_SCREEN / drawing->rows.n_rows, 1, (int)MOST_STRIPS);
  const double n_shortest = ceil((double)drawing->end_ns / (double)drawing->shortest_ns);
  drawing->n_columns = available;
  if (drawing->end_ns / drawing->grid_ns <= most)
    drawing->n_columns = exact_columns(drawing, available);
  else if (n_shortest <= most)
    drawing->n_columns = MAX(available, (int)n_shortest);
  const int n_strips = (drawing->n_columns + available - 1) / available;
  drawing->strip_columns = (drawing->n_columns + n_strips - 1) / n_strips;
  drawing->numbers = (double)drawing->shortest_ns * drawing->n_columns >= (double)drawing->end_ns;
}

/* Time at which column c begins. */
static gint64 column_start(const Drawing *drawing, int c) {
  return (gint64)((double)drawing->end_ns * c / drawing->n_columns);
}

static int column_of(const Drawing *drawing, gint64 time_ns) {
  int c = (int)((double)time_ns * drawing->n_columns / (double)drawing->end_ns);
  c = CLAMP(c, 0, drawing->n_columns - 1);
  while (c > 0 && column_start(drawing, c) > time_ns)
    c--;
  while (c + 1 < drawing->n_columns && column_start(drawing, c + 1) <= time_ns)
    c++;
  return c;
}

/* columns[c] = the box with the largest share of column c, or IDLE when idling has a larger one. */
static void fill_columns(const Drawing *drawing, const GArray *boxes, int *columns) {
  g_autofree gint64 *most_ns = g_new0(gint64, drawing->n_columns);
  g_autofree gint64 *idle_ns = g_new(gint64, drawing->n_columns);
  for (int c = 0; c < drawing->n_columns; c++) {
    columns[c] = IDLE;
    idle_ns[c] = column_start(drawing, c + 1) - column_start(drawing, c);
  }
  for (guint i = 0; i < boxes->len; i++) {
    const Box *box = &g_array_index(boxes, Box, i);
    int last = column_of(drawing, box->end_ns - 1);
    for (int c = column_of(drawing, box->start_ns); c <= last; c++) {
      gint64 part_ns = MIN(box->end_ns, column_start(drawing, c + 1)) - MAX(box->start_ns, column_start(drawing, c));
      idle_ns[c] -= part_ns;
      if (part_ns > most_ns[c]) {
        most_ns[c] = part_ns;
        columns[c] = (int)i;
      }
    }
  }
  for (int c = 0; c < drawing->n_columns; c++)
    if (idle_ns[c] > most_ns[c])
      columns[c] = IDLE;
}

/* --- text -------------------------------------------------------------------------------------------------------- */

static void append_repeated(GString *out, const char *text, int n) {
  for (int i = 0; i < n; i++)
    g_string_append(out, text);
}

static void append_plain(GString *out, const Box *box, int width, gboolean goes_on) {
  char letter = action_info(box->action)->glyph;
  if (box->chunk % 2 == 1)
    letter = g_ascii_tolower(letter);
  g_autofree char *label =
      box->micro_batch >= 0 ? g_strdup_printf("%c%d", letter, box->micro_batch) : g_strdup_printf("%c", letter);
  int length = goes_on ? 0 : (int)strlen(label);
  if (length > width)
    length = 1;
  g_string_append_len(out, label, length);
  append_repeated(out, "-", width - length);
}

static void append_paint(GString *out, ActionKind action, int chunk, gboolean odd) {
  const Look *look = &looks[action];
  int shade = chunk % N_SHADES;
  g_string_append_printf(out, "\033[48;5;%d;38;5;%dm", look->background[shade], text_colours[look->text[shade]][odd]);
}

static void append_coloured(GString *out, const Drawing *drawing, const Box *box, int width, gboolean goes_on) {
  g_autofree char *label = drawing->numbers && box->micro_batch >= 0
                               ? g_strdup_printf("%d", box->micro_batch)
                               : g_strdup_printf("%c", action_info(box->action)->glyph);
  int length = (int)strlen(label);
  int shown = goes_on ? 0 : MIN(length, width); /* the last digits tell neighbours apart */
  append_paint(out, box->action, box->chunk, box->micro_batch >= 0 && box->micro_batch % 2 == 1);
  g_string_append(out, label + length - shown);
  append_repeated(out, " ", width - shown);
  g_string_append(out, "\033[0m");
}

static void append_idle(GString *out, gboolean colour, int width) {
  if (colour)
    g_string_append(out, "\033[38;5;240m");
  append_repeated(out, colour ? "·" : ".", width);
  if (colour)
    g_string_append(out, "\033[0m");
}

/* Columns `from` to before `to`. */
static void append_row(GString *out, const Drawing *drawing, int row, int from, int to) {
  const GArray *boxes = drawing->boxes[row];
  g_autofree int *columns = g_new(int, drawing->n_columns);
  fill_columns(drawing, boxes, columns);
  g_string_append_printf(out, "%*d |", drawing->label_width - 2, row);
  for (int c = from, end; c < to; c = end) {
    for (end = c + 1; end < to && columns[end] == columns[c]; end++)
      continue;
    const gboolean goes_on = c > 0 && c == from && columns[c - 1] == columns[c];
    const Box *box = columns[c] == IDLE ? NULL : &g_array_index(boxes, Box, columns[c]);
    if (!box)
      append_idle(out, drawing->colour, end - c);
    else if (drawing->colour)
      append_coloured(out, drawing, box, end - c, goes_on);
    else
      append_plain(out, box, end - c, goes_on);
  }
  g_string_append(out, "|\n");
}

/* A round step (1, 2 or 5 times a power of ten) of at least `least`. */
static double round_step(double least) {
  double power = pow(10, floor(log10(least)));
  double steps[] = {1, 2, 5};
  for (guint i = 0; i < G_N_ELEMENTS(steps); i++)
    if (steps[i] * power >= least * (1 - 1e-9))
      return steps[i] * power;
  return 10 * power;
}

/* The unit stands at the end of the last strip's. */
static void append_axis(GString *out, const Drawing *drawing, TimeUnit unit, int from, int to) {
  enum { COLUMNS_PER_TICK = 9 };
  const char *name = to == drawing->n_columns ? unit.name : "";
  double columns_per_unit = drawing->n_columns * unit.ns / (double)drawing->end_ns;
  double step = round_step(COLUMNS_PER_TICK / columns_per_unit);
  gsize row_start = out->len;
  append_repeated(out, " ", drawing->label_width);
  for (int tick = (int)ceil(from / columns_per_unit / step * (1 - 1e-12));; tick++) {
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_formatd(number, sizeof number, "%.6g", tick * step);
    int at = drawing->label_width + (int)lround(tick * step * columns_per_unit) - from;
    if (at + (int)strlen(number) > drawing->label_width + to - from - 1 - (int)strlen(name))
      break;
    append_repeated(out, " ", at - (int)(out->len - row_start));
    g_string_append(out, number);
  }
  int end = drawing->label_width + to - from;
  if (*name != '\0')
    append_repeated(out, " ", end - (int)(out->len - row_start) - (int)strlen(name));
  g_string_append_printf(out, "%s\n", name);
}

static void append_strips(GString *out, const Drawing *drawing, TimeUnit unit) {
  g_string_append_printf(out, "%*s\n", drawing->label_width - 2, "rank");
  for (int from = 0; from < drawing->n_columns; from += drawing->strip_columns) {
    int to = MIN(from + drawing->strip_columns, drawing->n_columns);
    for (int row = 0; row < drawing->rows.n_rows; row++)
      append_row(out, drawing, row, from, to);
    append_axis(out, drawing, unit, from, to);
  }
}

static void append_legend_entry(GString *out, const Drawing *drawing, ActionKind action) {
  char letter = action_info(action)->glyph;
  int n_shades = action == ACTION_OPTIMIZER ? 1 : MIN(drawing->rows.n_chunks, (int)N_SHADES);
  if (drawing->colour) {
    for (int shade = 0; shade < n_shades; shade++) {
      append_paint(out, action, shade, FALSE);
      g_string_append_printf(out, " %c \033[0m", letter);
    }
  } else {
    g_string_append_c(out, letter);
    if (n_shades > 1)
      g_string_append_c(out, g_ascii_tolower(letter));
  }
  g_string_append_printf(out, " %s   ", looks[action].meaning);
}

static void append_legend(GString *out, const Drawing *drawing) {
  append_repeated(out, " ", drawing->label_width);
  for (int action = 0; action < N_ACTIONS; action++)
    if (drawing->present[action])
      append_legend_entry(out, drawing, action);
  append_idle(out, drawing->colour, 1);
  g_string_append(out, " idle\n");
  append_repeated(out, " ", drawing->label_width);
  if (!drawing->numbers)
    g_string_append(out, "letters: what takes most of a column");
  if (!drawing->numbers && !drawing->colour)
    g_string_append(out, "; ");
  if (drawing->numbers && drawing->colour)
    g_string_append(out, "numbers: micro-batch (last digits where narrow)");
  else if (!drawing->colour)
    g_string_append(out, "numbers: micro-batch, where there is room; -: goes on");
  if (drawing->rows.n_chunks > 1)
    g_string_append(out, drawing->colour ? "; shades: chunks, the first darkest" : "; lower case: odd chunks");
  g_string_append_c(out, '\n');
}

void draw_schedule(const Trace *trace, TimeUnit unit, int width, gboolean colour, GString *out) {
  Drawing drawing = {.colour = colour, .shortest_ns = G_MAXINT64};
  pipeline_rows_init(&drawing.rows, trace);
  drawing.boxes = g_new(GArray *, drawing.rows.n_rows);
  for (int row = 0; row < drawing.rows.n_rows; row++)
    drawing.boxes[row] = row_boxes(trace, &drawing.rows, row);
  measure_boxes(&drawing);
  if (drawing.end_ns > 0) {
    g_autofree char *last_row = g_strdup_printf("%d |", drawing.rows.n_rows - 1);
    drawing.label_width = MAX((int)strlen(last_row), (int)strlen("rank |"));
    choose_columns(&drawing, CLAMP(width, MIN_WIDTH, MAX_WIDTH) - drawing.label_width - 1);
    append_strips(out, &drawing, unit);
    append_legend(out, &drawing);
  } else {
    g_string_append(out, "nothing ran\n");
  }
  for (int row = 0; row < drawing.rows.n_rows; row++)
    g_array_unref(drawing.boxes[row]);
  g_free(drawing.boxes);
  pipeline_rows_clear(&drawing.rows);
}
