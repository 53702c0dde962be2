/* A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, "Faster algorithms for the shortest path problem", JACM 37, 1990): time
 * only moves on, so an event need not be compared with others until time is near it. Bucket b holds the events whose
 * time differs from now in bit b − 1 and in no higher one; bucket 0 those that are due now:
 *
 *     now        0110 1001
 *     bucket 0   0110 1001
 *     bucket 2   0110 101·
 *     bucket 3   0110 11··
 *     bucket 5   0111 ····
 *
 * To take when nothing is due, the lowest used bucket is emptied: its earliest time becomes now, and each of its events
 * falls into a lower bucket. Adding is a few instructions; an event falls at most as often as time has bits that count,
 * seldom more than three times. Buckets are first in first out, and a bucket is filled from above only while it and
 * those below are empty: so events of equal time leave in the order they were added. */
#include "event_queue.h"

void event_queue_init(EventQueue *queue, gsize n_ids) {
  *queue = (EventQueue){.events = g_new(Event, n_ids)};
}

void event_queue_clear(EventQueue *queue) {
  g_free(queue->events);
  *queue = (EventQueue){0};
}

static inline guint bucket_of(gint64 time_ns, gint64 now_ns) {
  guint64 differs = (guint64)time_ns ^ (guint64)now_ns;
  return differs == 0 ? 0 : 64 - __builtin_clzll(differs);
}

static inline void append(EventQueue *queue, gint32 id) {
  Event *event = &queue->events[id];
  guint bucket = bucket_of(event->time_ns, queue->now_ns);
  event->next = -1;
  if (queue->used >> bucket & 1)
    queue->events[queue->buckets[bucket].last].next = id;
  else
    queue->buckets[bucket].first = id;
  queue->buckets[bucket].last = id;
  queue->used |= (guint64)1 << bucket;
}

void event_queue_add(EventQueue *queue, gint64 time_ns, gint32 id) {
  g_assert(time_ns >= queue->now_ns);
  queue->events[id].time_ns = time_ns;
  append(queue, id);
}

/* Nothing is due: move now to the earliest event of the lowest used bucket and take it; the others fall. */
static gint32 take_later(EventQueue *queue) {
  guint bucket = __builtin_ctzll(queue->used);
  gint32 first = queue->buckets[bucket].first;
  queue->used &= queue->used - 1;
  queue->now_ns = queue->events[first].time_ns;
  if (queue->events[first].next < 0)
    return first;
  gint32 earliest = first;
  for (gint32 id = queue->events[first].next; id >= 0; id = queue->events[id].next)
    earliest = queue->events[id].time_ns < queue->events[earliest].time_ns ? id : earliest;
  queue->now_ns = queue->events[earliest].time_ns;
  for (gint32 id = first, next; id >= 0; id = next) {
    next = queue->events[id].next;
    if (id != earliest)
      append(queue, id);
  }
  return earliest;
}

gint32 event_queue_take(EventQueue *queue) {
  if (queue->used == 0)
    return -1;
  if (!(queue->used & 1))
    return take_later(queue);
  gint32 id = queue->buckets[0].first, next = queue->events[id].next;
  queue->buckets[0].first = next;
  if (next < 0)
    queue->used &= ~(guint64)1;
  return id;
}
