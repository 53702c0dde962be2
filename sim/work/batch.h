/* The sequences of a step, where their lengths are drawn, as micro-batches of each rank of dp.
 *
 * Every rank of dp has its own. A micro-batch is rows of equally many tokens; a row holds one sequence and padding, or
 * several sequences one behind the other, with padding behind the last:
 *
 *     longest   |aaaaaa    |      packed   |aaaaaabbb |       balanced   |aaaaaabbbcccc|
 *               |bbb       |               |ccccddddd |
 *
 * Packed: documents are drawn until they fill at least 1,024 rows (or the batch, if that is larger), longest first put
 * into the first row with room (first-fit decreasing, as NeMo and TRL pack data sets), and rows shuffled; a step takes
 * the first of them. Balanced: sequences, longest first, each to the micro-batch with the fewest tokens (verl and
 * others balance ranks and micro-batches likewise). Concatenated: Megatron-LM's data set of a pretraining, with
 * attention reset between documents.
 *
 * Where cp passes blocks round a ring, sequences in a row are padded to multiples of 2·cp, as Transformer Engine cuts
 * each of them over the ranks. */
#pragma once
#include "method.h"

typedef struct {
  gint64 rows, row_tokens; /* computed */
  gint64 *lengths;         /* of its sequences, without padding; of Batch */
  gint32 *row_ends;        /* [rows] number of the sequences up to the row's end; of Batch */
  gint32 n_sequences;
  gint64 tokens; /* sum of lengths */
} MicroBatch;

typedef struct {
  MicroBatch *micro_batches; /* [dp][n_micro_batches]; owned, as is what follows */
  int n_ranks;               /* of dp */
  int n_micro_batches;
  GArray *lengths;         /* of gint64: of all sequences */
  GArray *row_ends;        /* of gint32 */
  gint64 tokens, computed; /* of all */
  gint64 n_cut;            /* sequences cut at --seq-len */
  gint64 n_sequences;
  gint64 align; /* sequences in a row are padded to multiples of it */
  gboolean is_packed;
  gint n_references;
} Batch;

/* NULL: all sequences are as long as seq_len. */
Batch *batch_new(const Method *method);
Batch *batch_ref(Batch *batch);
void batch_unref(Batch *batch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Batch, batch_unref)

static inline const MicroBatch *batch_at(const Batch *batch, int dp, int micro_batch) {
  return &batch->micro_batches[(gsize)dp * (gsize)batch->n_micro_batches + (gsize)micro_batch];
}
/* Of a sequence as attention sees it. */
static inline gint64 batch_padded(const Batch *batch, gint64 length) {
  return (length + batch->align - 1) / batch->align * batch->align;
}
/* Whether the micro-batch is computed as one of a plan without lengths. */
gboolean batch_is_plain(const Batch *batch, const MicroBatch *micro_batch, const Method *method);
/* Whether ranks of dp have micro-batches that are computed alike. */
gboolean batch_ranks_are_alike(const Batch *batch);
