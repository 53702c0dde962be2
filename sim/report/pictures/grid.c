/* plots/heat.gp shades the cells; a terminal has a table of the numbers instead, with x behind what does not fit. */
#include "grid.h"

#include "error.h"

static const GridCell *cell_of(const Grid *grid, int row, int column) {
  return &grid->cells[(gsize)row * grid->n_columns + column];
}

/* Owned by the caller. */
static char *cell_text(const Grid *grid, const GridCell *cell) {
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
  g_string_append_printf(out, "across: %s; upward: %s; %s; x does not fit in memory, - cannot be\n", grid->xlabel,
                         grid->ylabel, grid->zlabel);
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
  for (int row = 0; row < grid->n_rows; row++)
    for (int column = 0; column < grid->n_columns; column++) {
      const GridCell *cell = cell_of(grid, row, column);
      picture_add_number(picture, column);
      picture_add_number(picture, row);
      picture_add_number(picture, cell->state == GRID_CANNOT_BE ? 0 : cell->value);
      picture_add_number(picture, cell->state);
      picture_add_text(picture, grid->columns[column]);
      picture_add_text(picture, grid->rows[row]);
      picture_end_row(picture);
    }
  picture->text = grid_text(grid);
  return picture;
}
