/* Future events in (time, sequence) order: of equal times the first added leaves first. At most one event per id, so
 * everything is sized once and adding never allocates. Time does not run backwards: what is added is not before what
 * was taken last. */
#pragma once
#include <glib.h>

enum { EVENT_N_BUCKETS = 64 };

typedef struct {
  gint64 time_ns;
  gint32 next; /* id of the next event in its bucket; −1 last */
} Event;

typedef struct {
  gint32 first, last; /* ids; meaningless while the bucket is empty */
} EventBucket;

typedef struct {
  Event *events; /* [ids]; owned */
  gint64 now_ns; /* time of the event taken last */
  guint64 used;  /* bit b: bucket b is not empty */
  EventBucket buckets[EVENT_N_BUCKETS];
} EventQueue;

void event_queue_init(EventQueue *queue, gsize n_ids);
void event_queue_clear(EventQueue *queue);

/* `id` must not be in the queue; time_ns ≥ queue->now_ns. */
void event_queue_add(EventQueue *queue, gint64 time_ns, gint32 id);
/* Take the earliest event, whose time becomes now_ns. Returns its id; −1 when there is none. */
gint32 event_queue_take(EventQueue *queue);
