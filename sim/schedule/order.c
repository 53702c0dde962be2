/* Schedules by name: one row each, in the order --help lists them. */
#include "order.h"
#include "error.h"
#include "generators.h"
#include "suggest.h"
#include <string.h>

static const ScheduleInfo schedules[] = {
    {"gpipe", "all forwards, then all backwards", FALSE, generate_gpipe, bubble_of_ramp},
    {"1f1b", "one forward, one backward; at most p - rank micro-batches in flight", FALSE, generate_1f1b,
     bubble_of_ramp},
    {"interleaved", "1f1b over several chunks per rank; a bubble 1/chunks as long", TRUE, generate_interleaved,
     bubble_of_interleaved},
};
static const char *const names[] = {"gpipe", "1f1b", "interleaved", NULL};
G_STATIC_ASSERT(G_N_ELEMENTS(names) == G_N_ELEMENTS(schedules) + 1);

/* Beyond these an order is a mistake, and its arrays would not be addressable. */
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

Order *order_new(const ScheduleInfo *schedule, int n_ranks, int n_chunks, int n_micro_batches, GError **error) {
  if (n_ranks < 1 || n_chunks < 1 || n_micro_batches < 1) {
    fail_impossible(error, "schedule %s: %d pipeline ranks, %d chunks, %d micro-batches: each must be at least 1",
                    schedule->name, n_ranks, n_chunks, n_micro_batches);
    return NULL;
  }
  if (n_chunks > 1 && !schedule->has_chunks) {
    fail_impossible(error, "schedule %s has one chunk per pipeline rank, but %d chunks were asked for", schedule->name,
                    n_chunks);
    return NULL;
  }
  gint64 n_stages = (gint64)n_ranks * n_chunks;
  if (n_stages > MAX_STAGES || 2 * n_stages * n_micro_batches > MAX_ACTIONS) {
    fail_impossible(
        error, "%d pipeline ranks × %d chunks × %d micro-batches is more than can be scheduled (%d stages, %d actions)",
        n_ranks, n_chunks, n_micro_batches, MAX_STAGES, MAX_ACTIONS);
    return NULL;
  }
  return schedule->generate(n_ranks, n_chunks, n_micro_batches);
}

void order_free(Order *order) {
  if (!order)
    return;
  for (int rank = 0; rank < order->n_ranks; rank++)
    g_array_unref(order->actions[rank]);
  g_free(order->actions);
  g_free(order->stage_rank);
  g_free(order);
}
