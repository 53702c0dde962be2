/* What a cost model must price before an order exists: every stage's F, I and W, and one send. */
#pragma once
#include "program.h"

/* A Program without ops. `work`[3·stage + k] is the stage's F, I, W for k = 0, 1, 2 (equal works share an entry);
 * transfer 0 is a boundary tensor from pipeline rank 0 to 1 (none with one rank). */
typedef struct {
  Program *program; /* owned */
  gint32 *work;     /* [3·n_stages] index into program->works; owned */
} StageWorks;
void stage_works_init(StageWorks *works, const Workload *workload);
void stage_works_clear(StageWorks *works);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(StageWorks, stage_works_clear)

/* Bytes that a micro-batch leaves on a stage, summed over its pieces, and their largest transient. */
PieceMemory stage_memory(const Workload *workload, int stage);
