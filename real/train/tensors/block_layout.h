/* Private to parameters.c: which tensors a block has, their offsets, and their seeds. */
#pragma once
#include "parameters.h"

/* Fills tensors, offset_of, n, n_whole and n_norms of a block whose kind, stage, layer and n_shards are set. Every
 * value is determined by `seed` and its position in the model, on whichever rank. */
void block_lay_out(const Parameters *parameters, Block *block, guint64 seed);

/* Whether it is a layer with experts instead of an MLP. */
gboolean block_has_experts(const Parameters *parameters, const Block *block);
