/* The items of a workload's lists, each bound to the kernels that do it. */
#pragma once
#include "trainer.h"

/* IMPOSSIBLE for an item that there is no kernel for. */
gboolean items_bind(Trainer *trainer, GError **error);
void items_clear(Trainer *trainer);
/* Launch one item of a piece's list. */
void items_run(Trainer *trainer, Piece piece, Phase phase, int item, const ItemCall *where);
