/* Binds the items of a workload's lists to the kernels that implement them. */
#pragma once
#include "trainer.h"

/* Checks that every item has a kernel, before anything is allocated: IMPOSSIBLE naming the first that has none. */
gboolean items_check(const Workload *workload, GError **error);
gboolean items_bind(Trainer *trainer, GError **error);
void items_clear(Trainer *trainer);
/* Makes room to record `n` items, from the first of step `from_step` on. */
gboolean items_log_init(Trainer *trainer, int n, int from_step, GError **error);
void items_log_clear(Trainer *trainer);
/* Launches one item of a piece's list. */
void items_run(Trainer *trainer, Piece piece, Phase phase, int item, const ItemCall *where);
