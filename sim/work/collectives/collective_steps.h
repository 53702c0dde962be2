/* Collectives step by step, for teaching: who sends which part of the buffer to whom in each step.
 *
 *     ring   The buffer is cut into n chunks, the GPUs form a circle, and in every step each sends one chunk to the
 *            next. Reduce-scatter: GPU i sends chunk i − 1 − s in step s and adds what it receives to its own; after
 *            n − 1 steps it has the whole sum of chunk i. All-gather: it sends chunk i − s, and after n − 1 more
 *            steps all have everything.
 *     naive  GPU 0 adds what the others send it, one after another, and sends each the result: 2(n − 1) steps, in
 *            which its link carries all of the buffer.
 *     tree   Two binary trees over the GPUs, each for one half of the buffer: sums go up, the result comes down. An
 *            inner node of one is a leaf of the other (n even), so that both halves of every link are used. In each
 *            step and tree a GPU receives at most one message and sends at most one. (Patarasuk and Yuan, JPDC 69(2),
 *            2009; Sanders et al., Parallel Computing 35(12), 2009.) */
#pragma once
#include "collective.h"

enum { MAX_STEPS_GPUS = 16 };

typedef struct {
  int step; /* from 1 */
  const char *phase;
  int from, to, chunk;
  gboolean adds; /* the receiver adds it to its own value; otherwise it replaces that */
} ChunkSend;

typedef struct {
  Collective collective;
  int n_gpus, n_chunks, n_steps;
  GArray *sends; /* of ChunkSend, by step; owned */
} CollectiveSteps;

/* 2 to MAX_STEPS_GPUS GPUs. Ring: all_reduce, all_gather or reduce_scatter. */
CollectiveSteps collective_steps_ring(Collective collective, int n_gpus);
/* An all_reduce. */
CollectiveSteps collective_steps_naive(int n_gpus);
CollectiveSteps collective_steps_tree(int n_gpus);
void collective_steps_clear(CollectiveSteps *steps);

/* Whose values are in a chunk: bit g for GPU g; 0: nothing yet. */
typedef struct {
  guint of[MAX_STEPS_GPUS][MAX_STEPS_GPUS]; /* [GPU][chunk] */
} ChunkState;
void collective_steps_start(const CollectiveSteps *steps, ChunkState *state);
/* Applies all sends of `step`, which happen at once. A value that would be added twice is a broken invariant. */
void collective_steps_advance(const CollectiveSteps *steps, int step, ChunkState *state);
