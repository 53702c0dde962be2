/* Fused attention, backward (T. Dao, arXiv 2307.08691 §3.1.2): scores are recomputed tile by tile from q, k and the
 * log-sum-exp that forward kept. With D = Σ_j dO·O per query:
 *
 *      for each tile of keys                      P  = e^(scale·Q·Kᵀ − lse)
 *        for each tile of queries at or after it  dV += Pᵀ·dO
 *                                                 dS = scale·P·(dO·Vᵀ − D)
 *              keys →                             dK += dSᵀ·Q
 *      queries ┌────┬────┐                        dQ += dS·K
 *         ↓    │ \ 1│    │
 *              ├────┼────┤                 tiles in the order of the numbers; the first addition to a row of dQ, dK, dV
 *              │  2 │ \ 3│                 overwrites it
 *              └────┴────┘
 *
 * Dropout: dV uses the dropped P, and dO·Vᵀ is dropped in the same way; D needs no change, as O already contains
 * dropout.
 *
 * Query heads that share a key head are consecutive and add to the same dK and dV. In a block of keys the diagonal is
 * further right, or absent, as in forward; a block may add to existing dK and dV. With a window not every row of dQ
 * meets the first keys, so all rows start from zero. */
#include "cpu_attention.h"
#include "cpu_math.h"

#include <math.h>

/* Tile sizes: as in forward, with queries and keys exchanged. */
enum { TILE_QUERIES = 512, TILE_KEYS = 64 };

typedef struct {
  const FlashKernel *flash;
  FlashBlock block;
  gint64 sequence, head;
  float slope;         /* the head's; 0: none */
  gboolean overwrites; /* of dK and dV: TRUE for the first head of its group */
  Panel q, k, v, d_o, dq, dk, dv;
  Panel p, ds;               /* [tile][tile] */
  float *delta, *row_buffer; /* D [queries]; [head_dim] */
  float *buffers[7]; /* of q, d_o, dq, k, v, dk, dv when they are not fp32: [queries or keys][widest head] each */
} Backward;

static void find_delta(Backward *backward) {
  const FlashKernel *flash = backward->flash;
  gint64 d = flash->v_head_dim;
  for (gint64 row = 0; row < backward->block.queries; row++) {
    gint64 place = (backward->sequence * flash->seq_len + row) * flash->ld_o + backward->head * d;
    const float *o = row_in(flash->o, (Number)flash->number, place, d, backward->row_buffer);
    const float *d_o = panel_row(backward->d_o, row);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (gint64 j = 0; j < d; j++)
      sum += o[j] * d_o[j];
    backward->delta[row] = sum;
  }
}

/* S → P and dO·Vᵀ → dS in place, for the keys from `first` to before `n_seen`, which the query sees; 0 for the rest.
 * In whole vectors, as in forward. */
static void slope_row(float *p, float *ds, float lse, float delta, float scale, gint64 first, gint64 n_seen,
                      gint64 width) {
  gint64 n = whole_vectors(MAX(n_seen, 0));
  for (gint64 j = 0; j < MIN(first, n_seen); j++) {
    p[j] = -INFINITY;
    ds[j] = 0;
  }
  for (gint64 j = n_seen; j < n; j++) {
    p[j] = -INFINITY;
    ds[j] = 0;
  }
#pragma omp simd
  for (gint64 j = 0; j < n; j++) {
    float e = fast_exp(p[j] - lse);
    p[j] = e;
    ds[j] = scale * e * (ds[j] - delta);
  }
  if (n < width) {
    memset(p + n, 0, (gsize)(width - n) * sizeof(float));
    memset(ds + n, 0, (gsize)(width - n) * sizeof(float));
  }
}

static Panel below(Panel panel, gint64 row) {
  return (Panel){panel_row(panel, row), panel.ld};
}

/* The first query that sees a key. */
static gint64 first_query_of(const FlashBlock *block, gint64 key) {
  return block->is_full ? 0 : MAX(0, key - (block->keys - block->queries));
}

/* Turns one query's products with n_keys keys into its rows of P (dropped) and dS. */
static void finish_row(const Backward *backward, gint64 first_key, gint64 n_keys, gint64 query, float lse, float *p,
                       float *ds) {
  const FlashKernel *flash = backward->flash;
  const FlashBlock *block = &backward->block;
  const gboolean drops = flash->drop.dropout.rate > 0;
  if (backward->slope != 0)
    flash_bias_row(block, backward->slope, query, first_key, n_keys, p);
  if (drops)
    flash_drop_row(flash, block, backward->sequence, backward->head, query, first_key, n_keys, ds);
  slope_row(p, ds, lse, backward->delta[query], flash->scale, flash_first_seen(&flash->rule, block, query) - first_key,
            MIN(n_keys, flash_block_seen(block, query) - first_key), n_keys);
  if (drops)
    flash_drop_row(flash, block, backward->sequence, backward->head, query, first_key, n_keys, p);
}

static void add_tile(Backward *backward, gint64 first_key, gint64 first_query) {
  const FlashKernel *flash = backward->flash;
  const FlashBlock *block = &backward->block;
  gint64 d = flash->head_dim, dv = flash->v_head_dim;
  gint64 n_keys = MIN(TILE_KEYS, block->keys - first_key), n_queries = MIN(TILE_QUERIES, block->queries - first_query);
  Panel q = below(backward->q, first_query), d_o = below(backward->d_o, first_query);
  Panel k = below(backward->k, first_key), v = below(backward->v, first_key);
  Panel p = backward->p, ds = backward->ds;
  panel_product(CblasNoTrans, CblasTrans, n_queries, n_keys, d, flash->scale, q, k, 0, p);
  panel_product(CblasNoTrans, CblasTrans, n_queries, n_keys, dv, 1, d_o, v, 0, ds);
  const float *lse = flash->lse + (backward->sequence * flash->n_heads + backward->head) * flash->seq_len + first_query;
  for (gint64 row = 0; row < n_queries; row++)
    finish_row(backward, first_key, n_keys, first_query + row, lse[row], panel_row(p, row), panel_row(ds, row));
  const gboolean is_first = first_query == first_query_of(block, first_key);
  float kv_beta = backward->overwrites && is_first ? 0 : 1, q_beta = first_key == 0 && flash->rule.window == 0 ? 0 : 1;
  panel_product(CblasTrans, CblasNoTrans, n_keys, dv, n_queries, 1, p, d_o, kv_beta, below(backward->dv, first_key));
  panel_product(CblasTrans, CblasNoTrans, n_keys, d, n_queries, 1, ds, q, kv_beta, below(backward->dk, first_key));
  panel_product(CblasNoTrans, CblasNoTrans, n_queries, d, n_keys, 1, ds, k, q_beta, below(backward->dq, first_query));
}

static void backward_head(Backward *backward) {
  const FlashKernel *flash = backward->flash;
  Number number = (Number)flash->number;
  const FlashBlock *block = &backward->block;
  gint64 d = flash->head_dim, dv = flash->v_head_dim, queries = block->queries,
         first_row = backward->sequence * flash->seq_len;
  const gint64 head = backward->head;
  const PanelPlace q = {flash->q, number, first_row * flash->ld_qkv + head * d, flash->ld_qkv, queries, d};
  const PanelPlace d_o = {flash->d_o, number, first_row * flash->ld_o + head * dv, flash->ld_o, queries, dv};
  const PanelPlace dq = {flash->dq, number, first_row * block->ld_dq + head * d, block->ld_dq, queries, d};
  backward->q = panel_in(q, backward->buffers[0]);
  backward->d_o = panel_in(d_o, backward->buffers[1]);
  backward->dq = panel_out(dq, backward->buffers[2]);
  find_delta(backward);
  for (gint64 row = 0; row < queries && flash->rule.window > 0; row++)
    memset(panel_row(backward->dq, row), 0, (gsize)d * sizeof(float));
  for (gint64 key = 0; key < block->keys; key += TILE_KEYS) {
    const gint64 past = key + TILE_KEYS - 1 + flash->rule.window - (block->keys - queries); /* end of its window */
    const gint64 end = flash->rule.window > 0 ? MIN(queries, past) : queries;
    for (gint64 query = first_query_of(block, key); query < end; query += TILE_QUERIES)
      add_tile(backward, key, query);
  }
  panel_close(dq, backward->dq);
}

/* Handles keys, values and their gradients of one key head of a sequence, for all query heads that share it. */
static void backward_group(Backward *backward, gint64 sequence, gint64 kv_head) {
  const FlashKernel *flash = backward->flash;
  const FlashBlock *block = &backward->block;
  const Number number = (Number)flash->number;
  gint64 d = flash->head_dim, dv = flash->v_head_dim, n = block->keys, group = flash->n_heads / flash->n_kv_heads;
  gint64 first = sequence * block->key_rows * block->ld_kv, d_first = sequence * block->key_rows * block->ld_dkv;
  const PanelPlace k = {flash->k, number, first + kv_head * d, block->ld_kv, n, d};
  const PanelPlace v = {flash->v, number, first + kv_head * dv, block->ld_kv, n, dv};
  const PanelPlace dk = {flash->dk, number, d_first + kv_head * d, block->ld_dkv, n, d};
  const PanelPlace d_v = {flash->dv, number, d_first + kv_head * dv, block->ld_dkv, n, dv};
  float *const *buffers = backward->buffers;
  backward->sequence = sequence;
  backward->k = panel_in(k, buffers[3]);
  backward->v = panel_in(v, buffers[4]);
  backward->dk = block->adds ? panel_in(dk, buffers[5]) : panel_out(dk, buffers[5]);
  backward->dv = block->adds ? panel_in(d_v, buffers[6]) : panel_out(d_v, buffers[6]);
  for (gint64 j = 0; j < group; j++) {
    backward->head = kv_head * group + j;
    backward->slope = alibi_slope(&flash->rule, backward->head);
    backward->overwrites = j == 0 && !block->adds;
    backward_head(backward);
  }
  panel_close(dk, backward->dk);
  panel_close(d_v, backward->dv);
}

CPU_KERNEL(flash_backward) {
  const FlashKernel *flash = &kernel->flash;
  const FlashBlock block = flash_block(flash);
  g_assert(flash->n_heads % flash->n_kv_heads == 0 && (block.is_full || block.keys >= block.queries) &&
           (flash->rule.window == 0 || !flash->block.is_cut || (!block.is_full && block.adds)));
  gint64 d = MAX(flash->head_dim, flash->v_head_dim), queries = MIN(block.queries, TILE_QUERIES),
         keys = whole_vectors(MIN(block.keys, TILE_KEYS)),
         panel = flash->number == NUMBER_FP32 ? 0 : MAX(block.queries, block.keys) * d;
  float *memory = cpu_scratch_floats(scratch, 2 * queries * keys + block.queries + d + 7 * panel);
  Backward backward = {.flash = flash, .block = block, .p = {memory, keys}, .ds = {memory + queries * keys, keys}};
  backward.delta = memory + 2 * queries * keys;
  backward.row_buffer = backward.delta + block.queries;
  for (int i = 0; i < 7; i++)
    backward.buffers[i] = backward.row_buffer + d + i * panel;
  for (gint64 i = 0; i < flash->sequences * flash->n_kv_heads; i++)
    backward_group(&backward, i / flash->n_kv_heads, i % flash->n_kv_heads);
}
