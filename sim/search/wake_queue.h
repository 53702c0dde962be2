/* Private to auto_list: determines which rank decides next. */
#pragma once
#include <glib.h>

static const gint64 NEVER = G_MAXINT64;

/* A tournament tree: the winner of each pair is the one that wakes first, among equals the lower rank. */
typedef struct {
  gint64 *at;  /* [n_leaves] when a rank wakes, ns; NEVER; owned */
  int *winner; /* [2 · n_leaves] winner of node n's children, 2n and 2n + 1; from n_leaves on, the ranks themselves;
                  owned */
  int n_ranks, n_leaves;
} WakeQueue;

void wake_queue_init(WakeQueue *queue, int n_ranks);
void wake_queue_clear(WakeQueue *queue);
/* All ranks wake at 0. */
void wake_queue_start(WakeQueue *queue);
void wake_queue_set(WakeQueue *queue, int rank, gint64 time_ns);
static inline int wake_queue_first(const WakeQueue *queue) {
  return queue->winner[1];
}
