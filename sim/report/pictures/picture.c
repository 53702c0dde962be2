/* One text goes three ways: to gnuplot for a file, to gnuplot's letters (or a drawing of our own, where letters need
 * one) for a terminal, and out as it is, under the call that draws it:
 *
 *     rows → data + variables ─┬─ gnuplot → .svg .png .pdf
 *                              ├─ text, or gnuplot → letters, then notes
 *                              └─ "# gnuplot -e …" + data
 */
#include "picture.h"

#include "gnuplot.h"
#include <math.h>
#include <string.h>

enum { TEXT_ROWS = 28 };

Picture *picture_new(const char *script, const char *title) {
  Picture *picture = g_new0(Picture, 1);
  picture->script = g_strdup(script);
  picture->data = g_string_new(NULL);
  picture->notes = g_string_new(NULL);
  picture->names = g_ptr_array_new_with_free_func(g_free);
  picture->values = g_ptr_array_new_with_free_func(g_free);
  if (title != NULL)
    picture_set(picture, "title", title);
  return picture;
}

void picture_free(Picture *picture) {
  if (picture == NULL)
    return;
  g_free(picture->script);
  g_string_free(picture->data, TRUE);
  g_string_free(picture->notes, TRUE);
  g_ptr_array_unref(picture->names);
  g_ptr_array_unref(picture->values);
  g_free(picture->text);
  g_free(picture);
}

static guint find(const Picture *picture, const char *name) {
  guint i = 0;
  while (i < picture->names->len && strcmp(g_ptr_array_index(picture->names, i), name) != 0)
    i++;
  return i;
}

void picture_set(Picture *picture, const char *name, const char *value) {
  guint i = find(picture, name);
  if (i == picture->names->len) {
    g_ptr_array_add(picture->names, g_strdup(name));
    g_ptr_array_add(picture->values, NULL);
  }
  g_free(picture->values->pdata[i]);
  picture->values->pdata[i] = g_strdup(value);
}

void picture_set_number(Picture *picture, const char *name, double value) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  picture_set(picture, name, g_ascii_formatd(text, sizeof text, "%.9g", value));
}

const char *picture_get(const Picture *picture, const char *name) {
  guint i = find(picture, name);
  return i < picture->names->len ? g_ptr_array_index(picture->values, i) : NULL;
}

static void part_from_last(GString *data) {
  if (data->len > 0 && data->str[data->len - 1] != '\n')
    g_string_append_c(data, ' ');
}

void picture_add_number(Picture *picture, double value) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  part_from_last(picture->data);
  g_string_append(picture->data, isfinite(value) ? g_ascii_formatd(text, sizeof text, "%.9g", value) : "NaN");
}

/* gnuplot ends a quoted text at the next double quote, and a row at its line end. */
void picture_add_text(Picture *picture, const char *text) {
  g_autofree char *clean = g_strdup(text);
  part_from_last(picture->data);
  g_string_append_printf(picture->data, "\"%s\"", g_strdelimit(clean, "\"\\\n\r", '\''));
}

void picture_end_row(Picture *picture) {
  g_string_append_c(picture->data, '\n');
}

void picture_begin_block(Picture *picture, const char *name) {
  if (picture->data->len > 0)
    g_string_append(picture->data, "\n\n");
  picture_add_text(picture, name);
  picture_end_row(picture);
}

void picture_begin_series(Picture *picture, const char *name, const char *previous) {
  if (previous == NULL || strcmp(name, previous) != 0)
    picture_begin_block(picture, name);
}

/* As gnuplot_run() takes them; the texts are borrowed. */
static GnuplotVariable *variables_of(const Picture *picture) {
  GnuplotVariable *variables = g_new0(GnuplotVariable, picture->names->len + 1);
  for (guint i = 0; i < picture->names->len; i++)
    variables[i] = (GnuplotVariable){g_ptr_array_index(picture->names, i), g_ptr_array_index(picture->values, i)};
  return variables;
}

gboolean picture_write(const Picture *picture, const char *file, GError **error) {
  g_autofree GnuplotVariable *variables = variables_of(picture);
  return gnuplot_run(picture->script, picture->data->str, variables, file, error);
}

gboolean picture_take(Picture *picture, const char *file, GError **error) {
  gboolean done = picture != NULL && picture_write(picture, file, error);
  picture_free(picture);
  return done;
}

char *picture_text(const Picture *picture, int columns, GError **error) {
  if (picture->text != NULL)
    return g_strconcat(picture->text, picture->notes->str, NULL);
  g_autofree GnuplotVariable *variables = variables_of(picture);
  g_autofree char *text = gnuplot_text(picture->script, picture->data->str, variables, columns, TEXT_ROWS, error);
  return text != NULL ? g_strconcat(text, picture->notes->str, NULL) : NULL;
}

char *picture_data(const Picture *picture) {
  g_autofree GnuplotVariable *variables = variables_of(picture);
  g_autofree char *code = gnuplot_assignments(variables);
  g_autofree char *quoted = g_shell_quote(code);
  GString *text = g_string_new("# Columns: see the head of the script. Drawn by\n");
  g_string_append_printf(text, "# gnuplot -e \"data='THIS FILE'; out='FILE.svg'\" -e %s plots/%s.gp\n", quoted,
                         picture->script);
  g_string_append(text, picture->data->str);
  return g_string_free(text, FALSE);
}
