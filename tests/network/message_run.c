/* An item starts when its count of pending dependencies falls to 0. Dependencies are one flat list sorted by the item
 * waited for, made by a counting sort when the program is run. A delay is a flow without links, with the delay as its
 * latency, so the flows' queue is the only queue. */
#include "message_run.h"

#include <math.h>

typedef struct {
  double bytes;
  gint64 latency_factor; /* passes of the route; of a delay: ticks */
  gint32 route;          /* −1: a delay */
  gint32 n_before;
} Item;

struct MessageProgram {
  GArray *items;  /* Item */
  GArray *before; /* gint32: whom item 0 waits for, then item 1 … */
};

MessageProgram *message_program_new(void) {
  MessageProgram *program = g_new(MessageProgram, 1);
  program->items = g_array_new(FALSE, FALSE, sizeof(Item));
  program->before = g_array_new(FALSE, FALSE, sizeof(gint32));
  return program;
}

void message_program_free(MessageProgram *program) {
  if (program == NULL)
    return;
  g_array_free(program->items, TRUE);
  g_array_free(program->before, TRUE);
  g_free(program);
}

static gint32 add_item(MessageProgram *program, Item item) {
  g_assert(program->items->len < G_MAXINT32);
  g_array_append_val(program->items, item);
  return program->items->len - 1;
}

gint32 message_program_send(MessageProgram *program, gint32 route, double bytes, gint32 n_passes) {
  g_assert(route >= 0 && bytes >= 0 && n_passes >= 1);
  return add_item(program, (Item){bytes, n_passes, route, 0});
}

gint32 message_program_delay(MessageProgram *program, gint64 delay_ns) {
  g_assert(delay_ns >= 0);
  return add_item(program, (Item){0, ticks_of_ns(delay_ns), -1, 0});
}

void message_program_after(MessageProgram *program, gint32 earlier) {
  guint last = program->items->len - 1;
  g_assert(earlier >= 0 && (guint)earlier < last);
  g_array_append_val(program->before, earlier);
  g_array_index(program->items, Item, last).n_before++;
}

gint32 message_program_n_items(const MessageProgram *program) {
  return program->items->len;
}

typedef struct {
  const Item *items;
  const Routes *routes;
  Flows *flows;
  gint32 n_items;
  gint32 *n_before;    /* [items] that have not ended */
  gint32 *first_after; /* [items + 1] into after */
  gint32 *after;       /* items that wait for item i: after[first_after[i] … first_after[i + 1]) */
} Run;

static void sort_by_earlier(Run *run, const MessageProgram *program) {
  const gint32 *before = (const gint32 *)program->before->data;
  gint32 *fill = run->first_after; /* runs ahead of the start by one place while counting */
  for (guint e = 0; e < program->before->len; e++)
    if (before[e] + 2 <= run->n_items)
      fill[before[e] + 2]++;
  for (gint32 i = 2; i <= run->n_items; i++)
    fill[i] += fill[i - 1];
  for (gint32 i = 0, e = 0; i < run->n_items; i++)
    for (gint32 end = e + run->items[i].n_before; e < end; e++)
      run->after[fill[before[e] + 1]++] = i;
}

static inline void start(Run *run, gint32 id, gint64 now_ticks) {
  const Item *item = &run->items[id];
  FlowRequest request = {.weight = 1, .bytes = item->bytes, .cap_Bps = INFINITY, .tag = id};
  if (item->route >= 0) {
    request.route = routes_get(run->routes, item->route);
    request.route.latency_ticks *= item->latency_factor;
  } else {
    request.route.latency_ticks = item->latency_factor;
  }
  flows_start(run->flows, now_ticks, &request);
}

static void run_all(Run *run, gint64 *ends_ticks, gint64 *last_ticks, gint32 *n_ended) {
  for (gint32 i = 0; i < run->n_items; i++)
    if (run->n_before[i] == 0)
      start(run, i, 0);
  for (gint64 at_ticks; (at_ticks = flows_next(run->flows)) < TICKS_NEVER;) {
    gint32 n = flows_advance(run->flows, at_ticks);
    const FlowEnd *ends = flows_ended(run->flows);
    *n_ended += n;
    for (gint32 e = 0; e < n; e++) {
      gint32 id = (gint32)ends[e].tag;
      *last_ticks = ends[e].end_ticks;
      if (ends_ticks != NULL)
        ends_ticks[id] = ends[e].end_ticks;
      for (gint32 a = run->first_after[id]; a < run->first_after[id + 1]; a++)
        if (--run->n_before[run->after[a]] == 0)
          start(run, run->after[a], at_ticks);
    }
  }
}

gint64 message_run(const MessageProgram *program, const Routes *routes, Flows *flows, gint64 *ends_ticks) {
  gint32 n = program->items->len, n_ended = 0;
  gint64 last_ticks = 0;
  g_assert(flows_n_active(flows) == 0);
  g_autofree gint32 *n_before = g_new(gint32, n), *first_after = g_new0(gint32, n + 1);
  g_autofree gint32 *after = g_new(gint32, program->before->len);
  Run run = {(const Item *)program->items->data, routes, flows, n, n_before, first_after, after};
  for (gint32 i = 0; i < n; i++) {
    n_before[i] = run.items[i].n_before;
    if (ends_ticks != NULL)
      ends_ticks[i] = TICKS_NEVER;
  }
  sort_by_earlier(&run, program);
  run_all(&run, ends_ticks, &last_ticks, &n_ended);
  return n_ended < n ? G_MAXINT64 : ticks_to_ns(last_ticks);
}
