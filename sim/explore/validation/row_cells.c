#include "row_cells.h"

#include <math.h>

#include "error.h"

static const char *const switch_names[] = {"off", "on", "0", "1", "false", "true", NULL}; /* odd ones are on */

const char *const *row_cells_switches(void) {
  return switch_names;
}

const char *measured_row_cell(const MeasuredRow *row, const char *column) {
  int index = csv_table_find_column(row->table, column);
  return index < 0 ? "" : csv_table_cell(row->table, row->index, index);
}

static int line_of(const MeasuredRow *row) {
  return g_array_index(row->table->lines, int, row->index);
}

char *measured_row_place(const MeasuredRow *row) {
  return g_strdup_printf("%s:%d", row->table->file, line_of(row));
}

static gboolean fail_cell(const char *column, const char *found, const char *expected, GError **error) {
  return fail_input(error, "column %s: found \"%.80s\", expected %s", column, found, expected);
}

/* A plain decimal number: no hexadecimal, no nan. */
static gboolean parse_number(const char *text, double *value) {
  char *end;
  *value = g_ascii_strtod(text, &end);
  return end != text && *end == '\0' && text[strspn(text, "0123456789.+-eE")] == '\0' && isfinite(*value);
}

gboolean row_cells_count(const MeasuredRow *row, const char *column, gint64 least, gint64 most, gint64 *value,
                         GError **error) {
  const char *text = measured_row_cell(row, column);
  double number;
  if (*text == '\0')
    return TRUE;
  if (parse_number(text, &number) && number == floor(number) && number >= (double)least && number <= (double)most) {
    *value = (gint64)number;
    return TRUE;
  }
  g_autofree char *expected =
      g_strdup_printf("a whole number from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT " or nothing", least, most);
  return fail_cell(column, text, expected, error);
}

gboolean row_cells_word(const MeasuredRow *row, const char *column, const char *const *names, gint64 *value,
                        GError **error) {
  const char *text = measured_row_cell(row, column);
  if (*text == '\0')
    return TRUE;
  g_autofree char *place = g_strdup_printf("column %s", column);
  int index = parse_choice(place, text, names, error);
  *value = names == switch_names ? index & 1 : index;
  return index >= 0;
}

gboolean row_cells_quantity(const MeasuredRow *row, const char *column, double most, double *value, GError **error) {
  const char *text = measured_row_cell(row, column);
  double number;
  *value = NAN;
  if (*text == '\0')
    return TRUE;
  if (parse_number(text, &number) && number > 0 && number <= most) {
    *value = number;
    return TRUE;
  }
  g_autofree char *expected = g_strdup_printf("a number above 0, at most %g, or nothing", most);
  return fail_cell(column, text, expected, error);
}
