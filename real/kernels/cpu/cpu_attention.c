/* Fused attention, forward (T. Dao, arXiv 2307.08691): scores exist one tile at a time, and the softmax is computed
 * online, with a running maximum and sum per query:
 *
 *              keys →                            for each tile of keys up to the diagonal:
 *      queries ┌────┬────┬────┐                    S = scale·Q·Kᵀ            (tile × tile, in cache)
 *         ↓    │ \  │    │    │                    new = max(max, rows of S)
 *              ├────┼────┼────┤                    P = e^(S − new),  c = e^(max − new)
 *              │ ▓▓ │ \  │    │                    sum = c·sum + Σ P,  O = c·O + P·V
 *              ├────┼────┼────┤                  O / sum is the output, max + log sum is kept for backward
 *              │ ▓▓ │ ▓▓ │ \  │
 *              └────┴────┴────┘                  tiles above the diagonal are never touched
 *
 * In attention to a block of keys, the diagonal starts keys − queries further right: the first query sees that many
 * keys besides its own. Without a mask every query sees every key. The outputs for two blocks are merged using their
 * log-sum-exps.
 *
 * ALiBi subtracts from a score by the key's distance. With a window there is a second diagonal, before which nothing
 * is seen: tiles below it are not touched either.
 *
 * Memory: two tiles and the head's keys and values (widened, if they are not fp32). */
#include "cpu_attention.h"
#include "cpu_math.h"

#include <math.h>

/* Tile sizes. Few queries waste little above the diagonal; many keys amortise the per-row overhead and sgemm's
 * packing; 128 KiB of scores stay in L2. From bench_kernels at 128 to 2048 tokens, heads of 64 and 128, on a core
 * with AVX-512 and 2 MiB of L2, 2026. A query tile lies within one key tile, so each row sees a key. */
enum { TILE_QUERIES = 64, TILE_KEYS = 512 };
_Static_assert(TILE_KEYS % TILE_QUERIES == 0, "a key tile starts where a query tile does");

typedef struct {
  const FlashKernel *flash;
  FlashBlock block;
  gint64 sequence, head;
  Panel k, v;                   /* of the sequence's block */
  float *q_buffer, *row_buffer; /* [tile][head_dim], [v_head_dim] */
  Panel scores, out;            /* [tile][tile], [tile][v_head_dim] */
  float slope;                  /* the head's; 0: none */
  float most[TILE_QUERIES], sum[TILE_QUERIES];
} Forward;

/* One row of scores → e^(s − most), updating the running maximum and sum. Keys from `first` to before `n_seen` are
 * visible, the rest get 0. Hidden ones up to a whole vector are set to −∞, so that no scalar loop is left over. */
static void soften_row(Forward *forward, gint64 row, gint64 first, gint64 n_seen, gint64 width) {
  float *s = panel_row(forward->scores, row), *out = panel_row(forward->out, row);
  float old = forward->most[row], sum = 0;
  if (n_seen <= 0 || first >= n_seen) { /* a tile of queries may straddle two of keys */
    memset(s, 0, (gsize)width * sizeof(float));
    return;
  }
  gint64 n = whole_vectors(n_seen);
  for (gint64 j = 0; j < first; j++)
    s[j] = -INFINITY;
  for (gint64 j = n_seen; j < n; j++)
    s[j] = -INFINITY;
  float here = row_max(s, 1, n), most = here > old ? here : old;
#pragma omp simd reduction(+ : sum)
  for (gint64 j = 0; j < n; j++) {
    float e = fast_exp(s[j] - most);
    s[j] = e;
    sum += e;
  }
  if (n < width)
    memset(s + n, 0, (gsize)(width - n) * sizeof(float));
  forward->most[row] = most;
  if (most == old) {
    forward->sum[row] += sum;
    return;
  }
  float correction = fast_exp(old - most); /* 0 for the first tile: old is −∞ */
  forward->sum[row] = forward->sum[row] * correction + sum;
  gint64 v_head_dim = forward->flash->v_head_dim;
#pragma omp simd
  for (gint64 j = 0; j < v_head_dim; j++)
    out[j] *= correction;
}

static void add_key_tile(Forward *forward, Panel q, gint64 first_query, gint64 n_queries, gint64 first_key) {
  const FlashKernel *flash = forward->flash;
  gint64 d = flash->head_dim,
         n_keys = MIN(TILE_KEYS, flash_block_seen(&forward->block, first_query + n_queries - 1) - first_key);
  Panel k = {panel_row(forward->k, first_key), forward->k.ld}, v = {panel_row(forward->v, first_key), forward->v.ld};
  panel_product(CblasNoTrans, CblasTrans, n_queries, n_keys, d, flash->scale, q, k, 0, forward->scores);
  for (gint64 row = 0; row < n_queries; row++) {
    const gint64 query = first_query + row;
    if (forward->slope != 0)
      flash_bias_row(&forward->block, forward->slope, query, first_key, n_keys, panel_row(forward->scores, row));
    soften_row(forward, row, flash_first_seen(&flash->rule, &forward->block, query) - first_key,
               MIN(n_keys, flash_block_seen(&forward->block, query) - first_key), n_keys);
    if (flash->drop.dropout.rate > 0) /* drops from the weighted sum, not from the sum that divides it */
      flash_drop_row(flash, &forward->block, forward->sequence, forward->head, query, first_key, n_keys,
                     panel_row(forward->scores, row));
  }
  panel_product(CblasNoTrans, CblasNoTrans, n_queries, flash->v_head_dim, n_keys, 1, forward->scores, v, 1,
                forward->out);
}

static void finish_queries(Forward *forward, gint64 first_query, gint64 n_queries) {
  const FlashKernel *flash = forward->flash;
  gint64 d = flash->v_head_dim;
  for (gint64 row = 0; row < n_queries; row++) {
    gint64 query = first_query + row;
    gint64 place = (forward->sequence * flash->seq_len + query) * flash->ld_o + forward->head * d;
    float *o = row_out(flash->o, (Number)flash->number, place, forward->row_buffer);
    const float *out = panel_row(forward->out, row);
    float share = 1.0f / forward->sum[row];
#pragma omp simd
    for (gint64 j = 0; j < d; j++)
      o[j] = out[j] * share;
    row_close(flash->o, (Number)flash->number, place, d, o);
    flash->lse[(forward->sequence * flash->n_heads + forward->head) * flash->seq_len + query] =
        forward->most[row] + logf(forward->sum[row]);
  }
}

static void forward_head(Forward *forward) {
  const FlashKernel *flash = forward->flash;
  gint64 d = flash->head_dim, first_row = forward->sequence * flash->seq_len, queries = forward->block.queries;
  for (gint64 first = 0; first < queries; first += TILE_QUERIES) {
    gint64 n = MIN(TILE_QUERIES, queries - first), n_seen = flash_block_seen(&forward->block, first + n - 1);
    const PanelPlace q_place = {.base = flash->q,
                                .number = (Number)flash->number,
                                .first = (first_row + first) * flash->ld_qkv + forward->head * d,
                                .ld = flash->ld_qkv,
                                .rows = n,
                                .width = d};
    Panel q = panel_in(q_place, forward->q_buffer);
    memset(forward->out.data, 0, (gsize)(n * flash->v_head_dim) * sizeof(float));
    for (gint64 row = 0; row < n; row++) {
      forward->most[row] = -INFINITY;
      forward->sum[row] = 0;
    }
    for (gint64 key = flash_first_seen(&flash->rule, &forward->block, first) / TILE_KEYS * TILE_KEYS; key < n_seen;
         key += TILE_KEYS)
      add_key_tile(forward, q, first, n, key);
    finish_queries(forward, first, n);
  }
}

CPU_KERNEL(flash_forward) {
  const FlashKernel *flash = &kernel->flash;
  const FlashBlock block = flash_block(flash);
  gint64 d = flash->head_dim, dv = flash->v_head_dim, group = flash->n_heads / flash->n_kv_heads;
  g_assert(flash->n_heads % flash->n_kv_heads == 0 && (block.is_full || block.keys >= block.queries) &&
           (!block.is_full || flash->rule.window == 0));
  gint64 queries = MIN(block.queries, TILE_QUERIES), keys = whole_vectors(MIN(block.keys, TILE_KEYS)),
         panel = flash->number == NUMBER_FP32 ? 0 : block.keys;
  float *memory = cpu_scratch_floats(scratch, queries * (keys + d + dv) + dv + panel * (d + dv));
  Forward forward = {.flash = flash, .block = block, .scores = {memory, keys}, .out = {memory + queries * keys, dv}};
  forward.q_buffer = forward.out.data + queries * dv;
  forward.row_buffer = forward.q_buffer + queries * d;
  float *k_buffer = forward.row_buffer + dv;
  for (gint64 i = 0; i < flash->sequences * flash->n_kv_heads; i++) {
    gint64 kv_head = i % flash->n_kv_heads;
    forward.sequence = i / flash->n_kv_heads;
    const gint64 first = forward.sequence * block.key_rows * block.ld_kv;
    const Number number = (Number)flash->number;
    const PanelPlace k = {flash->k, number, first + kv_head * d, block.ld_kv, block.keys, d};
    const PanelPlace v = {flash->v, number, first + kv_head * dv, block.ld_kv, block.keys, dv};
    forward.k = panel_in(k, k_buffer);
    forward.v = panel_in(v, k_buffer + panel * d);
    for (gint64 j = 0; j < group; j++) {
      forward.head = kv_head * group + j;
      forward.slope = alibi_slope(&flash->rule, forward.head);
      forward_head(&forward);
    }
  }
}

/* One row of one head, each output with its weight. */
static void merge_row(const MergeKernel *merge, gint64 place, float own, float other, float *buffer) {
  const Number number = (Number)merge->number;
  gint64 d = merge->head_dim;
  const float *added = row_in(merge->other, number, place, d, buffer);
  float *o = row_open(merge->o, number, place, d, buffer + d);
#pragma omp simd
  for (gint64 j = 0; j < d; j++)
    o[j] = own * o[j] + other * added[j];
  row_close(merge->o, number, place, d, o);
}

CPU_KERNEL(merge) {
  const MergeKernel *merge = &kernel->merge;
  gint64 d = merge->head_dim;
  float *buffer = cpu_scratch_floats(scratch, 2 * d);
  for (gint64 i = 0; i < merge->sequences * merge->n_heads; i++)
    for (gint64 query = 0; query < merge->queries; query++) {
      gint64 at = i * merge->seq_len + query, row = i / merge->n_heads * merge->seq_len + query;
      float a = merge->lse[at], b = merge->other_lse[at], most = a > b ? a : b;
      float both = most + logf(fast_exp(a - most) + fast_exp(b - most));
      merge_row(merge, (row * merge->n_heads + i % merge->n_heads) * d, fast_exp(a - both), fast_exp(b - both), buffer);
      merge->lse[at] = both;
    }
}
