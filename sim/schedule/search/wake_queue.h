/* Private to auto_list: which rank decides next. */
#pragma once
#include <glib.h>

static const gint64 NEVER = G_MAXINT64;

/* A tournament: each pair's winner is the one that wakes first, of equals the lower rank. */
typedef struct {
  gint64 *at;  /* [n_leaves] when a rank wakes, ns; NEVER; owned */
  int *winner; /* [2 · n_leaves] of node n's two below it, 2n and 2n + 1; from n_leaves on the ranks; owned */
  int n_ranks, n_leaves;
} WakeQueue;

void wake_queue_init(WakeQueue *queue, int n_ranks);
void wake_queue_clear(WakeQueue *queue);
/* All ranks at 0. */
void wake_queue_start(WakeQueue *queue);
void wake_queue_set(WakeQueue *queue, int rank, gint64 time_ns);
static inline int wake_queue_first(const WakeQueue *queue) {
  return queue->winner[1];
}
