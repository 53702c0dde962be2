/* Device memory that grows to what was asked for. Growing frees nothing: cudaFree waits for the whole device, and a
 * stream of it may be waiting for another rank. What was outgrown goes with the rest; growth by half more at least
 * keeps the sum below three times the last. All zero is an empty one. */
#pragma once
#include <glib.h>

typedef struct {
  void *memory;
  gint64 bytes;
  GSList *outgrown;
} CudaScratch;

/* At least `bytes`, valid until asked for again with more or cleared; NULL with the error. */
void *cuda_scratch_get(CudaScratch *scratch, gint64 bytes, GError **error);
void cuda_scratch_clear(CudaScratch *scratch); /* nothing may be using it any more */
