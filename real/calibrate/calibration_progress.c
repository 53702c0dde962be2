/* The text:
 *
 *     stepreal calibrate 6, device cpu, …                    the header
 *     kernel product fp32 0 0 1 64 64 64 = 1e-05 0.1 5       times that are new or changed since the previous part
 *     kernel …
 *     done tinystories-15m fp32, tp 1, …                     the part is complete
 *     kernel …
 *     done edge 1.25e-06                                     a note
 *
 * If two parts ran the same kernel, the later time counts, as in the table. Kernels after the last "done" belong to a
 * truncated part and do not count. */
#include "calibration_progress.h"

#include "error.h"
#include "whole_file.h"

#include <string.h>

static const char DONE[] = "done ";

struct CalibrationProgress {
  GString *text;     /* complete parts only */
  gsize n_header;    /* bytes of the first line */
  GHashTable *parts; /* set of names */
  GHashTable *lines; /* set of the kernel lines in `text` */
};

CalibrationProgress *calibration_progress_new(const char *header) {
  CalibrationProgress *progress = g_new0(CalibrationProgress, 1);
  progress->text = g_string_new(header);
  g_string_append_c(progress->text, '\n');
  progress->n_header = progress->text->len;
  progress->parts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  progress->lines = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  return progress;
}

void calibration_progress_free(CalibrationProgress *progress) {
  if (progress == NULL)
    return;
  g_string_free(progress->text, TRUE);
  g_hash_table_unref(progress->parts);
  g_hash_table_unref(progress->lines);
  g_free(progress);
}

gboolean calibration_progress_has(const CalibrationProgress *progress, const char *part) {
  return g_hash_table_contains(progress->parts, part);
}

static int compare_notes(gconstpointer a, gconstpointer b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

GPtrArray *calibration_progress_notes(const CalibrationProgress *progress, const char *prefix) {
  GPtrArray *notes = g_ptr_array_new();
  GHashTableIter iter;
  gpointer part;
  g_hash_table_iter_init(&iter, progress->parts);
  while (g_hash_table_iter_next(&iter, &part, NULL))
    if (g_str_has_prefix(part, prefix))
      g_ptr_array_add(notes, (char *)part + strlen(prefix));
  g_ptr_array_sort(notes, compare_notes);
  return notes;
}

int calibration_progress_n_parts(const CalibrationProgress *progress) {
  return (int)g_hash_table_size(progress->parts);
}

/* Takes lines from..to; the last one ends the part. */
static void take_part(CalibrationProgress *progress, char *const *lines, int from, int to, KernelTimes *times) {
  for (int i = from; i <= to; i++) {
    g_string_append_printf(progress->text, "%s\n", lines[i]);
    if (i == to)
      g_hash_table_add(progress->parts, g_strdup(lines[i] + strlen(DONE)));
    else if (kernel_times_read_line(times, lines[i]))
      g_hash_table_add(progress->lines, g_strdup(lines[i]));
  }
}

static char *problem_at(int line, const char *found, const char *expected) {
  g_autofree char *start = g_strndup(found, 200), *valid = g_utf8_make_valid(start, -1);
  return g_strdup_printf("line %d: found \"%s\", expected %s", line + 1, valid, expected);
}

char *calibration_progress_read(CalibrationProgress *progress, const char *text, KernelTimes *times) {
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  const int n = (int)g_strv_length(lines) - 1; /* complete lines: text after the last newline is not one */
  if (n < 1 || strncmp(text, progress->text->str, progress->n_header) != 0) {
    g_autofree char *own = g_strndup(progress->text->str, progress->n_header - 1);
    g_autofree char *expected = g_strdup_printf("\"%s\"", own);
    return problem_at(0, lines[0] != NULL ? lines[0] : "", expected);
  }
  g_autoptr(KernelTimes) checked = kernel_times_new();
  int from = 1;
  for (int i = 1; i < n; i++) {
    if (g_str_has_prefix(lines[i], DONE)) {
      take_part(progress, lines, from, i, times);
      from = i + 1;
    } else if (!kernel_times_read_line(checked, lines[i])) {
      return problem_at(i, lines[i], "a kernel's times, which a machine can have, or what is done");
    }
  }
  if (*lines[n] != '\0')
    return problem_at(n, lines[n], "a whole line");
  return from == n ? NULL : g_strdup_printf("line %d: found the end of the text, expected the rest of a part", n);
}

const char *calibration_progress_add(CalibrationProgress *progress, const char *part, KernelTimes *times) {
  g_autoptr(GString) all = g_string_new(NULL);
  kernel_times_write(times, all);
  g_auto(GStrv) lines = g_strsplit(all->str, "\n", -1);
  for (char **line = lines; *line != NULL; line++)
    if (**line != '\0' && g_hash_table_add(progress->lines, g_strdup(*line)))
      g_string_append_printf(progress->text, "%s\n", *line);
  g_hash_table_add(progress->parts, g_strdup(part));
  g_string_append_printf(progress->text, "%s%s\n", DONE, part);
  return progress->text->str;
}

char *progress_file_read(const char *file, gsize *length, GError **error) {
  char *text = NULL;
  g_autoptr(GError) cause = NULL;
  if (!g_file_get_contents(file, &text, length, &cause) && g_file_test(file, G_FILE_TEST_EXISTS))
    fail_input(error, "%s", cause->message);
  return text;
}

gboolean progress_file_write(const char *file, const char *text, GError **error) {
  g_autofree char *folder = g_path_get_dirname(file);
  WholeFile out;
  g_mkdir_with_parents(folder, 0777);
  if (!whole_file_open(&out, file, error))
    return FALSE;
  whole_file_write(&out, text, strlen(text));
  return whole_file_close(&out, error);
}
