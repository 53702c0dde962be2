/* The pairs of query and key that attention processes, over whole or cut heads and sequences: shared by its kernels,
 * its memory and the model's FLOPs. */
#include "pieces.h"

#include <math.h>

/* The first `window` queries see 1, 2, … keys, all others `window`. */
double attention_pairs(gint64 seq_len, gint64 window) {
  const gint64 growing = window > 0 ? MIN(window, seq_len) : seq_len;
  return (double)growing * (growing + 1) / 2 + (double)(seq_len - growing) * growing;
}

/* The same in chunks: whole ones, and the rest. */
static double chunked_pairs(gint64 seq_len, gint64 chunk) {
  return (double)(seq_len / chunk) * attention_pairs(chunk, 0) + attention_pairs(seq_len % chunk, 0);
}

double attention_layer_pairs(const Model *model, gint64 seq_len) {
  return attention_queries_pairs(model, seq_len, seq_len);
}

double attention_queries_pairs(const Model *model, gint64 seq_len, gint64 queries) {
  const gint64 window = model_window(model, seq_len);
  const double all = attention_pairs(queries, 0), windowed = model->is_chunked && window > 0
                                                                 ? chunked_pairs(queries, window)
                                                                 : attention_pairs(queries, window);
  return model->windowed_share > 0 ? model->windowed_share * windowed + (1 - model->windowed_share) * all : windowed;
}

double attention_document_pairs(const LocalSizes *local, gint64 length) {
  return attention_layer_pairs(local->model, length);
}

AttentionBlock attention_of_documents(const LocalSizes *local, AttentionBlock whole, gint64 cut,
                                      double (*pairs)(const LocalSizes *local, gint64 length)) {
  const MicroBatch *documents = local->documents;
  double sum = 0, sum2 = 0, all_pairs = 0;
  if (documents == NULL)
    return whole;
  for (gint32 i = 0; i < documents->n_sequences; i++) {
    const gint64 length = batch_padded(local->batch, documents->lengths[i]);
    sum += (double)length;
    sum2 += (double)length * (double)length;
    all_pairs += pairs(local, length);
  }
  const gint64 mean = (gint64)MAX(round(sum2 / sum / (double)cut), 1);
  whole.sequences = MAX((gint64)round(sum / (double)(mean * cut)), 1);
  whole.queries = whole.keys = mean;
  whole.pairs = all_pairs / (double)whole.sequences;
  return whole;
}

double attention_row_sums_bytes(const LocalSizes *local) {
  return 4.0 * local->sequences * local->heads * local->seq_len;
}
