/* gnuplot reads the data from a private temporary file and writes the picture to its standard output, so that this side
 * sees every write error and publishes a picture only when all went well:
 *
 *     gnuplot --default-settings -e "data='…'; out=''; format='svg'; title='…'" plots/<script>.gp  →  pipe  →  file
 *
 * Personal start-up files are left out: the same data gives the same picture everywhere. */
#include "gnuplot.h"

#include "data_path.h"
#include "error.h"
#include "whole_file.h"
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

/* Formats the scripts know, by suffix. */
static const char *const formats[] = {"svg", "png", "pdf", NULL};

static const char *format_of(const char *file, GError **error) {
  const char *dot = file ? strrchr(file, '.') : NULL;
  for (const char *const *format = formats; dot && *format; format++)
    if (g_ascii_strcasecmp(dot + 1, *format) == 0)
      return *format;
  fail_input(error, "cannot tell the picture format of \"%.200s\": expected a name ending in .svg, .png or .pdf",
             file ? file : "");
  return NULL;
}

gboolean gnuplot_check_file(const char *file, GError **error) {
  return format_of(file, error) != NULL;
}

gboolean gnuplot_check_span(gint64 end_ns, const char *file, GError **error) {
  return end_ns > 0 || fail_input(error, "cannot draw %s: nothing in it takes any time", file);
}

/* In gnuplot's single quotes only the quote itself is special, and stands doubled. Control characters have no picture.
 */
static void append_assignment(GString *code, const char *name, const char *value) {
  g_autofree char *valid = g_utf8_make_valid(value ? value : "", -1);
  g_string_append_printf(code, "%s='", name);
  for (const char *at = valid; *at; at++) {
    if (*at == '\'')
      g_string_append(code, "''");
    else
      g_string_append_c(code, (guchar)*at < 0x20 || *at == 0x7f ? ' ' : *at);
  }
  g_string_append(code, "'; ");
}

static char *write_data(const char *data, GError **error) {
  g_autoptr(GError) problem = NULL;
  g_autofree char *path = NULL;
  int fd = g_file_open_tmp("stepsim-XXXXXX.dat", &path, &problem);
  if (fd < 0) {
    fail_input(error, "cannot store data for gnuplot: %s", problem->message);
    return NULL;
  }
  close(fd);
  if (!g_file_set_contents(path, data, -1, &problem)) {
    g_unlink(path);
    fail_input(error, "cannot store data for gnuplot: %s", problem->message);
    return NULL;
  }
  return g_steal_pointer(&path);
}

/* The picture's bytes, or NULL. */
static GBytes *run_script(const char *path, const char *code, GError **error) {
  g_autoptr(GError) problem = NULL;
  g_autoptr(GSubprocess) process = g_subprocess_new(G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE,
                                                    &problem, "gnuplot", "--default-settings", "-e", code, path, NULL);
  if (!process) {
    gboolean missing = g_error_matches(problem, G_SPAWN_ERROR, G_SPAWN_ERROR_NOENT);
    fail_input(error, "pictures need gnuplot: %s",
               missing ? "it is not installed or not on the PATH" : problem->message);
    return NULL;
  }
  g_autoptr(GBytes) picture = NULL;
  g_autoptr(GBytes) complaint = NULL;
  if (!g_subprocess_communicate(process, NULL, NULL, &picture, &complaint, &problem)) {
    fail_input(error, "gnuplot broke off: %s", problem->message);
    return NULL;
  }
  if (!g_subprocess_get_successful(process) || g_bytes_get_size(picture) == 0) {
    g_autofree char *text = g_strndup(g_bytes_get_data(complaint, NULL), g_bytes_get_size(complaint));
    g_autofree char *valid = g_utf8_make_valid(g_strstrip(text), -1);
    fail_input(error, "gnuplot could not draw %s: %s", path, *valid ? valid : "it gave no picture and no reason");
    return NULL;
  }
  return g_steal_pointer(&picture);
}

static gboolean write_picture(GBytes *picture, const char *file, GError **error) {
  WholeFile out;
  if (!whole_file_open(&out, file, error))
    return FALSE;
  gsize n_bytes;
  const char *bytes = g_bytes_get_data(picture, &n_bytes);
  whole_file_write(&out, bytes, n_bytes);
  return whole_file_close(&out, error);
}

char *gnuplot_assignments(const GnuplotVariable *variables) {
  GString *code = g_string_new(NULL);
  for (; variables && variables->name; variables++)
    append_assignment(code, variables->name, variables->value);
  return g_string_free(code, FALSE);
}

/* What the script wrote in this format, or NULL. */
static GBytes *draw(const char *script, const char *data, const GnuplotVariable *variables, const char *format,
                    GError **error) {
  g_autofree char *path = data_path_find("plots", script, ".gp", error);
  g_autofree char *data_file = path ? write_data(data, error) : NULL;
  if (!data_file)
    return NULL;
  const GnuplotVariable own[] = {{"data", data_file}, {"out", ""}, {"format", format}, {NULL}};
  g_autofree char *first = gnuplot_assignments(own);
  g_autofree char *rest = gnuplot_assignments(variables);
  g_autofree char *code = g_strconcat(first, rest, NULL);
  GBytes *picture = run_script(path, code, error);
  g_unlink(data_file);
  return picture;
}

gboolean gnuplot_run(const char *script, const char *data, const GnuplotVariable *variables, const char *file,
                     GError **error) {
  const char *format = format_of(file, error);
  g_autoptr(GBytes) picture = format ? draw(script, data, variables, format, error) : NULL;
  return picture && write_picture(picture, file, error);
}

/* A page begins with a form feed, its lines end in blanks, and the first and last ones are empty. */
static char *without_margins(const char *page) {
  g_auto(GStrv) lines = g_strsplit(page, "\n", -1);
  GString *text = g_string_new(NULL);
  for (char **line = lines; *line != NULL; line++) {
    g_strchomp(*line);
    if (text->len > 0 || **line != '\0')
      g_string_append_printf(text, "%s\n", *line);
  }
  while (text->len > 1 && text->str[text->len - 2] == '\n')
    g_string_truncate(text, text->len - 1);
  return g_string_free(text, FALSE);
}

char *gnuplot_text(const char *script, const char *data, const GnuplotVariable *variables, int columns, int rows,
                   GError **error) {
  g_autofree char *columns_text = g_strdup_printf("%d", columns);
  g_autofree char *rows_text = g_strdup_printf("%d", rows);
  g_autoptr(GArray) all = g_array_new(TRUE, TRUE, sizeof(GnuplotVariable));
  const GnuplotVariable size[] = {{"columns", columns_text}, {"rows", rows_text}};
  g_array_append_vals(all, size, G_N_ELEMENTS(size));
  for (; variables && variables->name; variables++)
    g_array_append_val(all, *variables);
  g_autoptr(GBytes) picture = draw(script, data, (const GnuplotVariable *)(void *)all->data, "txt", error);
  if (!picture)
    return NULL;
  g_autofree char *page = g_strndup(g_bytes_get_data(picture, NULL), g_bytes_get_size(picture));
  return without_margins(page);
}
