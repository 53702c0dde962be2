/* Each script's header says its columns; here arrays become such text. A series is a block: its name in quotes, its
 * rows, two empty lines. */
#include "plots.h"

#include <math.h>
#include <string.h>

#include "error.h"

static Picture *new_picture(const char *script, const char *title, int n_points, GError **error) {
  if (n_points > 0)
    return picture_new(script, title);
  fail_input(error, "nothing to draw: there are no points");
  return NULL;
}

/* --- what a terminal cannot show --- */

/* A letter of a terminal covers the one below it: points that are drawn later hide earlier ones of other series. */
typedef struct {
  const char *series;
  double x, y;
} Letter;

/* Whether a later letter of another series lies on the same place; *over: which. `close`: of y, that is one place. */
static gboolean is_covered(const Letter *letters, int n, int at, double close, const char **over) {
  for (int i = at + 1; i < n; i++)
    if (strcmp(letters[i].series, letters[at].series) != 0 && letters[i].x == letters[at].x &&
        fabs(letters[i].y - letters[at].y) < close) {
      *over = letters[i].series;
      return TRUE;
    }
  return FALSE;
}

/* A line below the picture for each series of which points are covered. */
static void note_covered(Picture *picture, const Letter *letters, int n) {
  enum { PLACES = 40 }; /* halves of the lines of a picture in letters */
  double highest = 0;
  for (int i = 0; i < n; i++)
    highest = fmax(highest, letters[i].y);
  for (int i = 0, end; i < n; i = end) {
    const char *over = NULL;
    int n_covered = 0;
    for (end = i; end < n && strcmp(letters[end].series, letters[i].series) == 0; end++)
      n_covered += is_covered(letters, n, end, highest / PLACES, &over);
    if (n_covered == end - i)
      g_string_append_printf(picture->notes, "%s: all points are behind others, of %s\n", letters[i].series, over);
    else if (n_covered > 0)
      g_string_append_printf(picture->notes, "%s: %d of %d points are behind others, of %s\n", letters[i].series,
                             n_covered, end - i, over);
  }
}

Picture *plot_bubble(const BubblePoint *points, int n_points, gboolean joined, const char *title, GError **error) {
  Picture *picture = new_picture("bubble", title, n_points, error);
  if (picture == NULL)
    return NULL;
  picture_set_number(picture, "join", joined);
  for (int i = 0; i < n_points; i++) {
    picture_begin_series(picture, points[i].schedule, i > 0 ? points[i - 1].schedule : NULL);
    picture_add_number(picture, points[i].n_micro_batches);
    picture_add_number(picture, points[i].simulated);
    picture_add_number(picture, points[i].closed_form);
    picture_end_row(picture);
  }
  g_autofree Letter *letters = g_new(Letter, n_points);
  for (int i = 0; i < n_points; i++)
    letters[i] = (Letter){points[i].schedule, points[i].n_micro_batches, points[i].simulated};
  note_covered(picture, letters, n_points);
  return picture;
}

Picture *plot_mfu(const GpusPoint *points, int n_points, const char *title, GError **error) {
  Picture *picture = new_picture("mfu", title, n_points, error);
  gboolean has_band = n_points > 0;
  for (int i = 0; i < n_points; i++)
    has_band &= points[i].high > 0;
  if (picture != NULL && has_band)
    picture_set_number(picture, "band", 1);
  for (int i = 0; picture != NULL && i < n_points; i++) {
    picture_begin_series(picture, points[i].series, i > 0 ? points[i - 1].series : NULL);
    picture_add_number(picture, points[i].n_gpus);
    picture_add_number(picture, points[i].value);
    picture_add_number(picture, points[i].fits);
    if (has_band) {
      picture_add_number(picture, points[i].low);
      picture_add_number(picture, points[i].high);
    }
    picture_end_row(picture);
  }
  g_autofree Letter *letters = g_new(Letter, n_points + 1);
  for (int i = 0; picture != NULL && i < n_points; i++)
    letters[i] = (Letter){points[i].series, points[i].n_gpus, points[i].value};
  if (picture != NULL)
    note_covered(picture, letters, n_points);
  return picture;
}

Picture *plot_state(const GpusPoint *points, int n_points, double capacity_GB, const char *title, GError **error) {
  Picture *picture = plot_mfu(points, n_points, title, error);
  if (picture == NULL)
    return NULL;
  picture_set(picture, "ylabel", "state of a GPU (GB = 1e9 bytes)");
  picture_set_number(picture, "scaled", 1);
  picture_set_number(picture, "limit", capacity_GB);
  return picture;
}

Picture *plot_busbw(const BusbwPoint *points, int n_points, double limit_Bps, const char *title, GError **error) {
  Picture *picture = new_picture("busbw", title, n_points, error);
  if (picture == NULL)
    return NULL;
  picture_set_number(picture, "limit", limit_Bps / 1e9);
  for (int i = 0; i < n_points; i++) {
    picture_begin_series(picture, points[i].series, i > 0 ? points[i - 1].series : NULL);
    picture_add_number(picture, points[i].bytes);
    picture_add_number(picture, points[i].busbw_Bps / 1e9);
    picture_end_row(picture);
  }
  return picture;
}

Picture *plot_validation(const ValidationPoint *points, int n_points, const char *title, GError **error) {
  Picture *picture = new_picture("validation", title, n_points, error);
  for (int i = 0; picture != NULL && i < n_points; i++) {
    picture_begin_series(picture, points[i].series, i > 0 ? points[i - 1].series : NULL);
    picture_add_number(picture, points[i].measured_s);
    picture_add_number(picture, points[i].predicted_s);
    picture_end_row(picture);
  }
  return picture;
}

/* By x, then falling y; qsort is not stable, so equal ones go by label. */
static int compare_points(const void *a, const void *b) {
  const ParetoPoint *p = a, *q = b;
  if (p->x != q->x)
    return p->x < q->x ? -1 : 1;
  if (p->y != q->y)
    return p->y > q->y ? -1 : 1;
  return strcmp(p->label, q->label);
}

/* One pass from small x on: whoever is not above the best y so far is beaten, but for an equal of that best. */
void pareto_rank(ParetoPoint *points, const gboolean *fits, int n_points) {
  for (int i = 0; i < n_points; i++)
    points[i].place = fits[i] ? PARETO_BEATEN : PARETO_DOES_NOT_FIT;
  qsort(points, (gsize)n_points, sizeof *points, compare_points);
  const ParetoPoint *best = NULL;
  for (int i = 0; i < n_points; i++) {
    if (points[i].place == PARETO_DOES_NOT_FIT)
      continue;
    if (best == NULL || points[i].y > best->y || (points[i].y == best->y && points[i].x == best->x)) {
      points[i].place = PARETO_FRONT;
      best = &points[i];
    }
  }
}

static gboolean all_have_intervals(const ParetoPoint *points, int n_points) {
  gboolean all = TRUE;
  for (int i = 0; all && i < n_points; i++)
    all = points[i].high > 0;
  return all;
}

Picture *plot_pareto(const ParetoPoint *points, int n_points, const ParetoLook *look, GError **error) {
  static const char *const names[N_PARETO] = {"front", "beaten", "does not fit"};
  Picture *picture = new_picture("pareto", look->title, n_points, error);
  if (picture == NULL)
    return NULL;
  picture_set(picture, "xlabel", look->xlabel);
  picture_set(picture, "ylabel", look->ylabel);
  picture_set_number(picture, "capacity", look->capacity);
  const gboolean has_intervals = all_have_intervals(points, n_points);
  if (has_intervals)
    picture_set_number(picture, "band", 1);
  g_string_append_printf(picture->notes, "\nThe front: %s, %s, plan\n", look->xlabel, look->ylabel);
  for (int place = 0; place < N_PARETO; place++) {
    int n = 0;
    picture_begin_block(picture, names[place]);
    for (int i = 0; i < n_points; i++) {
      if ((int)points[i].place != place)
        continue;
      picture_add_number(picture, points[i].x);
      picture_add_number(picture, points[i].y);
      picture_add_text(picture, points[i].label);
      if (has_intervals) {
        picture_add_number(picture, points[i].low);
        picture_add_number(picture, points[i].high);
      }
      picture_end_row(picture);
      if (place == PARETO_FRONT)
        g_string_append_printf(picture->notes, "%12.6g %12.6g  %s\n", points[i].x, points[i].y, points[i].label);
      n++;
    }
    if (n == 0) /* an empty block would not count as one */
      g_string_append(picture->data, has_intervals ? "NaN NaN \"\" NaN NaN\n" : "NaN NaN \"\"\n");
  }
  return picture;
}

/* --- maps -------------------------------------------------------------------------------------------------------- */

/* plots/heat.gp shades the cells; a terminal has a table of the numbers instead, with x behind what does not fit. */

static const GridCell *cell_of(const Grid *grid, int row, int column) {
  return &grid->cells[(gsize)row * grid->n_columns + column];
}

/* Owned by the caller. */
static char *cell_text(const Grid *grid, const GridCell *cell) {
  if (grid->texts != NULL)
    return g_strconcat(grid->texts[cell - grid->cells], " ", NULL);
  if (cell->state == GRID_CANNOT_BE)
    return g_strdup("- ");
  char number[64];
  g_ascii_formatd(number, sizeof number, grid->digits, cell->value);
  return g_strconcat(number, cell->state == GRID_FITS ? " " : "x", NULL);
}

static int widest_cell(const Grid *grid, int column) {
  glong widest = g_utf8_strlen(grid->columns[column], -1) + 1;
  for (int row = 0; row < grid->n_rows; row++) {
    g_autofree char *text = cell_text(grid, cell_of(grid, row, column));
    widest = MAX(widest, g_utf8_strlen(text, -1));
  }
  return (int)widest;
}

static void print_row(GString *out, const Grid *grid, int row, int name_width, const int *widths) {
  g_string_append_printf(out, "%*s |", name_width, row >= 0 ? grid->rows[row] : "");
  for (int column = 0; column < grid->n_columns; column++) {
    g_autofree char *text =
        row >= 0 ? cell_text(grid, cell_of(grid, row, column)) : g_strconcat(grid->columns[column], " ", NULL);
    g_string_append_printf(out, "  %*s", widths[column], text);
  }
  g_string_append_c(out, '\n');
}

static char *grid_text(const Grid *grid) {
  g_autofree int *widths = g_new(int, grid->n_columns);
  int name_width = 1;
  for (int column = 0; column < grid->n_columns; column++)
    widths[column] = widest_cell(grid, column);
  for (int row = 0; row < grid->n_rows; row++)
    name_width = MAX(name_width, (int)g_utf8_strlen(grid->rows[row], -1));
  GString *out = g_string_new(NULL);
  g_string_append_printf(out, "%s\n", grid->title);
  for (int row = grid->n_rows - 1; row >= -1; row--)
    print_row(out, grid, row, name_width, widths);
  if (grid->texts == NULL)
    g_string_append_printf(out, "across: %s; upward: %s; %s; x does not fit in memory, - cannot be\n", grid->xlabel,
                           grid->ylabel, grid->zlabel);
  for (int i = 0; grid->notes != NULL && grid->notes[i] != NULL; i++)
    g_string_append_printf(out, "%s\n", grid->notes[i]);
  return g_string_free(out, FALSE);
}

Picture *grid_picture(const Grid *grid, GError **error) {
  gboolean can_be = FALSE;
  for (int i = 0; i < grid->n_rows * grid->n_columns; i++)
    can_be |= grid->cells[i].state != GRID_CANNOT_BE;
  if (!can_be) {
    fail_input(error, "nothing to draw: none of the %d cells can be", grid->n_rows * grid->n_columns);
    return NULL;
  }
  Picture *picture = picture_new("heat", grid->title);
  picture_set(picture, "xlabel", grid->xlabel);
  picture_set(picture, "ylabel", grid->ylabel);
  picture_set(picture, "zlabel", grid->zlabel);
  picture_set(picture, "digits", grid->digits);
  for (int i = 0; grid->notes != NULL && grid->notes[i] != NULL; i++) {
    g_autofree char *name = g_strdup_printf("note%d", i + 1);
    picture_set(picture, name, grid->notes[i]);
    picture_set_number(picture, "n_notes", i + 1);
  }
  if (grid->texts != NULL)
    picture_set_number(picture, "has_texts", 1);
  for (int row = 0; row < grid->n_rows; row++)
    for (int column = 0; column < grid->n_columns; column++) {
      const GridCell *cell = cell_of(grid, row, column);
      picture_add_number(picture, column);
      picture_add_number(picture, row);
      picture_add_number(picture, cell->state == GRID_CANNOT_BE ? 0 : cell->value);
      picture_add_number(picture, cell->state);
      picture_add_text(picture, grid->columns[column]);
      picture_add_text(picture, grid->rows[row]);
      if (grid->texts != NULL)
        picture_add_text(picture, grid->texts[cell - grid->cells]);
      picture_end_row(picture);
    }
  picture->text = grid_text(grid);
  return picture;
}
