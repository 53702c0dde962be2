#include "batch.h"

#include <stdlib.h>
#include <string.h>

#include "splitmix.h"

/* A batch in the making: rows, one behind the other, whose ends are counted through all of them. */
typedef struct {
  const Method *method;
  Batch *batch;
  gint64 n_drawn;
} Filling;

static gint64 draw(Filling *filling) {
  return seq_lengths_nth(filling->method->seq_lengths, filling->method->seed, filling->n_drawn++);
}

/* Of a drawn length, what --seq-len leaves. */
static gint64 cut(const Filling *filling, gint64 length) {
  return MIN(length, filling->method->seq_len);
}

static void end_row(Filling *filling) {
  const gint32 end = (gint32)filling->batch->lengths->len;
  g_array_append_val(filling->batch->row_ends, end);
}

static void add(Filling *filling, gint64 drawn) {
  const gint64 length = cut(filling, drawn);
  filling->batch->n_cut += length < drawn;
  g_array_append_val(filling->batch->lengths, length);
}

/* --- padded, longest: a sequence in each row --- */

static void fill_each(Filling *filling) {
  for (gint64 i = 0; i < filling->method->global_batch; i++) {
    add(filling, draw(filling));
    end_row(filling);
  }
}

/* --- packed --- */

/* A pool is of more than the step's rows, but for very many sequences. */
enum { LEAST_POOL_ROWS = 1024, MOST_MORE = 1 << 20 };

static int longer_first(gconstpointer a, gconstpointer b) {
  const gint64 x = *(const gint64 *)a, y = *(const gint64 *)b;
  return x > y ? -1 : x < y;
}

/* Documents, longest first. */
static GArray *draw_pool(Filling *filling) {
  const double row_tokens = (double)filling->method->seq_len, least = (double)filling->method->global_batch;
  GArray *pool = g_array_new(FALSE, FALSE, sizeof(gint64));
  for (double tokens = 0; tokens < (pool->len < MOST_MORE ? MAX(least, LEAST_POOL_ROWS) : least) * row_tokens;) {
    const gint64 length = draw(filling);
    g_array_append_val(pool, length);
    tokens += (double)batch_padded(filling->batch, cut(filling, length));
  }
  qsort(pool->data, pool->len, sizeof(gint64), longer_first);
  return pool;
}

/* The most room in any of a stretch of rows: a tree whose leaves are rows. */
typedef struct {
  gint64 *most; /* [2·n_leaves] children of i: 2i, 2i + 1; owned */
  gsize n_leaves;
} RoomTree;

static void take_room(RoomTree *tree, gsize row, gint64 length) {
  gsize at = tree->n_leaves + row;
  tree->most[at] -= length;
  while ((at /= 2) > 0)
    tree->most[at] = MAX(tree->most[2 * at], tree->most[2 * at + 1]);
}

static gsize first_with_room(const RoomTree *tree, gint64 length) {
  gsize at = 1;
  while (at < tree->n_leaves)
    at = 2 * at + (tree->most[2 * at] < length);
  return at - tree->n_leaves;
}

/* [documents] the row of each; *n_rows: how many there are. A document has room in a row of its own at the latest. */
static gsize *fit_documents(const Filling *filling, const GArray *pool, gsize *n_rows) {
  RoomTree tree = {.n_leaves = 1};
  while (tree.n_leaves < pool->len)
    tree.n_leaves *= 2;
  tree.most = g_new(gint64, 2 * tree.n_leaves);
  for (gsize i = 0; i < 2 * tree.n_leaves; i++)
    tree.most[i] = filling->method->seq_len; /* a multiple of what documents are padded to */
  gsize *row_of = g_new(gsize, pool->len);
  *n_rows = 0;
  for (guint i = 0; i < pool->len; i++) {
    const gint64 padded = batch_padded(filling->batch, cut(filling, g_array_index(pool, gint64, i)));
    row_of[i] = first_with_room(&tree, padded);
    take_room(&tree, row_of[i], padded);
    *n_rows = MAX(*n_rows, row_of[i] + 1);
  }
  g_free(tree.most);
  return row_of;
}

/* A permutation by Fisher and Yates. */
static gsize *shuffled(gsize n, guint64 seed) {
  gsize *order = g_new(gsize, n);
  for (gsize i = 0; i < n; i++)
    order[i] = i;
  for (gsize i = n; i-- > 1;) {
    const gsize other = splitmix(splitmix(~seed) ^ i) % (i + 1), moved = order[i];
    order[i] = order[other];
    order[other] = moved;
  }
  return order;
}

/* Documents of a row are listed longest first. */
static void fill_packed(Filling *filling) {
  const gsize n = (gsize)filling->method->global_batch;
  g_autoptr(GArray) pool = draw_pool(filling);
  gsize n_rows;
  g_autofree gsize *row_of = fit_documents(filling, pool, &n_rows);
  g_autofree gsize *order = shuffled(n_rows, filling->method->seed);
  g_autofree gint32 *next = g_new(gint32, pool->len), *first = g_new(gint32, n_rows);
  memset(first, 0xff, n_rows * sizeof *first);
  for (guint i = pool->len; i-- > 0;) {
    next[i] = first[row_of[i]];
    first[row_of[i]] = (gint32)i;
  }
  for (gsize row = 0; row < n; row++) {
    for (gint32 i = first[order[row]]; i >= 0; i = next[i])
      add(filling, g_array_index(pool, gint64, i));
    end_row(filling);
  }
}

/* --- concatenated --- */

/* One row, behind those of `lengths`. Returns whether its last document goes on in the next one; *left: how much of
 * it. */
static gboolean cut_row(Filling *filling, gint64 *left, GArray *lengths) {
  for (gint64 free = filling->method->seq_len; free > 0;) {
    *left = *left > 0 ? *left : draw(filling);
    const gint64 part = MIN(*left, free);
    g_array_append_val(lengths, part);
    free -= batch_padded(filling->batch, part); /* both are multiples of what it is padded to */
    *left -= part;
  }
  return *left > 0;
}

/* Rows are shuffled, as in Megatron-LM, unless lengths have an order of their own. */
static void fill_concatenated(Filling *filling) {
  const Method *method = filling->method;
  const gboolean is_ordered = method->seq_lengths->kind == LENGTHS_LISTED;
  const gsize n = (gsize)method->global_batch;
  gsize n_rows = is_ordered ? n : MAX(n, LEAST_POOL_ROWS);
  g_autoptr(GArray) lengths = g_array_new(FALSE, FALSE, sizeof(gint64));
  g_autofree guint *ends = g_new(guint, n_rows);
  g_autofree gboolean *goes_on = g_new(gboolean, n_rows);
  gint64 left = 0;
  for (gsize row = 0; row < n_rows; row++) {
    goes_on[row] = cut_row(filling, &left, lengths);
    ends[row] = lengths->len;
    if (row + 1 >= n && lengths->len >= MOST_MORE)
      n_rows = row + 1;
  }
  g_autofree gsize *order = is_ordered ? NULL : shuffled(n_rows, method->seed);
  for (gsize i = 0; i < n; i++) {
    const gsize row = is_ordered ? i : order[i];
    for (guint k = row > 0 ? ends[row - 1] : 0; k < ends[row]; k++)
      add(filling, g_array_index(lengths, gint64, k));
    filling->batch->n_cut += goes_on[row];
    end_row(filling);
  }
}

/* --- balanced --- */

/* A heap of what sequences are dealt to, by its tokens, then its number. */
typedef struct {
  gint64 tokens;
  gsize number;
} Load;

static gboolean is_less(const Load *a, const Load *b) {
  return a->tokens != b->tokens ? a->tokens < b->tokens : a->number < b->number;
}

static void sink(Load *heap, gsize n) {
  for (gsize at = 0, child; (child = 2 * at + 1) < n; at = child) {
    child += child + 1 < n && is_less(&heap[child + 1], &heap[child]);
    if (!is_less(&heap[child], &heap[at]))
      return;
    const Load moved = heap[at];
    heap[at] = heap[child];
    heap[child] = moved;
  }
}

/* Each sequence, longest first, to the one of n with the fewest tokens, until that has `most` sequences. Returns them,
 * longest first; owned by the caller. */
static GPtrArray *deal(const Filling *filling, const GArray *sequences, gsize n, guint most) {
  GPtrArray *dealt = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
  g_autofree Load *heap = g_new(Load, n);
  for (gsize i = 0; i < n; i++) {
    heap[i] = (Load){0, i};
    g_ptr_array_add(dealt, g_array_new(FALSE, FALSE, sizeof(gint64)));
  }
  for (guint i = 0; i < sequences->len; i++) {
    const gint64 length = g_array_index(sequences, gint64, i);
    GArray *to = dealt->pdata[heap[0].number];
    g_array_append_val(to, length);
    heap[0].tokens = to->len < most ? heap[0].tokens + batch_padded(filling->batch, cut(filling, length)) : G_MAXINT64;
    sink(heap, n);
  }
  return dealt;
}

/* First to ranks of dp, each as many, then to their micro-batches, each of which gets one at least. */
static void fill_balanced(Filling *filling) {
  const Batch *batch = filling->batch;
  const guint n = (guint)filling->method->global_batch;
  g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(gint64));
  for (guint i = 0; i < n; i++) {
    const gint64 length = draw(filling);
    g_array_append_val(all, length);
  }
  qsort(all->data, all->len, sizeof(gint64), longer_first);
  g_autoptr(GPtrArray) ranks = deal(filling, all, (gsize)batch->n_ranks, n / (guint)batch->n_ranks);
  for (guint rank = 0; rank < ranks->len; rank++) {
    g_autoptr(GPtrArray) rows = deal(filling, ranks->pdata[rank], (gsize)batch->n_micro_batches, G_MAXUINT);
    for (guint row = 0; row < rows->len; row++) {
      const GArray *own = rows->pdata[row];
      for (guint i = 0; i < own->len; i++)
        add(filling, g_array_index(own, gint64, i));
      end_row(filling);
    }
  }
}

/* --- the batch --- */

/* Of a row's tokens: cp cuts them twice, sequence parallelism once more. */
static gint64 row_multiple(const Method *method) {
  return (method->cp > 1 ? 2 * method->cp : 1) * (method->sequence_parallel ? method->tp : 1);
}

static gint64 row_tokens(const Filling *filling, gint32 first, gint32 end) {
  const Method *method = filling->method;
  const gint64 multiple = row_multiple(method);
  gint64 tokens = 0;
  if (method->batching != BATCHING_LONGEST && method->batching != BATCHING_BALANCED)
    return method->seq_len;
  for (gint32 i = first; i < end; i++) {
    const gint64 length = batch_padded(filling->batch, g_array_index(filling->batch->lengths, gint64, i));
    tokens = method->batching == BATCHING_LONGEST ? MAX(tokens, length) : tokens + length;
  }
  tokens = (tokens + multiple - 1) / multiple * multiple;
  return method->batching == BATCHING_LONGEST ? MIN(tokens, method->seq_len) : tokens;
}

/* From the filled rows. */
static void make_micro_batches(const Filling *filling) {
  Batch *batch = filling->batch;
  const gsize n = (gsize)batch->n_ranks * (gsize)batch->n_micro_batches, n_rows = batch->row_ends->len / n;
  gint32 first = 0;
  batch->micro_batches = g_new0(MicroBatch, n);
  batch->n_sequences = batch->lengths->len;
  for (gsize i = 0; i < n; i++) {
    MicroBatch *own = &batch->micro_batches[i];
    gint32 *ends = &g_array_index(batch->row_ends, gint32, i * n_rows);
    const gint32 end = ends[n_rows - 1];
    *own = (MicroBatch){.rows = (gint64)n_rows,
                        .row_tokens = row_tokens(filling, first, end),
                        .lengths = &g_array_index(batch->lengths, gint64, first),
                        .row_ends = ends,
                        .n_sequences = end - first};
    for (gsize row = 0; row < n_rows; row++)
      ends[row] -= first;
    for (gint32 k = 0; k < own->n_sequences; k++)
      own->tokens += own->lengths[k];
    batch->tokens += own->tokens;
    batch->computed += own->rows * own->row_tokens;
    first = end;
  }
}

Batch *batch_new(const Method *method) {
  static void (*const fill[N_BATCHINGS])(Filling *) = {
      [BATCHING_PADDED] = fill_each,       [BATCHING_LONGEST] = fill_each,
      [BATCHING_PACKED] = fill_packed,     [BATCHING_CONCATENATED] = fill_concatenated,
      [BATCHING_BALANCED] = fill_balanced,
  };
  if (method->seq_lengths == NULL)
    return NULL;
  Batch *batch = g_new0(Batch, 1);
  batch->n_references = 1;
  batch->n_ranks = method->dp;
  batch->n_micro_batches = (int)method->n_micro_batches;
  batch->lengths = g_array_new(FALSE, FALSE, sizeof(gint64));
  batch->row_ends = g_array_new(FALSE, FALSE, sizeof(gint32));
  batch->is_packed = batching_packs(method->batching);
  batch->align = batch->is_packed && method->cp > 1 && method->cp_comm == CP_RING ? 2 * method->cp : 1;
  Filling filling = {method, batch, 0};
  fill[method->batching](&filling);
  make_micro_batches(&filling);
  return batch;
}

Batch *batch_ref(Batch *batch) {
  g_atomic_int_inc(&batch->n_references);
  return batch;
}

void batch_unref(Batch *batch) {
  if (batch == NULL || !g_atomic_int_dec_and_test(&batch->n_references))
    return;
  g_free(batch->micro_batches);
  g_array_unref(batch->lengths);
  g_array_unref(batch->row_ends);
  g_free(batch);
}

/* --- what is alike --- */

static gboolean fills_its_rows(const Batch *batch, const MicroBatch *own) {
  if (own->n_sequences != own->rows)
    return FALSE;
  for (gint32 i = 0; i < own->n_sequences; i++)
    if (batch_padded(batch, own->lengths[i]) != own->row_tokens)
      return FALSE;
  return TRUE;
}

gboolean batch_is_plain(const Batch *batch, const MicroBatch *micro_batch, const Method *method) {
  return micro_batch->rows == method->micro_batch && micro_batch->row_tokens == method->seq_len &&
         (!batch->is_packed || fills_its_rows(batch, micro_batch));
}

static gboolean are_alike(const Batch *batch, const MicroBatch *a, const MicroBatch *b) {
  if (a->row_tokens != b->row_tokens || (batch->is_packed && a->n_sequences != b->n_sequences))
    return FALSE;
  for (gint64 row = 0; batch->is_packed && row < a->rows; row++)
    if (a->row_ends[row] != b->row_ends[row])
      return FALSE;
  for (gint32 i = 0; batch->is_packed && i < a->n_sequences; i++)
    if (batch_padded(batch, a->lengths[i]) != batch_padded(batch, b->lengths[i]))
      return FALSE;
  return TRUE;
}

gboolean batch_ranks_are_alike(const Batch *batch) {
  for (int dp = 1; dp < batch->n_ranks; dp++)
    for (int m = 0; m < batch->n_micro_batches; m++)
      if (!are_alike(batch, batch_at(batch, 0, m), batch_at(batch, dp, m)))
        return FALSE;
  return TRUE;
}
