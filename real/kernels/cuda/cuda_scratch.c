#include "cuda_scratch.h"

#include "cuda_call.h"

void *cuda_scratch_get(CudaScratch *scratch, gint64 bytes, GError **error) {
  if (scratch->memory != NULL && bytes <= scratch->bytes)
    return scratch->memory;
  const gint64 wanted = MAX(MAX(bytes, 256), scratch->bytes * 3 / 2);
  void *memory = NULL;
  if (!CUDA_CALL(cudaMalloc(&memory, (gsize)wanted), error))
    return NULL;
  if (scratch->memory != NULL)
    scratch->outgrown = g_slist_prepend(scratch->outgrown, scratch->memory);
  scratch->memory = memory;
  scratch->bytes = wanted;
  return memory;
}

void cuda_scratch_clear(CudaScratch *scratch) {
  for (GSList *i = scratch->outgrown; i != NULL; i = i->next)
    (void)cudaFree(i->data);
  g_slist_free(scratch->outgrown);
  (void)cudaFree(scratch->memory);
  *scratch = (CudaScratch){0};
}
