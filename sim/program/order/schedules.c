/* From a schedule and counts to its order. */
#include "schedules.h"
#include "error.h"
#include "generators.h"

/* Larger orders are a mistake, and their arrays would not be addressable. */
enum { MAX_STAGES = 1 << 16, MAX_ACTIONS = 1 << 26 };

Bubble schedule_bubble(const ScheduleFacts *schedule, OrderShape shape, const PhaseTimes *times) {
  return schedule_generator(schedule)->bubble(shape, times);
}

int schedule_repeats(const ScheduleFacts *schedule, OrderShape shape) {
  const Generator *generator = schedule_generator(schedule);
  return generator->repeats != NULL ? generator->repeats(shape) : 0;
}

const char *schedule_refusal(const ScheduleFacts *schedule, OrderShape shape) {
  const Generator *generator = schedule_generator(schedule);
  return generator->refusal != NULL ? generator->refusal(shape) : NULL;
}

static gboolean check_shape(const ScheduleFacts *schedule, OrderShape shape, GError **error) {
  if (shape.n_ranks < 1 || shape.n_chunks < 1 || shape.n_micro_batches < 1)
    return fail_impossible(error,
                           "schedule %s: %d pipeline ranks, %d chunks, %d micro-batches: each must be at least 1",
                           schedule->name, shape.n_ranks, shape.n_chunks, shape.n_micro_batches);
  if (!schedule_check_chunks(schedule, shape.n_chunks, error))
    return FALSE;
  if (shape.group != 0 && !schedule->takes_group)
    return fail_impossible(error, "schedule %s has no groups of micro-batches, but groups of %d were asked for",
                           schedule->name, shape.group);
  gint64 n_stages = (gint64)shape.n_ranks * shape.n_chunks;
  if (n_stages > MAX_STAGES || 3 * n_stages * shape.n_micro_batches > MAX_ACTIONS)
    return fail_impossible(
        error, "%d pipeline ranks × %d chunks × %d micro-batches is more than can be scheduled (%d stages, %d actions)",
        shape.n_ranks, shape.n_chunks, shape.n_micro_batches, MAX_STAGES, MAX_ACTIONS);
  const char *refusal = schedule_refusal(schedule, shape);
  return refusal == NULL ||
         fail_impossible(error, "schedule %s %s: found %d pipeline ranks, %d chunks, %d micro-batches, groups of %d",
                         schedule->name, refusal, shape.n_ranks, shape.n_chunks, shape.n_micro_batches, shape.group);
}

Order *order_new(const ScheduleFacts *schedule, OrderShape shape, GError **error) {
  if (!check_shape(schedule, shape, error))
    return NULL;
  Placement *placement = placement_new(schedule->placement, shape.n_ranks, shape.n_chunks);
  Order *order = order_new_empty(placement, shape.n_micro_batches);
  schedule_generator(schedule)->generate(order, shape);
  order->is_generated = TRUE;
  return order;
}
