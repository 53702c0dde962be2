#include "wake_queue.h"

void wake_queue_init(WakeQueue *queue, int n_ranks) {
  *queue = (WakeQueue){.n_ranks = n_ranks, .n_leaves = 1};
  while (queue->n_leaves < n_ranks)
    queue->n_leaves *= 2;
  queue->at = g_new(gint64, queue->n_leaves);
  queue->winner = g_new(int, 2 * queue->n_leaves);
}

void wake_queue_clear(WakeQueue *queue) {
  g_free(queue->at);
  g_free(queue->winner);
  *queue = (WakeQueue){0};
}

void wake_queue_start(WakeQueue *queue) {
  for (int leaf = 0; leaf < queue->n_leaves; leaf++) {
    queue->at[leaf] = leaf < queue->n_ranks ? 0 : NEVER;
    queue->winner[queue->n_leaves + leaf] = leaf;
  }
  for (int node = queue->n_leaves - 1; node >= 1; node--)
    queue->winner[node] = queue->winner[2 * node];
}

void wake_queue_set(WakeQueue *queue, int rank, gint64 time_ns) {
  queue->at[rank] = time_ns;
  for (int node = (queue->n_leaves + rank) / 2; node >= 1; node /= 2) {
    int a = queue->winner[2 * node], b = queue->winner[2 * node + 1], before = queue->winner[node];
    queue->winner[node] = queue->at[b] < queue->at[a] ? b : a;
    if (queue->winner[node] == before && before != rank) /* then nothing changes above it either */
      return;
  }
}
