/* Rotary positions, and the joins and splits around them in latent attention (LatentKernel). One block per row:
 * angles once, in double (positions reach 10⁵, where a float angle is off by 10⁻²), then all heads. */
#include "cuda_element.cuh"

namespace {

/* [half] cosines, [half] sines of a row, in shared memory. */
__device__ __forceinline__ void find_angles(float *angles, int64_t seq_len, SequencePieces pieces, int half,
                                            double log2_base, bool inverse) {
  const int64_t position = sequence_position(pieces, blockIdx.x % seq_len, seq_len);
  for (int j = threadIdx.x; j < half; j += blockDim.x) {
    double sine, cosine;
    sincos((double)position * exp2(-log2_base * j / half), &sine, &cosine);
    angles[j] = (float)cosine;
    angles[half + j] = (float)(inverse ? -sine : sine);
  }
  __syncthreads();
}

template <typename T> __global__ void rope(RopeKernel k, double log2_base) {
  extern __shared__ float angles[];
  const int half = (int)k.head_dim / 2, n = (int)k.n_heads * half;
  find_angles(angles, k.seq_len, k.pieces, half, log2_base, k.inverse);
  T *row = (T *)k.x + blockIdx.x * k.ld;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const int j = i % half;
    T *first = row + (int64_t)(i / half) * k.head_stride + j, *second = first + half;
    const float a = to_float(*first), b = to_float(*second);
    *first = from_float<T>(a * angles[j] - b * angles[half + j]);
    *second = from_float<T>(b * angles[j] + a * angles[half + j]);
  }
}

/* Column d of a head's rotated part: the rotated value of a pair. */
__device__ __forceinline__ float turned(float a, float b, const float *angles, int half, int d) {
  return d < half ? a * angles[d] - b * angles[half + d] : b * angles[d - half] + a * angles[d];
}

template <typename T> __global__ void latent_join(LatentKernel k, double log2_base) {
  extern __shared__ float angles[];
  const int plain = (int)k.plain_dim, rotated = (int)k.rotated_dim, v_dim = (int)k.v_dim, half = rotated / 2;
  const int k_dim = plain + rotated, heads = (int)k.n_heads;
  find_angles(angles, k.seq_len, k.pieces, half, log2_base, false);
  const T *made = (const T *)k.made + blockIdx.x * k.n_heads * (plain + v_dim);
  const T *shared = (const T *)k.shared + blockIdx.x * k.ld_shared;
  T *key = (T *)k.k + blockIdx.x * k.ld_kv, *value = (T *)k.v + blockIdx.x * k.ld_kv;
  for (int i = threadIdx.x; i < heads * k_dim; i += blockDim.x) {
    const int head = i / k_dim, d = i % k_dim, j = (d - plain) % half;
    key[i] = d < plain
                 ? made[head * (plain + v_dim) + d]
                 : from_float<T>(turned(to_float(shared[j]), to_float(shared[half + j]), angles, half, d - plain));
  }
  for (int i = threadIdx.x; i < heads * v_dim; i += blockDim.x)
    value[i] = made[i / v_dim * (plain + v_dim) + plain + i % v_dim];
}

/* One thread sums a column over all heads, in a fixed order. */
template <typename T> __global__ void latent_split(LatentKernel k, double log2_base) {
  extern __shared__ float angles[]; /* followed by the sums: [rotated] */
  const int plain = (int)k.plain_dim, rotated = (int)k.rotated_dim, v_dim = (int)k.v_dim, half = rotated / 2;
  const int k_dim = plain + rotated, heads = (int)k.n_heads;
  float *sums = angles + rotated;
  T *made = (T *)k.made + blockIdx.x * k.n_heads * (plain + v_dim);
  T *shared = (T *)k.shared + blockIdx.x * k.ld_shared;
  const T *key = (const T *)k.k + blockIdx.x * k.ld_kv, *value = (const T *)k.v + blockIdx.x * k.ld_kv;
  for (int d = threadIdx.x; d < rotated; d += blockDim.x) {
    sums[d] = 0.0f;
    for (int head = 0; head < heads; head++)
      sums[d] += to_float(key[head * k_dim + plain + d]);
  }
  find_angles(angles, k.seq_len, k.pieces, half, log2_base, true);
  for (int d = threadIdx.x; d < rotated; d += blockDim.x)
    shared[d] = from_float<T>(turned(sums[d % half], sums[half + d % half], angles, half, d));
  for (int i = threadIdx.x; i < heads * (plain + v_dim); i += blockDim.x) {
    const int head = i / (plain + v_dim), d = i % (plain + v_dim);
    made[i] = d < plain ? key[head * k_dim + d] : value[head * v_dim + d - plain];
  }
}

} // namespace

CUDA_KERNEL(rope, RopeKernel, block_for_each(k->rows), BLOCK_THREADS, k->head_dim * sizeof(float), *k, log2(k->base))
CUDA_KERNEL(latent_join, LatentKernel, block_for_each(k->rows), BLOCK_THREADS, k->rotated_dim * sizeof(float), *k,
            log2(k->base))
CUDA_KERNEL(latent_split, LatentKernel, block_for_each(k->rows), BLOCK_THREADS, 2 * k->rotated_dim * sizeof(float), *k,
            log2(k->base))
