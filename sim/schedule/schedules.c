/* The table of schedules, in the order --help lists them, and what is not in it. */
#include "schedules.h"

#include <string.h>

#include "error.h"
#include "generators.h"
#include "suggest.h"

enum { ANY_CHUNKS = G_MAXINT };
/* Larger orders are a mistake, and their arrays would not be addressable. */
enum { MAX_STAGES = 1 << 16, MAX_ACTIONS = 1 << 26 };

static const char file_prefix[] = "file:", auto_name[] = "auto", found_prefix[] = "auto: ";
static const char of_one_chunk[] = "1f1b", of_several_chunks[] = "interleaved";

static const ScheduleFacts table[] = {
    {.name = "gpipe",
     .summary = "all forwards, then all backwards",
     .placement = PLACEMENT_LOOP,
     .least_chunks = 1,
     .most_chunks = 1,
     .holds_all = TRUE,
     .in_pytorch = "GPipe",
     .generate = generate_gpipe,
     .bubble_time = bubble_of_ramp},
    {.name = of_one_chunk,
     .summary = "one forward, one backward; at most p - rank micro-batches in flight",
     .placement = PLACEMENT_LOOP,
     .least_chunks = 1,
     .most_chunks = 1,
     .in_megatron = TRUE,
     .in_deepspeed = TRUE,
     .in_pytorch = "1F1B",
     .generate = generate_1f1b,
     .bubble_time = bubble_of_ramp,
     .repeats = repeats_by_one},
    {.name = of_several_chunks,
     .summary = "1f1b over several chunks per rank; a bubble 1/chunks as long",
     .placement = PLACEMENT_LOOP,
     .least_chunks = 1,
     .most_chunks = ANY_CHUNKS,
     .takes_group = TRUE,
     .has_rounds = TRUE,
     .in_megatron = TRUE,
     .in_pytorch = "Interleaved1F1B",
     .generate = generate_interleaved,
     .bubble_time = bubble_of_interleaved,
     .repeats = repeats_of_interleaved,
     .refusal = refusal_of_interleaved},
    {.name = "looped-bfs",
     .summary = "breadth first: all micro-batches of a chunk before the next chunk",
     .placement = PLACEMENT_LOOP,
     .least_chunks = 1,
     .most_chunks = ANY_CHUNKS,
     .holds_all = TRUE,
     .bubble = BUBBLE_VARIES, /* it waits for whole loops */
     .in_pytorch = "LoopedBFS",
     .generate = generate_looped_bfs,
     .bubble_time = bubble_of_looped_bfs},
    {.name = "zb-h1",
     .summary = "zero bubble in 1f1b's memory: a third of its bubble",
     .placement = PLACEMENT_LOOP,
     .least_chunks = 1,
     .most_chunks = 1,
     .defers_w = TRUE,
     .overlaps_p2p = TRUE,
     .runs_on = TRUE,
     .generate = generate_zb_h1,
     .bubble_time = bubble_of_zb_h1},
    {.name = "zb-h2",
     .summary = "zero bubble in twice 1f1b's memory: none at F = I = W",
     .placement = PLACEMENT_LOOP,
     .least_chunks = 1,
     .most_chunks = 1,
     .defers_w = TRUE,
     .overlaps_p2p = TRUE,
     .runs_on = TRUE,
     .generate = generate_zb_h2,
     .bubble_time = bubble_of_zb_h2},
    {.name = "zb-v",
     .summary = "zero bubble on a V in 1f1b's memory: none at F = I = W",
     .placement = PLACEMENT_V,
     .least_chunks = 2,
     .most_chunks = 2,
     .defers_w = TRUE,
     .overlaps_p2p = TRUE,
     .runs_on = TRUE,
     .bubble = BUBBLE_VARIES, /* full from 2p micro-batches on */
     .in_pytorch = "ZBVZeroBubble",
     .generate = generate_zb_v,
     .bubble_time = bubble_of_zb_v},
    {.name = "v-half",
     .summary = "a V in half of 1f1b's memory, with half of its bubble",
     .placement = PLACEMENT_V,
     .least_chunks = 2,
     .most_chunks = 2,
     .defers_w = TRUE,
     .overlaps_p2p = TRUE,
     .runs_on = TRUE,
     .bubble = BUBBLE_GROWS,
     .generate = generate_v_half,
     .bubble_time = bubble_of_v_half},
    {.name = "v-min",
     .summary = "a V in a third of 1f1b's memory, with two thirds of its bubble",
     .placement = PLACEMENT_V,
     .least_chunks = 2,
     .most_chunks = 2,
     .defers_w = TRUE,
     .overlaps_p2p = TRUE,
     .runs_on = TRUE,
     .bubble = BUBBLE_GROWS,
     .generate = generate_v_min,
     .bubble_time = bubble_of_v_min},
    {.name = "dualpipe",
     .summary = "two pipes against each other, forward and backward as one; the weights twice",
     .placement = PLACEMENT_BIDIRECTIONAL,
     .least_chunks = 2,
     .most_chunks = 2,
     .has_pairs = TRUE,
     .defers_w = TRUE,
     .overlaps_p2p = TRUE,
     .generate = generate_dualpipe,
     .bubble_time = bubble_of_dualpipe,
     .refusal = refusal_of_dualpipe},
    {.name = "dualpipe-v",
     .summary = "dualpipe cut in half: one pipe on a V, the weights once",
     .placement = PLACEMENT_V,
     .least_chunks = 2,
     .most_chunks = 2,
     .has_pairs = TRUE,
     .defers_w = TRUE,
     .overlaps_p2p = TRUE,
     .in_pytorch = "DualPipeV",
     .generate = generate_dualpipe_v,
     .bubble_time = bubble_of_dualpipe_v},
};

/* Counts as a zero-bubble schedule. */
static const ScheduleFacts of_auto = {.name = auto_name,
                                      .least_chunks = 1,
                                      .most_chunks = ANY_CHUNKS,
                                      .defers_w = TRUE,
                                      .holds_all = TRUE,
                                      .overlaps_p2p = TRUE,
                                      .runs_on = TRUE};
/* Is followed literally, and fits its own number of micro-batches alone. */
static const ScheduleFacts of_file = {.name = file_prefix,
                                      .least_chunks = 1,
                                      .most_chunks = ANY_CHUNKS,
                                      .defers_w = TRUE,
                                      .holds_all = TRUE,
                                      .overlaps_p2p = TRUE,
                                      .bubble = BUBBLE_GROWS};
static const ScheduleFacts of_nothing = {0};

/* --- names --- */

enum { N_SCHEDULES = G_N_ELEMENTS(table) };

/* NULL-terminated, with or without auto before the end. */
static const char *const *names_of_table(gboolean with_auto) {
  static const char *names[2][N_SCHEDULES + 2];
  static gsize is_filled;
  if (g_once_init_enter(&is_filled)) {
    for (int i = 0; i < N_SCHEDULES; i++)
      names[0][i] = names[1][i] = table[i].name;
    names[1][N_SCHEDULES] = auto_name;
    g_once_init_leave(&is_filled, 1);
  }
  return names[with_auto];
}

const char *const *schedule_names(void) {
  return names_of_table(FALSE);
}

const char *const *schedule_choices(void) {
  return names_of_table(TRUE);
}

static const ScheduleFacts *row_of(const char *name) {
  for (int i = 0; name != NULL && i < N_SCHEDULES; i++)
    if (strcmp(table[i].name, name) == 0)
      return &table[i];
  return NULL;
}

const ScheduleFacts *schedule_find(const char *name, GError **error) {
  const ScheduleFacts *row = row_of(name);
  if (row != NULL)
    return row;
  g_autofree char *hint = suggest_message(name != NULL ? name : "", schedule_names());
  fail_input(error, "unknown schedule \"%s\": %s", name != NULL ? name : "", hint);
  return NULL;
}

gboolean schedule_check_name(const char *name, GError **error) {
  if (schedule_is_auto(name) || row_of(name) != NULL)
    return TRUE;
  g_autofree char *hint = suggest_message(name, schedule_choices());
  return fail_input(error, "unknown schedule \"%.80s\", no file:orders.csv either: %s", name, hint);
}

const ScheduleFacts *schedule_facts(const char *name) {
  const ScheduleFacts *row = row_of(name);
  if (row != NULL)
    return row;
  if (name == NULL)
    return &of_nothing;
  if (schedule_is_auto(name) || schedule_run_name(name) != name)
    return &of_auto;
  return schedule_file(name) != NULL ? &of_file : &of_nothing;
}

const char *schedule_default(int n_chunks) {
  return n_chunks > 1 ? of_several_chunks : of_one_chunk;
}

gboolean schedule_is_default(const char *name) {
  return g_strcmp0(name, of_one_chunk) == 0 || g_strcmp0(name, of_several_chunks) == 0;
}

const char *schedule_spelling(const char *name) {
  const int index = suggest_same(name, schedule_choices());
  return index >= 0 ? schedule_choices()[index] : name;
}

const char *schedule_file(const char *name) {
  return g_str_has_prefix(name, file_prefix) ? name + strlen(file_prefix) : NULL;
}

char *schedule_found_name(const char *name) {
  return g_strconcat(found_prefix, name, NULL);
}

const char *schedule_run_name(const char *name) {
  return g_str_has_prefix(name, found_prefix) ? name + strlen(found_prefix) : name;
}

gboolean schedule_is_auto(const char *name) {
  return g_strcmp0(name, auto_name) == 0;
}

/* --- chunks --- */

int schedule_default_chunks(const ScheduleFacts *schedule, int n_ranks) {
  return n_ranks > 1 && schedule->most_chunks > 1 ? MAX(schedule->least_chunks, 2) : schedule->least_chunks;
}

PlacementShape schedule_placement(const ScheduleFacts *schedule, int n_chunks) {
  return schedule->generate == NULL && n_chunks == AUTO_CHUNKS ? PLACEMENT_V : schedule->placement;
}

Placement *schedule_auto_placement(int n_ranks, int n_chunks) {
  return placement_new(schedule_placement(&of_auto, n_chunks), n_ranks, n_chunks);
}

gboolean schedule_loops(const ScheduleFacts *schedule) {
  return row_of(schedule->name) != NULL && schedule->most_chunks > schedule->least_chunks;
}

gboolean schedule_check_chunks(const ScheduleFacts *schedule, int n_chunks, GError **error) {
  if (n_chunks >= schedule->least_chunks && n_chunks <= schedule->most_chunks)
    return TRUE;
  if (schedule->most_chunks == 1)
    return fail_impossible(error, "schedule %s has one chunk per pipeline rank, but %d chunks were asked for",
                           schedule->name, n_chunks);
  return fail_impossible(error, "schedule %s has %d chunks per pipeline rank, but %d were asked for", schedule->name,
                         schedule->least_chunks, n_chunks);
}

/* --- orders --- */

Bubble schedule_bubble(const ScheduleFacts *schedule, OrderShape shape, const PhaseTimes *times) {
  return schedule->bubble_time(shape, times);
}

int schedule_repeats(const ScheduleFacts *schedule, OrderShape shape) {
  return schedule->repeats != NULL ? schedule->repeats(shape) : 0;
}

const char *schedule_refusal(const ScheduleFacts *schedule, OrderShape shape) {
  return schedule->refusal != NULL ? schedule->refusal(shape) : NULL;
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
  schedule->generate(order, shape);
  order->is_generated = TRUE;
  return order;
}
