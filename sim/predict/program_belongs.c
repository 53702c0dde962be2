/* Whether a Program of the caller's (edited text, say) can be run as this model under this plan. */
#include "plan_run.h"

#include <math.h>

#include "error.h"
#include "lowering.h"
#include "program_sizes.h"

/* FLOPs of the kernels a work names; −1 when this workload has no such kernels. */
static double named_flops(const Work *work, const Workload *workload) {
  if (work->lengths > workload_lengths(workload, (gint32)workload->method->n_micro_batches - 1))
    return -1;
  if (work->piece < 0) {
    const Part part = part_of_work(work, 0);
    return part_flops(workload, (Phase)work->phase, &part);
  }
  const WorkList *list = workload_list(workload, work->lengths, (Piece)work->piece, (Phase)work->phase);
  if (work->last_item >= list->n_items)
    return -1;
  double flops = 0;
  for (int i = work->first_item; i <= work->last_item; i++)
    flops += list->items[i].flops;
  return flops;
}

/* Every work of the program must be made of this workload's pieces and kernels. */
static gboolean check_works(const Program *program, const Workload *workload, GError **error) {
  for (guint i = 0; i < program->works->len; i++) {
    const Work *work = &g_array_index(program->works, Work, i);
    if (work->phase == PHASE_OPTIMIZER)
      continue;
    double flops = named_flops(work, workload);
    if (work->n_layers > workload->model->n_layers || (work->piece < 0 && work->stage >= 0) || flops < 0)
      return fail_input(error, "the program's work %u is not made of this model's pieces", i);
    if (fabs(work->flops - flops) > 1e-9 * flops)
      return fail_input(error, "the program's work %u has flops=%.17g, under this model and plan it would be %.17g", i,
                        work->flops, flops);
  }
  return TRUE;
}

static gboolean check_transfers(const Program *program, const Workload *workload, GError **error) {
  for (guint i = 0; i < program->transfers->len; i++)
    if (g_array_index(program->transfers, Transfer, i).lengths >
        workload_lengths(workload, (gint32)workload->method->n_micro_batches - 1))
      return fail_input(error, "the program's transfer %u has lengths of a micro-batch that the plan does not have", i);
  return TRUE;
}

/* Only clusters that allow offloading state the cost of copies, and the check for that used this plan's options. */
static gboolean check_offload(const Program *program, const Method *method, GError **error) {
  gboolean is_offloaded = FALSE, uses_drives = FALSE, reads_data = FALSE, serves = FALSE;
  for (guint i = 0; i < program->groups->len; i++) {
    const guint route = g_array_index(program->groups, Group, i).route;
    is_offloaded |= (route & ROUTES_OF_HOST) != 0;
    reads_data |= route == ROUTE_STORAGE;
    serves |= (route & ROUTES_OF_SERVERS) != 0;
    uses_drives |= (route & (ROUTE_NVME_READ | ROUTE_NVME_WRITE)) != 0;
  }
  for (guint i = 0; i < program->works->len; i++)
    is_offloaded |= g_array_index(program->works, Work, i).on_host;
  if (serves && !servers_are_used(&method->servers))
    return fail_input(error, "the program has parameter servers, and the plan none: expected the --parameter-servers "
                             "that it was made with");
  if (reads_data && method->data.sample_bytes == 0)
    return fail_input(error, "the program reads data, and the plan has none: expected the --data it was made with");
  if (is_offloaded && !offload_is_any(&method->offload))
    return fail_input(error, "the program copies to and from host memory, and the plan offloads nothing: expected the "
                             "--offload options that it was made with");
  return !uses_drives || offload_uses(&method->offload, TIER_NVME) ||
         fail_input(error, "the program copies to and from NVMe drives, and the plan has nothing there: expected the "
                           "--offload options that it was made with");
}

gboolean program_belongs(const Program *program, const Workload *workload, GError **error) {
  const Method *method = workload->method;
  if (program->n_ranks != method->pp || program->n_stages != workload->n_stages ||
      program->n_micro_batches != method->n_micro_batches)
    return fail_input(error,
                      "the program has %d ranks, %d stages and %d micro-batches, the plan pp %d, %d stages and "
                      "%" G_GINT64_FORMAT " micro-batches",
                      program->n_ranks, program->n_stages, program->n_micro_batches, method->pp, workload->n_stages,
                      method->n_micro_batches);
  if (program->n_steps != method->steps)
    return fail_input(error, "the program has %d steps, expected %d as --steps", program->n_steps, method->steps);
  return check_works(program, workload, error) && check_transfers(program, workload, error) &&
         check_offload(program, method, error) && program_sizes_check(program, workload, error);
}
