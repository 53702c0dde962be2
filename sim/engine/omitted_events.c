/* The events of a group are counted on its ops: each op ends by one event, except a receive that ends with its
 * send. */
#include "contention.h"
#include "engine.h"

static gboolean is_on_links(const Timing *timing, gint32 transfer) {
  for (int way = 0; timing->loads != NULL && way < TIMING_MAX_WAYS; way++)
    if (timing->loads[transfer].share[way] > 0)
      return TRUE;
  return FALSE;
}

static gboolean ends_with_its_send(const Simulation *simulation, gboolean is_contended, const Op *op) {
  if (op->kind != OP_RECV)
    return FALSE;
  const Transfer *transfer = &g_array_index(simulation->program->transfers, Transfer, op->work);
  const gboolean is_eager = transfer->bytes <= (double)simulation->eager_bytes;
  return !is_eager && !(is_contended && is_on_links(simulation->timing, op->work));
}

/* The group occurs once in every step. */
static guint64 events_of_group(const Simulation *simulation, gboolean is_contended, const ProgramRepeats *repeats) {
  guint64 n_events = 0;
  for (int rank = 0; rank < repeats->program->n_ranks; rank++) {
    const Op *ops = repeats->program->ranks[rank].ops;
    for (int step = 0; step < repeats->program->n_steps; step++) {
      const RepeatedOps *group = program_repeats_of(repeats, rank, step);
      for (gint32 i = group->first; i < group->first + group->n_ops; i++)
        n_events += !ends_with_its_send(simulation, is_contended, &ops[i]);
    }
  }
  return n_events;
}

gboolean engine_add_omitted(const Simulation *simulation, const Trace *trace, const Omitted *omitted,
                            EngineStats *stats) {
  g_assert(simulation->folded);
  const gboolean is_contended = simulation->contended && contention_is_possible(trace);
  if (is_contended && contention_is_too_long(trace, 1, omitted))
    return FALSE;
  stats->n_events += (guint64)omitted->n_groups * events_of_group(simulation, is_contended, omitted->repeats);
  return TRUE;
}
