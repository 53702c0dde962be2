/* What the ways of cutting attention by cp share: rows that are moved, and where this rank's own are. Private to
 * context_items.c, ring_of_blocks_items.c and ulysses_items.c. */
#pragma once
#include "item_parts.h"

static inline const ContextScratch *scratch(const ItemCall *call) {
  return &item_memory(call)->context;
}

static inline int own_rank(const ItemCall *call) {
  return call->trainer->parameters->at.at[AXIS_CP];
}

/* Columns of q, k and v of this rank's heads side by side. */
static inline gint64 context_qkv_width(const Cut *cut) {
  return cut->q_width + cut->kv_width + cut->v_width;
}

static inline char *context_element(const Cut *cut, const void *base, gint64 i) {
  return (char *)(gsize)base + i * (gint64)cut->element_bytes;
}

/* This rank's tokens, a block for each sequence, from a row and a column on. */
Rows context_tokens(const Cut *cut, char *base, gint64 ld, gint64 row, gint64 column);
/* Gradients of this rank's own Q, from a row of each sequence on; and of its K and V. */
Rows context_own_dq(const ItemCall *call, gint64 row);
Rows context_own_dkv(const ItemCall *call);
/* Between a block for each rank, of its tokens, and whole sequences in order of position. */
void context_order(const ItemCall *call, char *by_rank, char *by_position, gint64 width, gboolean is_back);
void context_launch(const ItemCall *call, const FlashKernel *task);
/* n elements of `number` in all. */
void context_exchange(const ItemCall *call, Collective collective, Number number, const char *in, char *out, gint64 n);

/* What this rank's queries see of a block of keys: queries from one on, the first keys, and where these are. */
typedef struct {
  gint64 first_query, queries, keys;
  gboolean is_own;
  RowPositions key_at;
} ContextView;

/* Of a cp rank's tokens of a sequence, from row `first` on. */
RowPositions context_positions(const Cut *cut, gint64 cp_rank, gint64 first);
/* Of the block of cp rank `of`, in a ring. */
ContextView context_view(const ItemCall *call, gint64 of);
/* Turns a task over all of a rank's own tokens to what it sees of the block `kv`; NULL: of the one that is saved. */
void context_look_at(const ItemCall *call, ContextView view, const char *kv, FlashKernel *task);

/* By names of items, ending with a NULL name; and their one collective. */
extern const ItemKernel ulysses_kernels[], ring_of_blocks_kernels[];
void ulysses_exchange(const ItemCall *call);
void ring_of_blocks_exchange(const ItemCall *call);
