/* CSV files from text, for tests. */
#pragma once
#include "error.h"
#include "measured_rows.h"
#include "text_file.h"

/* Returns the path; remove and free it with drop_file(). */
static inline char *make_file(const char *text, gsize length) {
  return text_file_new(".csv", text, (gssize)length);
}

static inline void drop_file(char *path) {
  text_file_drop(path);
}

static inline MeasuredRows *read_rows(const char *text, gsize length, GError **error) {
  char *path = make_file(text, length);
  MeasuredRows *rows = measured_rows_read(&path, 1, &(MeasuredAs){TRUE}, error);
  drop_file(path);
  return rows;
}

static inline MeasuredRows *rows_of(const char *text) {
  g_autoptr(GError) error = NULL;
  MeasuredRows *rows = read_rows(text, strlen(text), &error);
  ck_assert_msg(rows != NULL, "%s", error == NULL ? "no message" : error->message);
  return rows;
}

static inline const MeasuredRow *nth_row(const MeasuredRows *rows, guint i) {
  ck_assert_uint_lt(i, rows->rows->len);
  return &g_array_index(rows->rows, MeasuredRow, i);
}
