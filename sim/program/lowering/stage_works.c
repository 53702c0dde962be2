#include "stage_works.h"

#include "lowering.h"

void stage_works_init(StageWorks *works, const Workload *workload) {
  const Placement *placement = workload->placement;
  works->program = program_new(placement->n_ranks, placement->n_stages, 1);
  works->work = g_new(gint32, 3 * (gsize)placement->n_stages);
  const Phase phases[] = {PHASE_F, PHASE_I, PHASE_W};
  for (int stage = 0; stage < placement->n_stages; stage++) {
    Part part = part_of_stage(workload, stage);
    for (int k = 0; k < 3; k++)
      works->work[3 * stage + k] = part_work(works->program, workload, phases[k], &part);
  }
  if (placement->n_ranks == 1)
    return;
  Transfer send = {.group = -1, .target = 1, .collective = COLLECTIVE_SEND_RECV, .bytes = workload->boundary_bytes};
  program_transfer(works->program, &send);
}

void stage_works_clear(StageWorks *works) {
  g_clear_pointer(&works->program, program_free);
  g_clear_pointer(&works->work, g_free);
}

PieceMemory stage_memory(const Workload *workload, int stage) {
  Part part = part_of_stage(workload, stage);
  return part_memory(workload, &part);
}
