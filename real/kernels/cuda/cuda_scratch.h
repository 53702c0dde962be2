/* Device memory that grows on demand. Growing frees nothing, because cudaFree waits for the whole device, where a
 * stream may be waiting for another rank. Outgrown memory is freed at the end; growing by at least half keeps the
 * total below three times the current size. Zeroed is a valid empty one. */
#pragma once
#include <glib.h>

typedef struct {
  void *memory;
  gint64 bytes;
  GSList *outgrown;
} CudaScratch;

/* At least `bytes`, valid until more is requested or it is cleared; NULL with the error. */
void *cuda_scratch_get(CudaScratch *scratch, gint64 bytes, GError **error);
void cuda_scratch_clear(CudaScratch *scratch); /* nothing may still be using it */
