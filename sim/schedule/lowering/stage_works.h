/* What a cost model must price before there is an order: every stage's F, I and W, and one send. */
#pragma once
#include "program.h"

/* A Program without ops. Its work 3·stage + k is the stage's F, I, W for k = 0, 1, 2 (equal works are one entry: see
 * `work`), its transfer 0 a boundary tensor from pipeline rank 0 to 1 (none with one rank). */
typedef struct {
  Program *program; /* owned */
  gint32 *work;     /* [3·n_stages] index into program->works; owned */
} StageWorks;
void stage_works_init(StageWorks *works, const Workload *workload);
void stage_works_clear(StageWorks *works);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(StageWorks, stage_works_clear)

/* Bytes a micro-batch leaves on a stage, summed over its pieces; the largest transient among them. */
PieceMemory stage_memory(const Workload *workload, int stage);
