/* Orders for tests: PyTorch's own text, files read from bytes, and random orders that can run. */
#pragma once
#include "order.h"
#include "order_read.h"
#include "text_file.h"

/* ScheduleDualPipeV of 2 ranks and 4 micro-batches, derived from its steps (torch.distributed.pipelining, 2.9), and
 * what _add_unshard_reshard (window of 3), _add_reduce_grad and _add_send_recv make of it. Line ends are those of
 * Python's csv writer. */
G_GNUC_UNUSED static const char dualpipe_v[] =
    "0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)OVERLAP_F_B,3B2,(3F3;0B1)OVERLAP_F_B,3B3,"
    "0I2,0W2,0I3,0W3\r\n"
    "1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,(1F3;2B1)OVERLAP_F_B,(2F3;1B1)OVERLAP_F_B,2B2,1B2,2I3,"
    "1I3,2W3,1W3\r\n";
G_GNUC_UNUSED static const char dualpipe_v_comms[] =
    "0UNSHARD,3UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,3RECV_F0,0F2,0SEND_F2,3F0,3RECV_F1,3I0,3SEND_B0,3W0,3F1,"
    "3RECV_F2,0RECV_B0,(0F3;3B1)OVERLAP_F_B,0SEND_F3,3SEND_B1,(3F2;0B0)OVERLAP_F_B,3RECV_F3,0RECV_B1,3B2,"
    "3SEND_B2,(3F3;0B1)OVERLAP_F_B,0RECV_B2,3B3,3SEND_B3,3REDUCE_GRAD,0RECV_B3,3RESHARD,0I2,0W2,0I3,0W3,"
    "0REDUCE_GRAD,0RESHARD\r\n"
    "1UNSHARD,2UNSHARD,1RECV_F0,1F0,1RECV_F1,2F0,2SEND_F0,1RECV_F2,1F1,2F1,2SEND_F1,2RECV_B0,1F2,2B0,"
    "(2F2;1B0)OVERLAP_F_B,2SEND_F2,1SEND_B0,1RECV_F3,2RECV_B1,(1F3;2B1)OVERLAP_F_B,(2F3;1B1)OVERLAP_F_B,"
    "2SEND_F3,1SEND_B1,2RECV_B2,2B2,1B2,1SEND_B2,2RECV_B3,2I3,1I3,1SEND_B3,2W3,2REDUCE_GRAD,2RESHARD,1W3,"
    "1REDUCE_GRAD,1RESHARD\r\n";

static inline Order *read_bytes(const char *bytes, gssize length, GError **error) {
  char *file = text_file_new(".csv", bytes, length);
  Order *order = order_read_csv(file, error);
  text_file_drop(file);
  return order;
}

static inline Order *read_legal(const char *csv) {
  g_autoptr(GError) error = NULL;
  Order *order = read_bytes(csv, -1, &error);
  ck_assert_msg(order != NULL, "%s\n%s", error ? error->message : "", csv);
  return order;
}

/* --- at random --- */

typedef struct {
  Order *order;
  guint8 *done; /* [stage][micro-batch] bits 1 << ActionKind; owned */
} Draw;

static inline guint8 *draw_done(const Draw *draw, int stage, int micro_batch) {
  return &draw->done[stage * draw->order->n_micro_batches + micro_batch];
}

/* Whether it can run now. Backwards are split where stage + micro-batch is odd, so that both kinds occur. */
static inline gboolean draw_can_run(const Draw *draw, ActionKind kind, int stage, int micro_batch) {
  const Placement *placement = draw->order->placement;
  const guint gradients = 1u << ACTION_I | 1u << ACTION_B;
  guint done = *draw_done(draw, stage, micro_batch);
  int pipe = micro_batch_pipe(micro_batch, draw->order->n_micro_batches, placement->n_pipes);
  if (done & 1u << kind || pipe != stage / (placement->n_stages / placement->n_pipes))
    return FALSE;
  if (kind == ACTION_W)
    return (done & 1u << ACTION_I) != 0;
  gboolean in_halves = (stage + micro_batch) % 2 == 1;
  if (kind != ACTION_F && ((kind == ACTION_I) != in_halves || !(done & 1u << ACTION_F)))
    return FALSE;
  int source = stage_next(stage, kind != ACTION_F, placement->n_stages, placement->n_pipes);
  guint needed = kind == ACTION_F ? 1u << ACTION_F : gradients;
  return source < 0 || (*draw_done(draw, source, micro_batch) & needed) != 0;
}

/* Everything a rank can run now, as Actions. */
static inline void draw_choices(const Draw *draw, int rank, GArray *choices) {
  g_array_set_size(choices, 0);
  for (int stage = 0; stage < draw->order->placement->n_stages; stage++)
    for (int m = 0; draw->order->placement->stage_rank[stage] == rank && m < draw->order->n_micro_batches; m++)
      for (int kind = ACTION_F; kind <= ACTION_B; kind++)
        if (draw_can_run(draw, kind, stage, m)) {
          Action action = {.stage = stage, .micro_batch = m, .kind = (guint8)kind};
          g_array_append_val(choices, action);
        }
}

/* Runs one action of the rank, or an F and a B that can both start, as a pair. FALSE if nothing can run. */
static inline gboolean draw_step(Draw *draw, GRand *rand, int rank) {
  g_autoptr(GArray) choices = g_array_new(FALSE, FALSE, sizeof(Action));
  draw_choices(draw, rank, choices);
  if (choices->len == 0)
    return FALSE;
  Action first = g_array_index(choices, Action, g_rand_int_range(rand, 0, (int)choices->len));
  Action second = g_array_index(choices, Action, g_rand_int_range(rand, 0, (int)choices->len));
  first.overlaps_next = first.kind == ACTION_F && second.kind == ACTION_B;
  Action taken[] = {first, second};
  for (int i = 0; i <= first.overlaps_next; i++) {
    g_array_append_val(draw->order->actions[rank], taken[i]);
    *draw_done(draw, taken[i].stage, taken[i].micro_batch) |= (guint8)(1u << taken[i].kind);
  }
  return TRUE;
}

/* A random order that can run: ranks take turns at random, each running any action that it can. */
static inline Order *random_order(GRand *rand) {
  PlacementShape shape = g_rand_int_range(rand, 0, 3);
  int n_ranks = g_rand_int_range(rand, shape == PLACEMENT_BIDIRECTIONAL ? 2 : 1, 6);
  int n_chunks = shape == PLACEMENT_BIDIRECTIONAL ? 2 : g_rand_int_range(rand, 1, 4);
  int n_micro_batches = g_rand_int_range(rand, 1, 6) * (shape == PLACEMENT_BIDIRECTIONAL ? 2 : 1);
  Order *order = order_new_empty(placement_new(shape, n_ranks, n_chunks), n_micro_batches);
  Draw draw = {order, g_new0(guint8, order->placement->n_stages * n_micro_batches)};
  for (int idle = 0; idle < 50 * n_ranks;) /* far more idle turns than chance would give */
    idle = draw_step(&draw, rand, g_rand_int_range(rand, 0, n_ranks)) ? 0 : idle + 1;
  g_free(draw.done);
  return order;
}
