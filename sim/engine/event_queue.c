/* A 4-ary heap: half the levels of a binary one, and the four children of a node share a cache line.
 *
 * A simulation mostly takes an event and adds the next one of the same stream. So taking leaves a hole at the root, and
 * the add that follows sifts its event down from there: one sift for the two. Only a second take in a row has to fill
 * the hole with the last event first. */
#include "event_queue.h"

/* The children 4i + 1 … 4i + 4 of node i lie on one line when events[1] starts one; Event is 16 bytes. */
enum { ARITY = 4, LINE_EVENTS = 4 };

void event_queue_init(EventQueue *queue, guint32 capacity) {
  *queue = (EventQueue){.capacity = capacity};
  gsize n_bytes = ((gsize)capacity + 2 * LINE_EVENTS) * sizeof(Event);
  Event *lines = g_aligned_alloc(1, (n_bytes + 63) / 64 * 64, 64);
  queue->events = lines + LINE_EVENTS - 1;
}

void event_queue_clear(EventQueue *queue) {
  if (queue->events != NULL)
    g_aligned_free(queue->events - (LINE_EVENTS - 1));
  *queue = (EventQueue){0};
}

static inline gboolean is_before(Event a, Event b) {
  return (a.time_ns < b.time_ns) | ((a.time_ns == b.time_ns) & (a.order < b.order));
}

static inline guint32 earliest_child(const Event *events, guint32 first, guint32 last) {
  guint32 best = first;
  for (guint32 child = first + 1; child <= last; child++)
    best = is_before(events[child], events[best]) ? child : best;
  return best;
}

static void sift_down(EventQueue *queue, Event event) {
  Event *events = queue->events;
  guint32 n = queue->n_events, node = 0;
  for (;;) {
    guint32 first = node * ARITY + 1;
    if (first >= n)
      break;
    guint32 child = earliest_child(events, first, MIN(first + ARITY, n) - 1);
    if (!is_before(events[child], event))
      break;
    events[node] = events[child];
    node = child;
  }
  events[node] = event;
}

static void sift_up(EventQueue *queue, Event event) {
  Event *events = queue->events;
  guint32 node = queue->n_events++;
  while (node > 0) {
    guint32 parent = (node - 1) / ARITY;
    if (!is_before(event, events[parent]))
      break;
    events[node] = events[parent];
    node = parent;
  }
  events[node] = event;
}

void event_queue_add(EventQueue *queue, gint64 time_ns, guint32 payload) {
  Event event = {time_ns, queue->next_sequence++ << EVENT_PAYLOAD_BITS | payload};
  if (queue->root_taken) {
    queue->root_taken = FALSE;
    sift_down(queue, event);
    return;
  }
  g_assert(queue->n_events < queue->capacity);
  sift_up(queue, event);
}

gboolean event_queue_take(EventQueue *queue, gint64 *time_ns, guint32 *payload) {
  if (queue->root_taken) {
    queue->root_taken = FALSE;
    if (--queue->n_events > 0)
      sift_down(queue, queue->events[queue->n_events]);
  }
  if (queue->n_events == 0)
    return FALSE;
  *time_ns = queue->events[0].time_ns;
  *payload = queue->events[0].order & ((1u << EVENT_PAYLOAD_BITS) - 1);
  queue->root_taken = TRUE;
  return TRUE;
}
