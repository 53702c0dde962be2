/* GPU memory that plans must leave free: for allocator fragmentation, longer sequences in some batch, and errors of
 * the prediction. It does not cover context and libraries: those are `reserved` in the GPU's file, and in the
 * framework's file. */
#pragma once
#include "cluster.h"

/* One of the two; zeroed: none. */
typedef struct {
  double share; /* [0, 1) of the GPU's memory */
  double bytes;
} MemoryMargin;

/* "5 %", "0.05" or "4 GB". INPUT saying what was found and what is expected. */
gboolean memory_margin_parse(const char *text, MemoryMargin *margin, GError **error);
/* Text that parses to exactly the same margin; equal margins give equal texts. Owned by the caller. */
char *memory_margin_text(const MemoryMargin *margin);
/* Set margin_bytes of all kinds of GPU in the cluster. INPUT if one of them would have nothing left. */
gboolean memory_margin_apply(const MemoryMargin *margin, Cluster *cluster, GError **error);
