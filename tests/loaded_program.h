/* Programs by hand whose transfers take a part of their ranks' links. Times in nanoseconds. */
#pragma once
#include "engine_fixture.h"

enum { MAX_LOADS = 8, SCALE_UP = 0, NIC = 1 };

typedef struct {
  Hand hand;
  WayLoad loads[MAX_LOADS]; /* [transfers] */
} Loaded;

/* What the op's transfer takes of one way: `share` thousandths after `latency_ns`. */
static inline void load(Loaded *loaded, int rank, int op, int way, int share, gint64 latency_ns) {
  int transfer = loaded->hand.program->ranks[rank].ops[op].work;
  g_assert(transfer < MAX_LOADS);
  loaded->loads[transfer].share[way] = (guint16)share;
  loaded->loads[transfer].latency_ns = latency_ns;
}

static inline Trace *run(Loaded *loaded, const Simulation *with) {
  Simulation simulation = *with;
  loaded->hand.timing.loads = loaded->loads;
  simulation.program = loaded->hand.program;
  simulation.timing = &loaded->hand.timing;
  simulation.contended = TRUE;
  Trace *trace = engine_run(&simulation, NULL);
  loaded->hand.timing.loads = NULL;
  return trace;
}

static const Simulation folded = {.folded = TRUE, .eager_bytes = -1};

/* Rank 0 sends to rank 1 (times: latency + wire) and to rank 2, both from the start. */
static inline void hand_two_sends(Loaded *loaded, gint64 first_ns, gint64 second_ns) {
  *loaded = (Loaded){.loads = {{0}}};
  hand_init(&loaded->hand, 3);
  hand_send(&loaded->hand, 0, 1, 0, 100, hand_kernel(first_ns));
  int second = hand_send(&loaded->hand, 0, 2, 1, 200, hand_kernel(second_ns));
  hand_op(&loaded->hand, 0, second)->stream = STREAM_SEND_B_BACK;
  hand_receive(&loaded->hand, 1, 0, 0, 100, hand_kernel(first_ns));
  hand_receive(&loaded->hand, 2, 0, 1, 200, hand_kernel(second_ns));
  hand_finish(&loaded->hand);
}
