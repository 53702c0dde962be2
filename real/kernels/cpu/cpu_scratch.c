/* A kernel's scratch memory, kept for the next kernel. */
#include "cpu_isa.h"

#include <stdlib.h>

float *cpu_scratch_floats(CpuScratch *scratch, gint64 n) {
  enum { GRAIN = 1 << 14 }; /* floats: 64 KiB, so that slightly larger kernels do not allocate each time */
  g_assert(n >= 0);
  if ((gsize)n > scratch->n_floats) {
    free(scratch->memory);
    scratch->n_floats = ((gsize)n + GRAIN - 1) / GRAIN * GRAIN;
    scratch->memory = aligned_alloc(64, scratch->n_floats * sizeof(float));
  }
  return scratch->memory;
}
