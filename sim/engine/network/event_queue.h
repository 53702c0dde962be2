/* Future events in (time, sequence) order: of equal times the first added leaves first. At most one event per id, so
 * adding never allocates. Time does not run backwards: nothing is added before the time of the event taken last. The
 * owner chooses the unit of time: ns in the engine, ticks on the network. */
#pragma once
#include <glib.h>

enum { EVENT_N_BUCKETS = 64 };

typedef struct {
  gint64 at;
  gint32 next; /* id of the next event in its bucket; −1 last */
  gint32 prev; /* id of the one before; meaningless for the first */
} Event;

typedef struct {
  gint32 first, last; /* ids; meaningless while the bucket is empty */
} EventBucket;

typedef struct {
  Event *events; /* [ids]; owned */
  gint64 now;    /* time of the event taken last */
  guint64 used;  /* bit b: bucket b is not empty */
  gint64 next;   /* cached result of event_queue_next(), lowered by later additions; G_MININT64: unknown */
  EventBucket buckets[EVENT_N_BUCKETS];
} EventQueue;

void event_queue_init(EventQueue *queue, gsize n_ids);
void event_queue_clear(EventQueue *queue);
/* Make room for more ids; queued events stay. */
void event_queue_grow(EventQueue *queue, gsize n_ids);

/* `id` must not be in the queue; at ≥ queue->now. */
void event_queue_add(EventQueue *queue, gint64 at, gint32 id);
/* `id` must be in the queue. */
void event_queue_remove(EventQueue *queue, gint32 id);
/* Take the earliest event; its time becomes the present. Returns its id; −1 when there is none. */
gint32 event_queue_take(EventQueue *queue);
/* Take up to `n` events of one time, the earliest; it becomes the present. Returns their number. */
int event_queue_take_due(EventQueue *queue, gint32 *ids, int n);
/* The earliest time, without advancing to it; looks through one bucket. G_MAXINT64 when there is none. */
gint64 event_queue_next(EventQueue *queue);
