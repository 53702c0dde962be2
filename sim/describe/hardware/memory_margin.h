/* Memory of a GPU that plans are to leave free: for fragments that an allocator cannot join, for a batch of longer
 * sequences, for what a prediction gets wrong. What context and libraries take is not in it: that is `reserved` of the
 * GPU's file and what a framework's file says. */
#pragma once
#include "cluster.h"

/* One of both; zeroed: none. */
typedef struct {
  double share; /* [0, 1) of the GPU's memory */
  double bytes;
} MemoryMargin;

/* "5 %", "0.05" or "4 GB". INPUT saying what was found and what is expected. */
gboolean memory_margin_parse(const char *text, MemoryMargin *margin, GError **error);
/* Text that gives the same margin again, to the bit, and equal margins equal texts. Owned by the caller. */
char *memory_margin_text(const MemoryMargin *margin);
/* Set margin_bytes of the cluster's GPUs, of all kinds. INPUT when one of them would have nothing left. */
gboolean memory_margin_apply(const MemoryMargin *margin, Cluster *cluster, GError **error);
