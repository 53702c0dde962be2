#include "clocks.h"

int clocks_init(Clocks *clocks, const Program *program) {
  int longest = 0;
  for (int rank = 0; rank < program->n_ranks; rank++)
    longest = MAX(longest, program->ranks[rank].n_ops);
  *clocks = (Clocks){.clocks = g_new(Clock, longest)};
  return longest;
}

void clocks_clear(Clocks *clocks) {
  g_free(clocks->clocks);
}

void clocks_begin(Clocks *clocks, const OpList *list) {
  clocks->ops = list->ops;
  clocks->n_set = 0;
  for (int stream = 0; stream < N_STREAMS; stream++)
    clocks->latest[stream] = -1;
}

static void join(Clock *clock, const Clocks *clocks, gint32 op) {
  if (op < 0)
    return;
  const Clock *other = &clocks->clocks[op];
  for (int stream = 0; stream < N_CLOCKS; stream++)
    clock->ended[stream] = MAX(clock->ended[stream], other->ended[stream]);
  const int stream = clocks->ops[op].stream;
  clock->ended[stream] = MAX(clock->ended[stream], op);
}

static void set(Clocks *clocks, gint32 i) {
  const Op *op = &clocks->ops[i];
  const gint32 host = clocks->latest[STREAM_HOST];
  Clock *clock = &clocks->clocks[i];
  for (int stream = 0; stream < N_CLOCKS; stream++)
    clock->ended[stream] = -1;
  join(clock, clocks, clocks->latest[op->stream]);
  if (clock->ended[STREAM_HOST] < host)
    join(clock, clocks, host);
  for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++)
    join(clock, clocks, op->after[k]);
  clocks->latest[op->stream] = i;
}

gboolean clocks_tell(Clocks *clocks, gint32 i, gint32 earlier) {
  for (; clocks->n_set <= i; clocks->n_set++)
    set(clocks, clocks->n_set);
  return clocks->clocks[i].ended[clocks->ops[earlier].stream] >= earlier;
}
