/* One text goes three ways: to gnuplot for a file, to gnuplot's letters (or a drawing of our own, where letters need
 * one) for a terminal, and out as it is, under the call that draws it:
 *
 *     rows → data + variables ─┬─ gnuplot → .svg .png .pdf
 *                              ├─ text, or gnuplot → letters, then notes
 *                              └─ "# gnuplot -e …" + data
 *
 * gnuplot reads the data, several times, from a file in memory, and what it draws is published only when all went well:
 *
 *     gnuplot --default-settings -e "data='/dev/fd/3'; out=''; format='svg'; title='…'" plots/<script>.gp
 *
 * Personal start-up files are left out: the same data gives the same picture everywhere. */
#include "picture.h"

#include "data_path.h"
#include "error.h"
#include "whole_file.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_ROWS = 28, DATA_FD = 3 /* gnuplot's */ };

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

gboolean picture_check_file(const char *file, GError **error) {
  return format_of(file, error) != NULL;
}

gboolean picture_check_span(gint64 end_ns, const char *what, GError **error) {
  return end_ns > 0 || fail_input(error, "cannot draw %s: nothing in it takes any time", what);
}

Picture *picture_new(const char *script, const char *title) {
  Picture *picture = g_new0(Picture, 1);
  picture->script = g_strdup(script);
  picture->data = g_string_new(NULL);
  picture->notes = g_string_new(NULL);
  picture->variables = g_string_new(NULL);
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
  g_string_free(picture->variables, TRUE);
  g_free(picture->text);
  g_free(picture);
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

void picture_set(Picture *picture, const char *name, const char *value) {
  append_assignment(picture->variables, name, value);
}

void picture_set_number(Picture *picture, const char *name, double value) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  picture_set(picture, name, g_ascii_formatd(text, sizeof text, "%.9g", value));
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

/* --- gnuplot ----------------------------------------------------------------------------------------------------- */

static void close_all(const int *fds, int n) {
  for (int i = 0; i < n; i++)
    if (fds[i] >= 0)
      close(fds[i]);
}

/* A file in memory with the data; −1 with the error set. */
static int store(const char *data, GError **error) {
  const int fd = memfd_create("data", MFD_CLOEXEC);
  if (fd >= 0 && dprintf(fd, "%s", data) >= 0)
    return fd;
  fail_input(error, "cannot store data for gnuplot: %s", g_strerror(errno));
  if (fd >= 0)
    close(fd);
  return -1;
}

/* All that was written to the file in memory. */
static GBytes *contents_of(int fd) {
  const off_t n_bytes = lseek(fd, 0, SEEK_END);
  void *bytes = n_bytes > 0 ? g_malloc((gsize)n_bytes) : NULL;
  return g_bytes_new_take(bytes, n_bytes > 0 ? (gsize)MAX(pread(fd, bytes, (gsize)n_bytes, 0), 0) : 0);
}

/* Files in memory for what it draws and says: GSubprocess would need a thread, which little memory has no room for. */
static GBytes *run_script(const char *path, const char *code, int data_fd, GError **error) {
  g_autoptr(GError) problem = NULL;
  const char *const arguments[] = {"gnuplot", "--default-settings", "-e", code, path, NULL};
  const int target_fd = DATA_FD, picture_fd = store("", error), words_fd = picture_fd >= 0 ? store("", error) : -1;
  GPid pid;
  int status = 0;
  g_autoptr(GBytes) drawn = NULL, words = NULL;
  if (words_fd >= 0 && g_spawn_async_with_pipes_and_fds(
                           NULL, arguments, NULL, G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, -1,
                           picture_fd, words_fd, &data_fd, &target_fd, 1, &pid, NULL, NULL, NULL, &problem)) {
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
      ;
    drawn = contents_of(picture_fd);
    words = contents_of(words_fd);
  } else if (words_fd >= 0) {
    fail_input(error, "pictures need gnuplot: %s",
               g_error_matches(problem, G_SPAWN_ERROR, G_SPAWN_ERROR_NOENT) ? "it is not installed or not on the PATH"
                                                                            : problem->message);
  }
  close_all((const int[]){picture_fd, words_fd}, 2);
  if (drawn == NULL || (status == 0 && g_bytes_get_size(drawn) > 0))
    return g_steal_pointer(&drawn);
  gsize n_words;
  const char *said = g_bytes_get_data(words, &n_words);
  g_autofree char *text = g_utf8_make_valid(said != NULL ? said : "", (gssize)n_words);
  g_strstrip(text);
  fail_input(error, "gnuplot could not draw %s: %s", path, *text ? text : "it gave no picture and no reason");
  return NULL;
}

/* What the script writes in this format, with further variables (NULL: none); NULL with the error set. */
static GBytes *draw(const Picture *picture, const char *format, const char *variables, GError **error) {
  g_autofree char *path = data_path_find("plots", picture->script, ".gp", error);
  const int data_fd = path != NULL ? store(picture->data->str, error) : -1;
  if (data_fd < 0)
    return NULL;
  g_autofree char *code = g_strdup_printf("data='/dev/fd/%d'; out=''; format='%s'; %s%s", DATA_FD, format,
                                          variables != NULL ? variables : "", picture->variables->str);
  GBytes *drawn = run_script(path, code, data_fd, error);
  close_all(&data_fd, 1);
  return drawn;
}

gboolean picture_write(const Picture *picture, const char *file, GError **error) {
  const char *format = format_of(file, error);
  g_autoptr(GBytes) drawn = format != NULL ? draw(picture, format, NULL, error) : NULL;
  WholeFile out;
  if (drawn == NULL || !whole_file_open(&out, file, error))
    return FALSE;
  gsize n_bytes;
  const char *bytes = g_bytes_get_data(drawn, &n_bytes);
  whole_file_write(&out, bytes, n_bytes);
  return whole_file_close(&out, error);
}

gboolean picture_take(Picture *picture, const char *file, GError **error) {
  gboolean done = picture != NULL && picture_write(picture, file, error);
  picture_free(picture);
  return done;
}

char *picture_take_svg(Picture *picture, GError **error) {
  g_autoptr(Picture) taken = picture;
  g_autoptr(GBytes) drawn = taken != NULL ? draw(taken, "svg", NULL, error) : NULL;
  return drawn != NULL ? g_strndup(g_bytes_get_data(drawn, NULL), g_bytes_get_size(drawn)) : NULL;
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

char *picture_text(const Picture *picture, int columns, GError **error) {
  if (picture->text != NULL)
    return g_strconcat(picture->text, picture->notes->str, NULL);
  g_autofree char *size = g_strdup_printf("columns='%d'; rows='%d'; ", columns, TEXT_ROWS);
  g_autoptr(GBytes) drawn = draw(picture, "txt", size, error);
  if (drawn == NULL)
    return NULL;
  g_autofree char *page = g_strndup(g_bytes_get_data(drawn, NULL), g_bytes_get_size(drawn));
  g_autofree char *text = without_margins(page);
  return g_strconcat(text, picture->notes->str, NULL);
}

char *picture_data(const Picture *picture) {
  g_autofree char *quoted = g_shell_quote(picture->variables->str);
  return g_strdup_printf("# Columns: see the head of the script. Drawn by\n"
                         "# gnuplot -e \"data='THIS FILE'; out='FILE.svg'\" -e %s plots/%s.gp\n%s",
                         quoted, picture->script, picture->data->str);
}
