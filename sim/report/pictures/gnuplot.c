/* gnuplot reads the data from a file in memory and writes the picture to another, its standard output, so that a
 * picture is published only when all went well, and a sudden end leaves nothing behind:
 *
 *     gnuplot --default-settings -e "data='/dev/fd/3'; out=''; format='svg'; title='…'" plots/<script>.gp
 *
 * Personal start-up files are left out: the same data gives the same picture everywhere. */
#include "gnuplot.h"

#include "data_path.h"
#include "error.h"
#include "whole_file.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DATA_FD = 3 }; /* gnuplot's */

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

/* Files in memory that a run of gnuplot has: its data, what it draws, what it says. */
typedef struct {
  int data, picture, words; /* −1: not open */
} Files;

static void files_clear(Files *files) {
  const int fds[] = {files->data, files->picture, files->words};
  for (gsize i = 0; i < G_N_ELEMENTS(fds); i++)
    if (fds[i] >= 0)
      close(fds[i]);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Files, files_clear)

static gboolean files_open(Files *files, const char *data, GError **error) {
  *files = (Files){memfd_create("data", MFD_CLOEXEC), memfd_create("picture", MFD_CLOEXEC),
                   memfd_create("words", MFD_CLOEXEC)};
  gsize left = strlen(data);
  gboolean ok = files->data >= 0 && files->picture >= 0 && files->words >= 0;
  while (ok && left > 0) {
    const gssize n = write(files->data, data, left);
    ok = n >= 0 || errno == EINTR;
    left -= (gsize)MAX(n, 0);
    data += MAX(n, 0);
  }
  return ok || fail_input(error, "cannot store data for gnuplot: %s", g_strerror(errno));
}

/* All that was written to it, and a NUL. */
static GBytes *contents_of(int fd, GError **error) {
  struct stat status;
  gsize n = 0;
  if (fstat(fd, &status) != 0)
    status.st_size = 0;
  g_autofree char *bytes = g_malloc0((gsize)status.st_size + 1);
  while (n < (gsize)status.st_size) {
    const gssize got = pread(fd, bytes + n, (gsize)status.st_size - n, (off_t)n);
    if (got <= 0 && errno != EINTR) {
      fail_input(error, "gnuplot broke off: %s", g_strerror(errno));
      return NULL;
    }
    n += (gsize)MAX(got, 0);
  }
  return g_bytes_new_take(g_steal_pointer(&bytes), n);
}

/* Whether gnuplot ran, however it ended: then with its status. */
static gboolean run_gnuplot(const char *path, const char *code, const Files *files, int *status, GError **error) {
  g_autoptr(GError) problem = NULL;
  const char *const arguments[] = {"gnuplot", "--default-settings", "-e", code, path, NULL};
  const int data_fd = DATA_FD;
  GPid pid;
  if (!g_spawn_async_with_pipes_and_fds(NULL, arguments, NULL, G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD, NULL,
                                        NULL, -1, files->picture, files->words, &files->data, &data_fd, 1, &pid, NULL,
                                        NULL, NULL, &problem)) {
    const gboolean missing = g_error_matches(problem, G_SPAWN_ERROR, G_SPAWN_ERROR_NOENT);
    return fail_input(error, "pictures need gnuplot: %s",
                      missing ? "it is not installed or not on the PATH" : problem->message);
  }
  while (waitpid(pid, status, 0) < 0)
    if (errno != EINTR)
      return fail_input(error, "gnuplot broke off: %s", g_strerror(errno));
  return TRUE;
}

/* The picture's bytes, or NULL. */
static GBytes *run_script(const char *path, const char *code, const Files *files, GError **error) {
  int status;
  if (!run_gnuplot(path, code, files, &status, error))
    return NULL;
  g_autoptr(GBytes) picture = contents_of(files->picture, error);
  g_autoptr(GBytes) words = picture != NULL ? contents_of(files->words, error) : NULL;
  if (words != NULL && (status != 0 || g_bytes_get_size(picture) == 0)) {
    g_autofree char *text = g_strdup(g_bytes_get_data(words, NULL));
    g_autofree char *valid = g_utf8_make_valid(g_strstrip(text), -1);
    fail_input(error, "gnuplot could not draw %s: %s", path, *valid ? valid : "it gave no picture and no reason");
    return NULL;
  }
  return words != NULL ? g_steal_pointer(&picture) : NULL;
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
  g_auto(Files) files = {-1, -1, -1};
  if (!path || !files_open(&files, data, error))
    return NULL;
  g_autofree char *data_file = g_strdup_printf("/dev/fd/%d", DATA_FD);
  const GnuplotVariable own[] = {{"data", data_file}, {"out", ""}, {"format", format}, {NULL}};
  g_autofree char *first = gnuplot_assignments(own);
  g_autofree char *rest = gnuplot_assignments(variables);
  g_autofree char *code = g_strconcat(first, rest, NULL);
  return run_script(path, code, &files, error);
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
