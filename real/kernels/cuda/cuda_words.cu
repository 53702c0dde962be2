/* Writing a word of host memory, and waiting for one, in stream order, where the driver's stream memory operations
 * are not supported. Waiting occupies one thread of one multiprocessor. */
#include "cuda_element.cuh"

namespace {

__global__ void write_word(volatile guint32 *word, guint32 value) {
  __threadfence_system(); /* makes earlier work on the stream visible first */
  *word = value;
}

/* Waits until *word has reached value, modulo 2^32. */
__global__ void await_word(const volatile guint32 *word, guint32 value) {
  while ((gint32)(*word - value) < 0)
    __nanosleep(500);
  __threadfence_system();
}

} // namespace

cudaError_t cuda_write_word(guint32 *word, guint32 value, cudaStream_t stream) {
  write_word<<<1, 1, 0, stream>>>(word, value);
  return cudaGetLastError();
}

cudaError_t cuda_await_word(const guint32 *word, guint32 value, cudaStream_t stream) {
  await_word<<<1, 1, 0, stream>>>(word, value);
  return cudaGetLastError();
}
