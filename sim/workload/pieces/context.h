/* Private to this floor: what the ways of attending to a sequence that is cut by cp share. */
#pragma once
#include "pieces.h"

/* This rank's queries against its own keys, causally; against the half of another rank's that they see
 * (attention_pairs.c). */
AttentionBlock context_own_block(const Cut *cut);
AttentionBlock context_other_block(const Cut *cut);

/* The ring as PyTorch runs it (context_blocks.c), and what its backward holds. */
void context_blocks_forward(ItemList *list);
void context_blocks_backward(ItemList *list);
double context_blocks_buffer_bytes(const Cut *cut);
