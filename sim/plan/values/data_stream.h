/* Training data as a stream: the ranks that need tokens (tp's first, of the first and the last stage, of every replica)
 * have readers, processes that read samples from storage and prepare them while earlier micro-batches are computed. A
 * sample is one sequence. What they prepare stands in a queue for the forward that takes it; a forward that finds it
 * empty waits. Readers are as many micro-batches ahead as PyTorch's DataLoader allows, its prefetch_factor of 2 for
 * each (torch.utils.data, 2.8, 2025).
 *
 *     600kB                                       bytes read for a sample
 *     600kB+readers=4+time=3ms+storage=20GB/s     readers of a rank, time one of them takes for a sample, what storage
 *                                                 gives all nodes together (default: the cluster's) */
#pragma once
#include <glib.h>

enum { DATA_AHEAD_OF_READER = 2 }; /* micro-batches */

typedef struct {
  double sample_bytes; /* 0: data is always there */
  int readers;
  double sample_s;    /* of one reader, besides reading */
  double storage_Bps; /* 0: the cluster's */
} DataStream;

/* "none", or as above. INPUT. */
gboolean data_stream_parse(const char *what, const char *text, DataStream *data, GError **error);
/* Static. */
const char *data_stream_text(const DataStream *data);
