/* For each of three watched streams, the latest op on it that is sure to have ended when a given op starts:
 *
 *     ended(op) = max over d of (d, if it is on the stream, else ended(d)),
 *                 d in { op before it on its own stream, its `after`, last host op } */
#pragma once
#include "program.h"

enum { N_WATCHED = 3 };

typedef struct {
  gint32 on[N_WATCHED]; /* −1 none */
} Ended;

/* The latest op on watched stream `which` that has ended once `op` has; −1: none. `ended` must be set up to `op`. */
static inline gint32 ended_at(const Op *ops, const Ended *ended, const Stream watched[N_WATCHED], gint32 op,
                              int which) {
  return op < 0 || ops[op].stream == watched[which] ? op : ended[op].on[which];
}

/* Sets ended[i]; earlier entries must be set. `latest`, [N_STREAMS], holds the latest op before i on each stream (−1:
 * none) and is updated with i. */
static inline void ended_set(const Op *ops, Ended *ended, const Stream watched[N_WATCHED], gint32 *latest, gint32 i) {
  const Op *op = &ops[i];
  for (int w = 0; w < N_WATCHED; w++) {
    gint32 last = MAX(ended_at(ops, ended, watched, latest[op->stream], w),
                      ended_at(ops, ended, watched, latest[STREAM_HOST], w));
    for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++)
      last = MAX(last, ended_at(ops, ended, watched, op->after[k], w));
    ended[i].on[w] = last;
  }
  latest[op->stream] = i;
}

/* The same for a rank's whole list. ended[] is only filled as far as needed, when an op's own `after` does not answer
 * a query. */
typedef struct {
  const Op *ops;
  const Stream *watched; /* [N_WATCHED] */
  Ended *ended;          /* [ops]; the first n_ended are set */
  gint32 n_ended;
  gint32 latest[N_STREAMS]; /* latest op before n_ended on each stream; −1 none */
} EndedList;

static inline void ended_list_begin(EndedList *list, const Op *ops) {
  list->ops = ops;
  list->n_ended = 0;
  for (int stream = 0; stream < N_STREAMS; stream++)
    list->latest[stream] = -1;
}

/* Whether op `source`, earlier than op i and on a watched stream, is sure to have ended when i starts. */
static inline gboolean ended_list_has(EndedList *list, gint32 i, gint32 source) {
  const Op *ops = list->ops;
  if (ops[i].stream == ops[source].stream)
    return TRUE;
  for (int k = 0; k < OP_MAX_AFTER && ops[i].after[k] >= 0; k++)
    if (ops[i].after[k] >= source && ops[ops[i].after[k]].stream == ops[source].stream)
      return TRUE;
  for (; list->n_ended <= i; list->n_ended++)
    ended_set(ops, list->ended, list->watched, list->latest, list->n_ended);
  for (int w = 0; w < N_WATCHED; w++)
    if (list->watched[w] == ops[source].stream)
      return list->ended[i].on[w] >= source;
  g_assert_not_reached();
}
