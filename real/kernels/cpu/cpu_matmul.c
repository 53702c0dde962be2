/* Matrix products. fp32 is passed to sgemm whole. Other formats are processed in tiles: A and B are widened tile by
 * tile; C is kept in fp32 over the whole of k and rounded once:
 *
 *            k →                n →
 *      m  A [TILE_M × TILE_K]·  B [TILE_K × TILE_N]   summed over k into  C [TILE_M × TILE_N], fp32 scratch
 *      ↓
 *
 * Each element of A is widened n / TILE_N times, negligible beside the 2·TILE_N FLOP it is used for each time. Rows
 * of C start as the bias or the old values, and sgemm adds to them. Numbers in fp8 are widened with their scales, which
 * are powers of two, so that this is exact. */
#include "cpu_number.h"

#include <cblas.h>

enum { TILE_M = 512, TILE_N = 512, TILE_K = 1024 };

typedef struct {
  gint64 row, column, n_rows, n_columns;
} Block;

/* An operand in fp8, whose columns are summed over. */
typedef struct {
  const guint8 *codes;
  const float *scales;
  const Fp8Operand *operand;
  gint64 rows, columns, ld;
} Fp8Matrix;

static void fp8_block_in(const Fp8Matrix *matrix, Block block, float *buffer) {
  const Fp8Operand *operand = matrix->operand;
  for (gint64 i = 0; i < block.n_rows; i++)
    for (gint64 j = 0; j < block.n_columns; j += FP8_BLOCK) {
      const gint64 row = block.row + i, column = block.column + j;
      const float scale = matrix->scales[fp8_scale_at(operand->scaling, matrix->rows, matrix->columns, row, column)];
      fp8_widen(matrix->codes + row * matrix->ld + column, (Fp8Format)operand->format,
                MIN(FP8_BLOCK, block.n_columns - j), scale, buffer + i * block.n_columns + j);
    }
}

/* A block of a stored matrix in fp32: in place, or widened into `buffer` (dense). */
static const float *block_in(const void *base, Number number, gint64 ld, Block block, float *buffer, gint64 *block_ld) {
  if (number == NUMBER_FP32) {
    *block_ld = ld;
    return (const float *)base + block.row * ld + block.column;
  }
  *block_ld = block.n_columns;
  for (gint64 i = 0; i < block.n_rows; i++)
    numbers_widen(const_element_of(base, number, (block.row + i) * ld + block.column), number, block.n_columns,
                  buffer + i * block.n_columns);
  return buffer;
}

/* Prepares what sgemm adds to; FALSE if sgemm is to overwrite. */
static gboolean start_c(const MatmulKernel *matmul, const void *old, Block block, float *c, gint64 ldc) {
  const Number number = matmul_bias_number(matmul), result = (Number)matmul->result;
  if (matmul->bias != NULL) {
    for (gint64 i = 0; i < block.n_rows; i++)
      numbers_widen(const_element_of(matmul->bias, number, block.column), number, block.n_columns, c + i * ldc);
    return TRUE;
  }
  if (matmul->accumulate && result != NUMBER_FP32)
    for (gint64 i = 0; i < block.n_rows; i++)
      numbers_widen(const_element_of(old, result, (block.row + i) * matmul->ldc + block.column), result,
                    block.n_columns, c + i * ldc);
  return matmul->accumulate;
}

typedef struct {
  const void *a, *b;
  void *c;
  const float *a_scales, *b_scales; /* fp8 */
  float *a_tile, *b_tile, *c_tile;
  gint64 tile_k;
} Operands;

/* Widens blocks of A and B, whose rows are those and the columns of C, into the tiles. */
static void fp8_blocks_in(const MatmulKernel *matmul, const Operands *op, Block of_a, Block of_b) {
  const Fp8Matrix a = {op->a, op->a_scales, &matmul->fp8_a, matmul->m, matmul->k, matmul->lda};
  const Fp8Matrix b = {op->b, op->b_scales, &matmul->fp8_b, matmul->n, matmul->k, matmul->ldb};
  fp8_block_in(&a, of_a, op->a_tile);
  fp8_block_in(&b, of_b, op->b_tile);
}

static void add_product(const MatmulKernel *matmul, const Operands *op, Block block, gint64 first_k, gint64 k,
                        float beta, float *c, gint64 ldc) {
  gboolean a_turned = matmul->layout == LAYOUT_NT, b_turned = matmul->layout == LAYOUT_TN;
  Block of_a = {block.row, first_k, block.n_rows, k}, of_b = {first_k, block.column, k, block.n_columns};
  if (a_turned)
    of_a = (Block){first_k, block.row, k, block.n_rows};
  if (b_turned)
    of_b = (Block){block.column, first_k, block.n_columns, k};
  gint64 lda = k, ldb = k;
  const float *a = op->a_tile, *b = op->b_tile;
  if (matmul->number == NUMBER_FP8) {
    fp8_blocks_in(matmul, op, of_a, of_b);
  } else {
    a = block_in(op->a, (Number)matmul->number, matmul->lda, of_a, op->a_tile, &lda);
    b = block_in(op->b, (Number)matmul->number, matmul->ldb, of_b, op->b_tile, &ldb);
  }
  cblas_sgemm(CblasRowMajor, a_turned ? CblasTrans : CblasNoTrans, b_turned ? CblasTrans : CblasNoTrans,
              (blasint)block.n_rows, (blasint)block.n_columns, (blasint)k, matmul->alpha, a, (blasint)lda, b,
              (blasint)ldb, beta, c, (blasint)ldc);
}

static void multiply_block(const MatmulKernel *matmul, const Operands *op, Block block) {
  Number result = (Number)matmul->result;
  gboolean is_direct = result == NUMBER_FP32;
  float *c = is_direct ? (float *)op->c + block.row * matmul->ldc + block.column : op->c_tile;
  gint64 ldc = is_direct ? matmul->ldc : block.n_columns;
  gboolean adds = start_c(matmul, op->c, block, c, ldc);
  for (gint64 k = 0; k < matmul->k; k += op->tile_k) {
    add_product(matmul, op, block, k, MIN(op->tile_k, matmul->k - k), adds ? 1.0f : 0.0f, c, ldc);
    adds = TRUE;
  }
  if (!is_direct)
    for (gint64 i = 0; i < block.n_rows; i++)
      numbers_round(c + i * ldc, block.n_columns, result,
                    element_of(op->c, result, (block.row + i) * matmul->ldc + block.column));
}

/* The scales of a matrix of the batch. */
static const float *scales_of(const Fp8Operand *operand, gint64 matrix, gint64 rows, gint64 columns) {
  return operand->scales +
         (operand->scaling == FP8_TENSOR ? 0 : matrix * fp8_n_scales(operand->scaling, rows, columns));
}

static void check_fp8(const MatmulKernel *matmul) {
  g_assert(matmul->layout == LAYOUT_TN && matmul->m % FP8_MULTIPLE == 0 && matmul->n % FP8_MULTIPLE == 0 &&
           matmul->k % FP8_MULTIPLE == 0);
  g_assert(matmul->fp8_a.format == FP8_E4M3 || matmul->fp8_b.format == FP8_E4M3);
}

CPU_KERNEL(matmul) {
  const MatmulKernel *matmul = &kernel->matmul;
  g_assert(matmul->m > 0 && matmul->n > 0 && matmul->k > 0 && !(matmul->accumulate && matmul->bias != NULL));
  g_assert(MAX(MAX(matmul->m, matmul->n), matmul->k) <= G_MAXINT32 &&
           MAX(MAX(matmul->lda, matmul->ldb), matmul->ldc) <= G_MAXINT32);
  Number number = (Number)matmul->number, result = (Number)matmul->result;
  if (number == NUMBER_FP8)
    check_fp8(matmul);
  gboolean is_whole = number == NUMBER_FP32 && result == NUMBER_FP32;
  gint64 tile_m = is_whole ? matmul->m : MIN(matmul->m, TILE_M), tile_n = is_whole ? matmul->n : MIN(matmul->n, TILE_N);
  Operands op = {.tile_k = is_whole ? matmul->k : MIN(matmul->k, TILE_K)};
  if (!is_whole) {
    op.a_tile = cpu_scratch_floats(scratch, tile_m * op.tile_k + op.tile_k * tile_n + tile_m * tile_n);
    op.b_tile = op.a_tile + tile_m * op.tile_k;
    op.c_tile = op.b_tile + op.tile_k * tile_n;
  }
  for (gint64 i = 0; i < MAX(matmul->batch, 1); i++) {
    op.a = const_element_of(matmul->a, number, i * matmul->stride_a);
    op.b = const_element_of(matmul->b, number, i * matmul->stride_b);
    op.c = element_of(matmul->c, result, i * matmul->stride_c);
    if (number == NUMBER_FP8) {
      op.a_scales = scales_of(&matmul->fp8_a, i, matmul->m, matmul->k);
      op.b_scales = scales_of(&matmul->fp8_b, i, matmul->n, matmul->k);
    }
    for (gint64 row = 0; row < matmul->m; row += tile_m)
      for (gint64 column = 0; column < matmul->n; column += tile_n)
        multiply_block(matmul, &op,
                       (Block){row, column, MIN(tile_m, matmul->m - row), MIN(tile_n, matmul->n - column)});
  }
}
