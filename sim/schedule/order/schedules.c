/* Schedules by name: one row each, in the order --help lists them. */
#include "schedules.h"
#include "error.h"
#include "generators.h"
#include "suggest.h"
#include <string.h>

enum { ANY_CHUNKS = G_MAXINT };

static const ScheduleInfo schedules[] = {
    {.name = "gpipe",
     .summary = "all forwards, then all backwards",
     .placement = PLACEMENT_LOOP,
     .least_chunks = 1,
     .most_chunks = 1,
     .generate = generate_gpipe,
     .bubble = bubble_of_ramp},
    {.name = "1f1b",
     .summary = "one forward, one backward; at most p - rank micro-batches in flight",
     .placement = PLACEMENT_LOOP,
     .least_chunks = 1,
     .most_chunks = 1,
     .generate = generate_1f1b,
     .bubble = bubble_of_ramp,
     .repeats = repeats_by_one},
    {.name = "interleaved",
     .summary = "1f1b over several chunks per rank; a bubble 1/chunks as long",
     .placement = PLACEMENT_LOOP,
     .least_chunks = 1,
     .most_chunks = ANY_CHUNKS,
     .takes_group = TRUE,
     .generate = generate_interleaved,
     .bubble = bubble_of_interleaved,
     .repeats = repeats_of_interleaved,
     .refusal = refusal_of_interleaved},
    {.name = "looped-bfs",
     .summary = "breadth first: all micro-batches of a chunk before the next chunk",
     .placement = PLACEMENT_LOOP,
     .least_chunks = 1,
     .most_chunks = ANY_CHUNKS,
     .generate = generate_looped_bfs,
     .bubble = bubble_of_looped_bfs},
    {.name = "zb-h1",
     .summary = "zero bubble in 1f1b's memory: a third of its bubble",
     .placement = PLACEMENT_LOOP,
     .least_chunks = 1,
     .most_chunks = 1,
     .overlaps_p2p = TRUE,
     .runs_on = TRUE,
     .generate = generate_zb_h1,
     .bubble = bubble_of_zb_h1},
    {.name = "zb-h2",
     .summary = "zero bubble in twice 1f1b's memory: none at F = I = W",
     .placement = PLACEMENT_LOOP,
     .least_chunks = 1,
     .most_chunks = 1,
     .overlaps_p2p = TRUE,
     .runs_on = TRUE,
     .generate = generate_zb_h2,
     .bubble = bubble_of_zb_h2},
    {.name = "zb-v",
     .summary = "zero bubble on a V in 1f1b's memory: none at F = I = W",
     .placement = PLACEMENT_V,
     .least_chunks = 2,
     .most_chunks = 2,
     .overlaps_p2p = TRUE,
     .runs_on = TRUE,
     .generate = generate_zb_v,
     .bubble = bubble_of_zb_v},
    {.name = "v-half",
     .summary = "a V in half of 1f1b's memory, with half of its bubble",
     .placement = PLACEMENT_V,
     .least_chunks = 2,
     .most_chunks = 2,
     .overlaps_p2p = TRUE,
     .runs_on = TRUE,
     .generate = generate_v_half,
     .bubble = bubble_of_v_half},
    {.name = "v-min",
     .summary = "a V in a third of 1f1b's memory, with two thirds of its bubble",
     .placement = PLACEMENT_V,
     .least_chunks = 2,
     .most_chunks = 2,
     .overlaps_p2p = TRUE,
     .runs_on = TRUE,
     .generate = generate_v_min,
     .bubble = bubble_of_v_min},
    {.name = "dualpipe",
     .summary = "two pipes against each other, forward and backward as one; the weights twice",
     .placement = PLACEMENT_BIDIRECTIONAL,
     .least_chunks = 2,
     .most_chunks = 2,
     .overlaps_p2p = TRUE,
     .generate = generate_dualpipe,
     .bubble = bubble_of_dualpipe,
     .refusal = refusal_of_dualpipe},
    {.name = "dualpipe-v",
     .summary = "dualpipe cut in half: one pipe on a V, the weights once",
     .placement = PLACEMENT_V,
     .least_chunks = 2,
     .most_chunks = 2,
     .overlaps_p2p = TRUE,
     .generate = generate_dualpipe_v,
     .bubble = bubble_of_dualpipe_v},
};

static const char *const names[] = {SCHEDULE_NAMES, NULL};
G_STATIC_ASSERT(G_N_ELEMENTS(names) == G_N_ELEMENTS(schedules) + 1);

/* Larger orders are a mistake, and their arrays would not be addressable. */
enum { MAX_STAGES = 1 << 16, MAX_ACTIONS = 1 << 26 };

const char *const *schedule_names(void) {
  return names;
}

const ScheduleInfo *schedule_find(const char *name, GError **error) {
  for (gsize i = 0; name && i < G_N_ELEMENTS(schedules); i++)
    if (strcmp(schedules[i].name, name) == 0)
      return &schedules[i];
  g_autofree char *hint = suggest_message(name ? name : "", names);
  fail_input(error, "unknown schedule \"%s\": %s", name ? name : "", hint);
  return NULL;
}

int schedule_default_chunks(const ScheduleInfo *schedule, int n_ranks) {
  return n_ranks > 1 && schedule->most_chunks > 1 ? MAX(schedule->least_chunks, 2) : schedule->least_chunks;
}

gboolean schedule_check_chunks(const ScheduleInfo *schedule, int n_chunks, GError **error) {
  if (n_chunks >= schedule->least_chunks && n_chunks <= schedule->most_chunks)
    return TRUE;
  if (schedule->most_chunks == 1)
    return fail_impossible(error, "schedule %s has one chunk per pipeline rank, but %d chunks were asked for",
                           schedule->name, n_chunks);
  return fail_impossible(error, "schedule %s has %d chunks per pipeline rank, but %d were asked for", schedule->name,
                         schedule->least_chunks, n_chunks);
}

static gboolean check_shape(const ScheduleInfo *schedule, OrderShape shape, GError **error) {
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
  const char *refusal = schedule->refusal != NULL ? schedule->refusal(shape) : NULL;
  return refusal == NULL ||
         fail_impossible(error, "schedule %s %s: found %d pipeline ranks, %d chunks, %d micro-batches, groups of %d",
                         schedule->name, refusal, shape.n_ranks, shape.n_chunks, shape.n_micro_batches, shape.group);
}

Order *order_new(const ScheduleInfo *schedule, OrderShape shape, GError **error) {
  if (!check_shape(schedule, shape, error))
    return NULL;
  Placement *placement = placement_new(schedule->placement, shape.n_ranks, shape.n_chunks);
  Order *order = order_new_empty(placement, shape.n_micro_batches);
  schedule->generate(order, shape);
  return order;
}
