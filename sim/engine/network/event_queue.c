/* A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, "Faster algorithms for the shortest path problem", JACM 37, 1990):
 * time only advances, so an event need not be compared with others until its time is near. Bucket b holds the events
 * whose time differs from now in bit b − 1 and in no higher one; bucket 0 holds those due now:
 *
 *     now        0110 1001
 *     bucket 0   0110 1001
 *     bucket 2   0110 101·
 *     bucket 3   0110 11··
 *     bucket 5   0111 ····
 *
 * To take an event when none is due, the lowest used bucket is emptied: its earliest time becomes now, and each of
 * its other events falls into a lower bucket. Adding takes a few instructions. An event falls at most as often as
 * time has significant bits, and seldom more than three times. Buckets are first in, first out, and a bucket is
 * filled from above only while it and those below are empty; so events of equal time leave in the order they were
 * added. As now moves only within the lowest used bucket, an event's bucket always follows from its time and the
 * present value of now, which is how an event is found to be unlinked. */
#include "event_queue.h"

void event_queue_init(EventQueue *queue, gsize n_ids) {
  *queue = (EventQueue){.events = g_new(Event, n_ids), .next = G_MAXINT64};
}

void event_queue_clear(EventQueue *queue) {
  g_free(queue->events);
  *queue = (EventQueue){0};
}

void event_queue_grow(EventQueue *queue, gsize n_ids) {
  queue->events = g_renew(Event, queue->events, n_ids);
}

static inline guint bucket_of(gint64 at, gint64 now) {
  guint64 differs = (guint64)at ^ (guint64)now;
  return differs == 0 ? 0 : 64 - __builtin_clzll(differs);
}

static inline void append(EventQueue *queue, gint32 id) {
  Event *event = &queue->events[id];
  guint bucket = bucket_of(event->at, queue->now);
  event->next = -1;
  if (queue->used >> bucket & 1) {
    event->prev = queue->buckets[bucket].last;
    queue->events[event->prev].next = id;
  } else {
    queue->buckets[bucket].first = id;
  }
  queue->buckets[bucket].last = id;
  queue->used |= (guint64)1 << bucket;
}

void event_queue_add(EventQueue *queue, gint64 at, gint32 id) {
  g_assert(at >= queue->now);
  queue->events[id].at = at;
  queue->next = MIN(queue->next, at);
  append(queue, id);
}

void event_queue_remove(EventQueue *queue, gint32 id) {
  const Event *event = &queue->events[id];
  guint bucket = bucket_of(event->at, queue->now);
  if (event->at == queue->next)
    queue->next = G_MININT64;
  EventBucket *ends = &queue->buckets[bucket];
  gboolean is_first = ends->first == id, is_last = ends->last == id;
  if (is_first && is_last)
    queue->used &= ~((guint64)1 << bucket);
  if (is_first)
    ends->first = event->next;
  else
    queue->events[event->prev].next = event->next;
  if (is_last)
    ends->last = event->prev;
  else
    queue->events[event->next].prev = event->prev;
}

/* Nothing is due: advance to the earliest event of the lowest used bucket and take it; the others fall. */
static gint32 take_later(EventQueue *queue) {
  guint bucket = __builtin_ctzll(queue->used);
  gint32 first = queue->buckets[bucket].first;
  queue->used &= queue->used - 1;
  queue->now = queue->events[first].at;
  if (queue->events[first].next < 0)
    return first;
  gint32 earliest = first;
  for (gint32 id = queue->events[first].next; id >= 0; id = queue->events[id].next)
    earliest = queue->events[id].at < queue->events[earliest].at ? id : earliest;
  queue->now = queue->events[earliest].at;
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
  queue->next = G_MININT64;
  if (!(queue->used & 1))
    return take_later(queue);
  gint32 id = queue->buckets[0].first, next = queue->events[id].next;
  queue->buckets[0].first = next;
  if (next < 0)
    queue->used &= ~(guint64)1;
  return id;
}

int event_queue_take_due(EventQueue *queue, gint32 *ids, int n) {
  int n_taken = 0;
  while (n_taken < n && (n_taken == 0 || queue->used & 1)) {
    ids[n_taken] = event_queue_take(queue);
    if (ids[n_taken] < 0)
      break;
    n_taken++;
  }
  return n_taken;
}

static gint64 find_next(const EventQueue *queue) {
  if (queue->used == 0)
    return G_MAXINT64;
  if (queue->used & 1)
    return queue->now;
  gint64 earliest = G_MAXINT64;
  for (gint32 id = queue->buckets[__builtin_ctzll(queue->used)].first; id >= 0; id = queue->events[id].next)
    earliest = MIN(earliest, queue->events[id].at);
  return earliest;
}

gint64 event_queue_next(EventQueue *queue) {
  if (queue->next == G_MININT64)
    queue->next = find_next(queue);
  return queue->next;
}
