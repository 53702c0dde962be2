/* Shared by the ways of cutting attention by cp: moving rows, and where this rank's own rows are. Private to
 * context_items.c, ring_of_blocks_items.c and ulysses_items.c. */
#pragma once
#include "item_parts.h"

static inline const ContextScratch *scratch(const ItemCall *call) {
  return &item_memory(call)->context;
}

static inline int own_rank(const ItemCall *call) {
  return call->trainer->parameters->at.at[AXIS_CP];
}

/* Columns of q, k and v of this rank's heads, side by side. */
static inline gint64 context_qkv_width(const Cut *cut) {
  return cut->q_width + cut->kv_width + cut->v_width;
}

static inline char *context_element(const Cut *cut, const void *base, gint64 i) {
  return (char *)(gsize)base + i * (gint64)cut->element_bytes;
}

/* This rank's tokens, one block per sequence, starting at a row and a column. */
Rows context_tokens(const Cut *cut, char *base, gint64 ld, gint64 row, gint64 column);
/* Gradients of this rank's own Q, starting at a row of each sequence; and of its K and V. */
Rows context_own_dq(const ItemCall *call, gint64 row);
Rows context_own_dkv(const ItemCall *call);
/* Reorders between one block of tokens per rank and whole sequences in order of position. */
void context_order(const ItemCall *call, char *by_rank, char *by_position, gint64 width, gboolean is_back);
void context_launch(const ItemCall *call, const FlashKernel *task);
/* `n`: total elements of `number`. */
void context_exchange(const ItemCall *call, Collective collective, Number number, const char *in, char *out, gint64 n);

/* What this rank's queries see of a block of keys: queries from first_query on see the first `keys` keys; key_at:
 * their positions. */
typedef struct {
  gint64 first_query, queries, keys;
  gboolean is_own;
  RowPositions key_at;
} ContextView;

/* Positions of a cp rank's tokens of a sequence, from row `first` on. */
RowPositions context_positions(const Cut *cut, gint64 cp_rank, gint64 first);
/* View of the block of cp rank `of`, in a ring. */
ContextView context_view(const ItemCall *call, gint64 of);
/* Narrows a task over all of a rank's own tokens to what it sees of the block `kv`; NULL: of the saved block. */
void context_look_at(const ItemCall *call, ContextView view, const char *kv, FlashKernel *task);

/* Kernels by item name, ending with a NULL name, and the one collective of each. */
extern const ItemKernel ulysses_kernels[], ring_of_blocks_kernels[];
void ulysses_exchange(const ItemCall *call);
void ring_of_blocks_exchange(const ItemCall *call);
