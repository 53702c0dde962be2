/* Private to pieces/: shared by the implementations of attention over a sequence cut by cp. */
#pragma once
#include "pieces.h"

/* This rank's queries against its own keys, causally; and against the half of another rank's keys that they see
 * (attention_pairs.c). */
AttentionBlock context_own_block(const Cut *cut);
AttentionBlock context_other_block(const Cut *cut);

/* The ring as PyTorch runs it (context_blocks.c), and the bytes that its backward holds. */
void context_blocks_forward(ItemList *list);
void context_blocks_backward(ItemList *list);
double context_blocks_buffer_bytes(const Cut *cut);
