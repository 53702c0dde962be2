/* The items of a workload's lists, each bound to the kernels that do it. */
#pragma once
#include "trainer.h"

/* Whether there is one for every item, before anything is made: IMPOSSIBLE naming the first that has none. */
gboolean items_check(const Workload *workload, GError **error);
gboolean items_bind(Trainer *trainer, GError **error);
void items_clear(Trainer *trainer);
/* Launch one item of a piece's list. */
void items_run(Trainer *trainer, Piece piece, Phase phase, int item, const ItemCall *where);
