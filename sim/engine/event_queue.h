/* Future events in (time, sequence) order: a heap of four children per node. Sized once; adding never allocates. */
#pragma once
#include <glib.h>

typedef struct {
  gint64 time_ns;
  guint64 order; /* sequence << EVENT_PAYLOAD_BITS | payload: equal times leave in the order they came */
} Event;

enum { EVENT_PAYLOAD_BITS = 26 };

typedef struct {
  Event *events; /* owned */
  guint32 n_events, capacity;
  guint64 next_sequence;
  gboolean root_taken; /* the root was taken and not yet replaced: the next add fills it with one sift */
} EventQueue;

void event_queue_init(EventQueue *queue, guint32 capacity);
void event_queue_clear(EventQueue *queue);

/* `payload` < 2^EVENT_PAYLOAD_BITS; asserts that there is room. */
void event_queue_add(EventQueue *queue, gint64 time_ns, guint32 payload);
/* Take the earliest event; FALSE when there is none. */
gboolean event_queue_take(EventQueue *queue, gint64 *time_ns, guint32 *payload);
