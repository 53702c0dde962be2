/* Private to forward and backward of fused attention: one head's rows of one sequence as an fp32 matrix, and products
 * of such matrices (panels). */
#pragma once
#include "cpu_number.h"

#include <cblas.h>

/* n rounded up to the widest float vector of any supported instruction set. */
static inline gint64 whole_vectors(gint64 n) {
  return (n + 15) / 16 * 16;
}

/* Number of the block's keys that a query sees. */
static inline gint64 flash_block_seen(const FlashBlock *block, gint64 query) {
  return block->is_full ? block->keys : query + 1 + block->keys - block->queries;
}

/* The first of the block's keys that a query sees. */
static inline gint64 flash_first_seen(const ScoreRule *rule, const FlashBlock *block, gint64 query) {
  return first_seen(rule, query + block->keys - block->queries);
}

/* s[j] −= slope·(distance from the query to the j-th key after first_key). */
static inline void flash_bias_row(const FlashBlock *block, float slope, gint64 query, gint64 first_key, gint64 n,
                                  float *s) {
  const gint64 at = row_position(&block->query_at, query), n_early = CLAMP(block->key_at.half - first_key, 0, n);
  const float early = (float)(at - first_key - block->key_at.early),
              late = (float)(at - first_key - block->key_at.late);
#pragma omp simd
  for (gint64 j = 0; j < n_early; j++)
    s[j] -= slope * (early - (float)j);
#pragma omp simd
  for (gint64 j = n_early; j < n; j++)
    s[j] -= slope * (late - (float)j);
}

/* s[j] *= the dropout factor of the j-th key after first_key, in a query's row. */
static inline void flash_drop_row(const FlashKernel *flash, const FlashBlock *block, gint64 sequence, gint64 head,
                                  gint64 query, gint64 first_key, gint64 n, float *s) {
  const guint64 row = score_row_place(&flash->drop, sequence, head, row_position(&block->query_at, query));
  for (gint64 j = 0; j < n; j++)
    s[j] *= dropout_factor(&flash->drop.dropout, row + (guint64)row_position(&block->key_at, first_key + j));
}

/* Rows of head_dim elements, ld apart. */
typedef struct {
  float *data;
  gint64 ld;
} Panel;

static inline float *panel_row(Panel panel, gint64 row) {
  return panel.data + row * panel.ld;
}

/* Rows of a matrix in memory: `rows` rows of `width` elements; the first is `first` elements after `base`, the others
 * follow `ld` elements apart. */
typedef struct {
  const void *base;
  Number number;
  gint64 first, ld, rows, width;
} PanelPlace;

/* The rows as fp32: in place if they are fp32, else widened into `buffer` (rows × width). */
static inline Panel panel_in(PanelPlace place, float *buffer) {
  if (place.number == NUMBER_FP32) /* callers only read it */
    return (Panel){(float *)(gsize)const_element_of(place.base, place.number, place.first), place.ld};
  for (gint64 row = 0; row < place.rows; row++)
    numbers_widen(const_element_of(place.base, place.number, place.first + row * place.ld), place.number, place.width,
                  buffer + row * place.width);
  return (Panel){buffer, place.width};
}

/* The same for results: the caller writes the panel, then calls panel_close(). `base` is not const to its owner. */
static inline Panel panel_out(PanelPlace place, float *buffer) {
  if (place.number == NUMBER_FP32)
    return (Panel){element_of((void *)(gsize)place.base, place.number, place.first), place.ld};
  return (Panel){buffer, place.width};
}

static inline void panel_close(PanelPlace place, Panel panel) {
  for (gint64 row = 0; row < place.rows; row++)
    row_close((void *)(gsize)place.base, place.number, place.first + row * place.ld, place.width,
              panel_row(panel, row));
}

/* c (m×n) = alpha·a·b + beta·c with a (m×k) and b (k×n), either of them transposed. */
static inline void panel_product(CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, gint64 m, gint64 n, gint64 k,
                                 float alpha, Panel a, Panel b, float beta, Panel c) {
  cblas_sgemm(CblasRowMajor, turn_a, turn_b, (blasint)m, (blasint)n, (blasint)k, alpha, a.data, (blasint)a.ld, b.data,
              (blasint)b.ld, beta, c.data, (blasint)c.ld);
}
