/* Private to parameters.c: which tensors a block has, where in it, and from which seeds they are made. */
#pragma once
#include "parameters.h"

/* Fills tensors, offset_of, n, n_whole and n_norms of a block whose kind, stage, layer and n_shards are set. Every
 * number follows from `seed` and its place in the model, whichever rank asks. */
void block_lay_out(const Parameters *parameters, Block *block, guint64 seed);

/* A layer with experts in the place of its MLP. */
gboolean block_has_experts(const Parameters *parameters, const Block *block);
