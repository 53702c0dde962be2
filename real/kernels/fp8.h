/* Numbers of 8 bits (arXiv 2209.05433), and the scales of what is stored in them:
 *
 *                sign, exponent, mantissa    largest        smallest     ∞     NaN
 *     e4m3       1, 4, 3   bias 7            448            2^-9         –     0x7f, 0xff
 *     e5m2       1, 5, 2   bias 15           57344          2^-16        0x7c  0x7d … 0x7f
 *
 * A number x is stored as code(s·x), rounded to nearest, ties to even, and what is beyond the largest as the largest;
 * NaN is 0x7f. s brings the largest magnitude among the elements that share it just below the format's largest. It is
 * found from the tensor as it is now (current scaling), and is a power of two: so an element is rounded alike whichever
 * elements share its scale, except near 0, and every sharding of a tensor holds the same numbers. The inverse 1/s is
 * kept with the codes. */
#pragma once
#include "host_device.h"

#include <glib.h>

#include <string.h>

typedef enum { FP8_E4M3, FP8_E5M2, N_FP8_FORMATS } Fp8Format;

/* Which elements share a scale, of a matrix of rows × columns of which products sum over the columns; and the order of
 * the inverse scales in memory, as cuBLASLt reads them ("128-element 1D and 128x128 2D Block Scaling", 13.0):
 *   TENSOR   all, also those of other matrices of a batch
 *   ROWS     128 columns of a row             [⌈columns/128⌉][rows]
 *   BLOCKS   128 rows × 128 columns           [⌈rows/128⌉][⌈columns/128⌉, rounded up to 4] */
typedef enum { FP8_TENSOR, FP8_ROWS, FP8_BLOCKS } Fp8Scaling;

/* What sizes of products in fp8 must be multiples of: 16 bytes of each row (cuBLASLt, "To use FP8 kernels"). */
enum { FP8_BLOCK = 128, FP8_MULTIPLE = 16 };

HOST_DEVICE float fp8_largest(int format) {
  return format == FP8_E4M3 ? 448.0f : 57344.0f;
}

/* s for elements of at most this magnitude; 1 if that is 0, ∞ or NaN. No larger than 2^126, so that 1/s is normal. */
HOST_DEVICE float fp8_scale(float magnitude, int format) {
  const float most = 0x1p126f, largest_float = 0x1.fffffep127f;
  if (!(magnitude > 0.0f && magnitude <= largest_float))
    return 1.0f;
  const float scale = fp8_largest(format) / magnitude;
  guint32 bits;
  memcpy(&bits, &scale, sizeof bits);
  bits &= 0xff800000u; /* rounded down to a power of two */
  float power;
  memcpy(&power, &bits, sizeof power);
  return power < most ? power : most;
}

HOST_DEVICE gint64 fp8_n_blocks(gint64 n) {
  return (n + FP8_BLOCK - 1) / FP8_BLOCK;
}

/* From the scales of one row of BLOCKS to those of the next. */
HOST_DEVICE gint64 fp8_block_ld(gint64 columns) {
  return (fp8_n_blocks(columns) + 3) / 4 * 4;
}

/* Of one matrix. Also the distance from one matrix's scales to the next one's in a batch; with TENSOR all share the
 * first. */
HOST_DEVICE gint64 fp8_n_scales(int scaling, gint64 rows, gint64 columns) {
  return scaling == FP8_TENSOR ? 1
         : scaling == FP8_ROWS ? fp8_n_blocks(columns) * rows
                               : fp8_n_blocks(rows) * fp8_block_ld(columns);
}

/* Where the scale of an element is, of a matrix with that many rows and columns. */
HOST_DEVICE gint64 fp8_scale_at(int scaling, gint64 rows, gint64 columns, gint64 row, gint64 column) {
  return scaling == FP8_TENSOR ? 0
         : scaling == FP8_ROWS ? column / FP8_BLOCK * rows + row
                               : row / FP8_BLOCK * fp8_block_ld(columns) + column / FP8_BLOCK;
}
