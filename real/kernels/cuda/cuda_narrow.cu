/* Copies for products in fp8. A block makes a tile of 128 × 128 of both copies, which holds whole blocks of every
 * scaling; x is read from memory once, or with one scale for the whole tensor twice:
 *
 *     x ─▶ largest of each part ─▶ scratch         TENSOR: an earlier kernel; every block reads all parts
 *     x ─▶ tile in shared memory ─┬─ scale, round ─▶ as_is     16 codes of a row per thread
 *                                 └─ scale, round ─▶ turned    4 rows × 2 columns per thread
 *
 * Rows of the tile are an odd number of words, so that threads in neighbouring rows read different banks. */
#include "cuda_element.cuh"

#include <cuda_fp8.h>

namespace {

constexpr int TILE = FP8_BLOCK;
constexpr int PAIRS = TILE / 2; /* of bf16, in words */
constexpr int READ_PAIRS = 4;   /* at once */
constexpr int WRITTEN = 16;     /* codes of as_is at once */
constexpr int PLAIN_TILE = 32;  /* of fp32 */
constexpr int LARGEST_BLOCKS = 512;

/* Two numbers of bf16 in a word, the first in the lower half. */
__device__ __forceinline__ float first_of(unsigned pair) {
  return __int_as_float((int)(pair << 16));
}
__device__ __forceinline__ float second_of(unsigned pair) {
  return __int_as_float((int)(pair & 0xffff0000u));
}
__device__ __forceinline__ float largest_of(unsigned pair) {
  return fmaxf(fabsf(first_of(pair)), fabsf(second_of(pair)));
}

template <__nv_fp8_interpretation_t F>
__device__ __forceinline__ unsigned four_codes(float a, float b, float c, float d) {
  const unsigned low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, F);
  const unsigned high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, F);
  return low | high << 16;
}

/* partial[block]: the largest magnitude in the block's rows. NaN is passed over. */
__global__ void find_largest(NarrowKernel k, float *__restrict__ partial) {
  __shared__ float shared[WARP_THREADS];
  float most = 0.0f;
  for (int64_t row = blockIdx.x; row < k.batch * k.rows; row += gridDim.x) {
    const __nv_bfloat16 *x = (const __nv_bfloat16 *)k.x + row / k.rows * k.stride + row % k.rows * k.ld;
    const auto *packs = (const Pack<unsigned, READ_PAIRS> *)x;
    for (int64_t i = threadIdx.x; i < k.columns / (2 * READ_PAIRS); i += blockDim.x) {
      const Pack<unsigned, READ_PAIRS> pack = packs[i];
      for (int j = 0; j < READ_PAIRS; j++)
        most = fmaxf(most, largest_of(pack.v[j]));
    }
  }
  most = block_reduce<MaxOf>(most, shared);
  if (threadIdx.x == 0)
    partial[blockIdx.x] = most;
}

/* A block's part of a matrix. */
struct Place {
  int64_t matrix, row, column;
  int n_rows, n_columns;
};

__device__ Place place_of(const NarrowKernel &k, int tile) {
  Place at = {blockIdx.z, (int64_t)blockIdx.y * tile, (int64_t)blockIdx.x * tile, 0, 0};
  at.n_rows = (int)min((int64_t)tile, k.rows - at.row);
  at.n_columns = (int)min((int64_t)tile, k.columns - at.column);
  return at;
}

/* Zeros beyond the matrix. */
__device__ void read_tile(const NarrowKernel &k, const Place &at, unsigned (*tile)[PAIRS + 1]) {
  constexpr int READS = PAIRS / READ_PAIRS;
  const __nv_bfloat16 *x = (const __nv_bfloat16 *)k.x + at.matrix * k.stride + at.row * k.ld + at.column;
  for (int i = threadIdx.x; i < TILE * READS; i += blockDim.x) {
    const int row = i / READS, first = i % READS * READ_PAIRS;
    Pack<unsigned, READ_PAIRS> pack = {};
    if (row < at.n_rows && 2 * first < at.n_columns)
      pack = *(const Pack<unsigned, READ_PAIRS> *)(x + row * k.ld + 2 * first);
    for (int j = 0; j < READ_PAIRS; j++)
      tile[row][first + j] = pack.v[j];
  }
}

/* The largest of a row, or a column, of the tile. */
__device__ float largest_in_row(const unsigned (*tile)[PAIRS + 1], int row) {
  float most = 0.0f;
  for (int j = 0; j < PAIRS; j++)
    most = fmaxf(most, largest_of(tile[row][j]));
  return most;
}
__device__ float largest_in_column(const unsigned (*tile)[PAIRS + 1], int column) {
  float most = 0.0f;
  for (int i = 0; i < TILE; i++) {
    const unsigned pair = tile[i][column / 2];
    most = fmaxf(most, fabsf(column % 2 == 0 ? first_of(pair) : second_of(pair)));
  }
  return most;
}

/* Scales of the tile's rows, for as_is, and then of its columns, for turned; one thread each. */
__device__ float find_scale(const NarrowKernel &k, const unsigned (*tile)[PAIRS + 1], const float *partial,
                            int n_partial, float *shared) {
  const int line = threadIdx.x % TILE;
  const bool is_row = (int)threadIdx.x < TILE;
  float most = 0.0f;
  if (k.scaling == FP8_TENSOR)
    for (int i = threadIdx.x; i < n_partial; i += blockDim.x)
      most = fmaxf(most, partial[i]);
  else if (is_row)
    most = largest_in_row(tile, line);
  else if (k.scaling == FP8_ROWS)
    most = largest_in_column(tile, line);
  if (k.scaling != FP8_ROWS)
    most = block_reduce<MaxOf>(most, shared);
  return fp8_scale(most, k.format);
}

/* By the thread that has found the scale of a line of the tile. */
__device__ void write_scale(const NarrowKernel &k, const Place &at, float scale) {
  const int line = threadIdx.x % TILE;
  const bool is_row = (int)threadIdx.x < TILE;
  const int64_t rows = is_row ? k.rows : k.columns, columns = is_row ? k.columns : k.rows;
  const int64_t row = (is_row ? at.row : at.column) + line, column = is_row ? at.column : at.row;
  float *scales = is_row ? k.scales : k.turned_scales;
  const bool is_first = k.scaling != FP8_TENSOR || (at.matrix == 0 && at.row == 0 && at.column == 0);
  if (scales == nullptr || row >= rows || !is_first || (k.scaling != FP8_ROWS && line > 0))
    return;
  const int64_t of_matrix = k.scaling == FP8_TENSOR ? 0 : at.matrix * fp8_n_scales(k.scaling, rows, columns);
  scales[of_matrix + fp8_scale_at(k.scaling, rows, columns, row, column)] = 1.0f / scale;
}

template <__nv_fp8_interpretation_t F>
__device__ void write_as_is(const NarrowKernel &k, const Place &at, const unsigned (*tile)[PAIRS + 1],
                            const float *scales) {
  constexpr int WRITES = TILE / WRITTEN;
  guint8 *to = (guint8 *)k.as_is + (at.matrix * k.rows + at.row) * k.columns + at.column;
  for (int i = threadIdx.x; i < TILE * WRITES; i += blockDim.x) {
    const int row = i / WRITES, first = i % WRITES * WRITTEN;
    if (row >= at.n_rows || first >= at.n_columns)
      continue;
    const float scale = scales[row];
    Pack<unsigned, WRITTEN / 4> codes;
    for (int j = 0; j < WRITTEN / 4; j++) {
      const unsigned a = tile[row][first / 2 + 2 * j], b = tile[row][first / 2 + 2 * j + 1];
      codes.v[j] = four_codes<F>(scale * first_of(a), scale * second_of(a), scale * first_of(b), scale * second_of(b));
    }
    *(Pack<unsigned, WRITTEN / 4> *)(to + row * k.columns + first) = codes;
  }
}

/* A warp: 8 times 4 rows × 4 pairs of columns. */
template <__nv_fp8_interpretation_t F>
__device__ void write_turned(const NarrowKernel &k, const Place &at, const unsigned (*tile)[PAIRS + 1],
                             const float *scales) {
  constexpr int ROW_PARTS = TILE / 32, PAIR_PARTS = PAIRS / 4;
  guint8 *to = (guint8 *)k.turned + (at.matrix * k.columns + at.column) * k.rows + at.row;
  const int lane = threadIdx.x % WARP_THREADS;
  for (int part = threadIdx.x / WARP_THREADS; part < ROW_PARTS * PAIR_PARTS; part += blockDim.x / WARP_THREADS) {
    const int row = part % ROW_PARTS * 32 + lane / 4 * 4, pair = part / ROW_PARTS * 4 + lane % 4, column = 2 * pair;
    if (row >= at.n_rows || column >= at.n_columns)
      continue;
    const unsigned a = tile[row][pair], b = tile[row + 1][pair], c = tile[row + 2][pair], d = tile[row + 3][pair];
    const float s = scales[column], t = scales[column + 1];
    *(unsigned *)(to + column * k.rows + row) =
        four_codes<F>(s * first_of(a), s * first_of(b), s * first_of(c), s * first_of(d));
    *(unsigned *)(to + (column + 1) * k.rows + row) =
        four_codes<F>(t * second_of(a), t * second_of(b), t * second_of(c), t * second_of(d));
  }
}

template <__nv_fp8_interpretation_t F>
__global__ void narrow_tiles(NarrowKernel k, const float *__restrict__ partial, int n_partial) {
  __shared__ unsigned tile[TILE][PAIRS + 1];
  __shared__ float scales[2 * TILE];
  __shared__ float shared[WARP_THREADS];
  const Place at = place_of(k, TILE);
  read_tile(k, at, tile);
  __syncthreads();
  const float scale = find_scale(k, tile, partial, n_partial, shared);
  write_scale(k, at, scale);
  scales[threadIdx.x] = scale;
  __syncthreads();
  if (k.as_is != nullptr)
    write_as_is<F>(k, at, tile, scales);
  if (k.turned != nullptr)
    write_turned<F>(k, at, tile, scales + TILE);
}

__global__ void copy_tiles(NarrowKernel k) {
  __shared__ float tile[PLAIN_TILE][PLAIN_TILE + 1];
  const Place at = place_of(k, PLAIN_TILE);
  const float *x = (const float *)k.x + at.matrix * k.stride + at.row * k.ld + at.column;
  float *as_is = (float *)k.as_is + (at.matrix * k.rows + at.row) * k.columns + at.column;
  float *turned = (float *)k.turned + (at.matrix * k.columns + at.column) * k.rows + at.row;
  for (int i = threadIdx.x; i < PLAIN_TILE * PLAIN_TILE; i += blockDim.x) {
    const int row = i / PLAIN_TILE, column = i % PLAIN_TILE;
    if (row >= at.n_rows || column >= at.n_columns)
      continue;
    tile[row][column] = x[row * k.ld + column];
    if (k.as_is != nullptr)
      as_is[row * k.columns + column] = tile[row][column];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < PLAIN_TILE * PLAIN_TILE && k.turned != nullptr; i += blockDim.x) {
    const int column = i / PLAIN_TILE, row = i % PLAIN_TILE;
    if (row < at.n_rows && column < at.n_columns)
      turned[column * k.rows + row] = tile[row][column];
  }
}

dim3 tile_grid(const NarrowKernel *k, int tile) {
  return dim3((unsigned)ceil_div(k->columns, tile), (unsigned)ceil_div(k->rows, tile), (unsigned)k->batch);
}

} // namespace

gint64 cuda_narrow_scratch_bytes(const NarrowKernel *k) {
  return k->to == NUMBER_FP8 && k->scaling == FP8_TENSOR ? LARGEST_BLOCKS * (gint64)sizeof(float) : 0;
}

cudaError_t cuda_narrow(const NarrowKernel *k, void *scratch, cudaStream_t stream) {
  static_assert(BLOCK_THREADS == 2 * TILE, "a thread for each row and each column of a tile");
  if (k->rows % FP8_MULTIPLE != 0 || k->columns % FP8_MULTIPLE != 0)
    return cudaErrorInvalidValue;
  if (k->to == NUMBER_FP32 && k->number == NUMBER_FP32) {
    copy_tiles<<<tile_grid(k, PLAIN_TILE), BLOCK_THREADS, 0, stream>>>(*k);
    return cudaGetLastError();
  }
  if (k->to != NUMBER_FP8 || k->number != NUMBER_BF16)
    return cudaErrorInvalidValue;
  const int n_partial = k->scaling == FP8_TENSOR ? (int)MIN(LARGEST_BLOCKS, k->batch * k->rows) : 0;
  if (n_partial > 0)
    find_largest<<<n_partial, BLOCK_THREADS, 0, stream>>>(*k, (float *)scratch);
  const dim3 grid = tile_grid(k, TILE);
  if (k->format == FP8_E4M3)
    narrow_tiles<__NV_E4M3><<<grid, BLOCK_THREADS, 0, stream>>>(*k, (const float *)scratch, n_partial);
  else
    narrow_tiles<__NV_E5M2><<<grid, BLOCK_THREADS, 0, stream>>>(*k, (const float *)scratch, n_partial);
  return cudaGetLastError();
}
