/* Copies for products in fp8, in tiles of 128 × 128, which hold whole blocks of every scaling:
 *
 *     x ─ widen ─▶ tile [rows][columns] ─ scale, round ─▶ as_is
 *                     └─ transpose ─▶ turned tile [columns][rows] ─ scale, round ─▶ turned
 *
 * One scale for a whole tensor needs a pass over x first. */
#include "cpu_number.h"

#include <math.h>

enum { TILE = FP8_BLOCK };

/* A copy, as the matrix that products read: as_is, or turned. */
typedef struct {
  char *to;
  float *scales;
  gint64 rows, columns;
} Copy;

static float largest_of(const float *x, gint64 n) {
  float most = 0;
#pragma omp simd reduction(max : most)
  for (gint64 i = 0; i < n; i++) {
    const float size = fabsf(x[i]);
    most = size > most ? size : most; /* passes over NaN */
  }
  return most;
}

static const float *x_row(const NarrowKernel *narrow, gint64 matrix, gint64 row, gint64 column, gint64 n,
                          float *buffer) {
  return row_in(narrow->x, (Number)narrow->number, matrix * narrow->stride + row * narrow->ld + column, n, buffer);
}

static float largest_of_all(const NarrowKernel *narrow, float *buffer) {
  float most = 0;
  for (gint64 matrix = 0; matrix < narrow->batch; matrix++)
    for (gint64 row = 0; row < narrow->rows; row++)
      for (gint64 column = 0; column < narrow->columns; column += TILE) {
        const gint64 n = MIN(TILE, narrow->columns - column);
        const float size = largest_of(x_row(narrow, matrix, row, column, n, buffer), n);
        most = MAX(most, size);
      }
  return most;
}

/* The scale of each row of a tile, which is at (first_row, first_column) of the copy; keeps their inverses. */
static void find_scales(const NarrowKernel *narrow, const Copy *copy, const float *tile, gint64 first_row,
                        gint64 first_column, gint64 n_rows, gint64 n_columns, float scales[TILE]) {
  float most = 0;
  for (gint64 row = 0; row < n_rows; row++) {
    scales[row] = largest_of(tile + row * TILE, n_columns);
    most = MAX(most, scales[row]);
  }
  for (gint64 row = 0; row < n_rows; row++) {
    scales[row] = fp8_scale(narrow->scaling == FP8_ROWS ? scales[row] : most, narrow->format);
    copy->scales[fp8_scale_at(narrow->scaling, copy->rows, copy->columns, first_row + row, first_column)] =
        1.0f / scales[row];
  }
}

static void write_tile(const NarrowKernel *narrow, const Copy *copy, const float *tile, gint64 first_row,
                       gint64 first_column, float whole_scale) {
  const gint64 n_rows = MIN(TILE, copy->rows - first_row), n_columns = MIN(TILE, copy->columns - first_column);
  float scales[TILE];
  if (narrow->to == NUMBER_FP8 && narrow->scaling != FP8_TENSOR)
    find_scales(narrow, copy, tile, first_row, first_column, n_rows, n_columns, scales);
  for (gint64 row = 0; row < n_rows; row++) {
    const gint64 at = (first_row + row) * copy->columns + first_column;
    if (narrow->to == NUMBER_FP8)
      fp8_round(tile + row * TILE, n_columns, narrow->scaling == FP8_TENSOR ? whole_scale : scales[row],
                (Fp8Format)narrow->format, (guint8 *)copy->to + at);
    else
      numbers_round(tile + row * TILE, n_columns, (Number)narrow->to, element_of(copy->to, (Number)narrow->to, at));
  }
}

/* Whole tiles are transposed, whatever they hold beyond the matrix. */
static void transpose(const float *tile, float *turned) {
  for (gint64 row = 0; row < TILE; row++)
    for (gint64 column = 0; column < TILE; column++)
      turned[column * TILE + row] = tile[row * TILE + column];
}

static Copy copy_of(const NarrowKernel *narrow, gint64 matrix, gboolean is_turned) {
  char *base = is_turned ? narrow->turned : narrow->as_is;
  float *scales = is_turned ? narrow->turned_scales : narrow->scales;
  Copy copy = {.rows = is_turned ? narrow->columns : narrow->rows,
               .columns = is_turned ? narrow->rows : narrow->columns};
  if (base != NULL)
    copy.to = element_of(base, (Number)narrow->to, matrix * copy.rows * copy.columns);
  if (base != NULL && narrow->to == NUMBER_FP8)
    copy.scales =
        scales + (narrow->scaling == FP8_TENSOR ? 0 : matrix * fp8_n_scales(narrow->scaling, copy.rows, copy.columns));
  return copy;
}

static void narrow_matrix(const NarrowKernel *narrow, gint64 matrix, float whole_scale, float *tile, float *turned) {
  const Copy as_is = copy_of(narrow, matrix, FALSE), other = copy_of(narrow, matrix, TRUE);
  for (gint64 row = 0; row < narrow->rows; row += TILE)
    for (gint64 column = 0; column < narrow->columns; column += TILE) {
      const gint64 n_rows = MIN(TILE, narrow->rows - row), n_columns = MIN(TILE, narrow->columns - column);
      for (gint64 i = 0; i < n_rows; i++) {
        const float *from = x_row(narrow, matrix, row + i, column, n_columns, tile + i * TILE);
        if (from != tile + i * TILE)
          memcpy(tile + i * TILE, from, sizeof *tile * (gsize)n_columns);
      }
      if (as_is.to != NULL)
        write_tile(narrow, &as_is, tile, row, column, whole_scale);
      if (other.to == NULL)
        continue;
      transpose(tile, turned);
      write_tile(narrow, &other, turned, column, row, whole_scale);
    }
}

CPU_KERNEL(narrow) {
  const NarrowKernel *narrow = &kernel->narrow;
  g_assert(narrow->rows % FP8_MULTIPLE == 0 && narrow->columns % FP8_MULTIPLE == 0);
  g_assert(narrow->to == NUMBER_FP8 || (narrow->to == NUMBER_FP32 && narrow->number == NUMBER_FP32));
  float *tile = cpu_scratch_floats(scratch, 2 * TILE * TILE), whole_scale = 1;
  memset(tile, 0, sizeof *tile * TILE * TILE);
  if (narrow->to == NUMBER_FP8 && narrow->scaling == FP8_TENSOR) {
    whole_scale = fp8_scale(largest_of_all(narrow, tile), narrow->format);
    if (narrow->as_is != NULL)
      *narrow->scales = 1.0f / whole_scale;
    if (narrow->turned != NULL)
      *narrow->turned_scales = 1.0f / whole_scale;
  }
  for (gint64 matrix = 0; matrix < narrow->batch; matrix++)
    narrow_matrix(narrow, matrix, whole_scale, tile, tile + TILE * TILE);
}
