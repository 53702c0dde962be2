/* Sends and receives of 1f1b and interleaved between rounds, if a rank waits for its transfers, against Megatron-LM's
 * runtime (sim/program/passes/exchange.c). */
#include "error.h"
#include "run_suite.h"

#include <check.h>

#include "bare_times.h"
#include "engine.h"
#include "lowering.h"
#include "metrics.h"
#include "schedules.h"
#include "verify.h"

static Order *order_of(const char *schedule, int p, int v, int m, int group) {
  g_autoptr(GError) error = NULL;
  Order *order = order_new(schedule_find(schedule, NULL), (OrderShape){p, v, m, group}, &error);
  if (order == NULL)
    ck_abort_msg("%s p=%d v=%d m=%d group=%d: %s", schedule, p, v, m, group, error->message);
  return order;
}

/* Compute ops and exchanges, nothing else. */
static Program *exchanging(const Order *order) {
  const Placement *placement = order->placement;
  const Lowering lowering = {.order = order, .n_steps = 1};
  Program *program = program_new(placement->n_ranks, placement->n_stages, order->n_micro_batches);
  pass_place(program, &lowering);
  exchange_send_recv(program, order, NULL);
  return program;
}

/* --- what is exchanged when --- */

/* "0F0 0SEND_F0 (0SEND_F1 0RECV_B0) …": a rank's ops, those of a batch in brackets. Owned by the caller. */
static char *story_of(const Program *program, int rank) {
  const OpList *list = &program->ranks[rank];
  g_autoptr(GString) story = g_string_new(NULL);
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    const gboolean begins = op->batch >= 0 && (i == 0 || list->ops[i - 1].batch != op->batch);
    const gboolean ends = op->batch >= 0 && (i + 1 == list->n_ops || list->ops[i + 1].batch != op->batch);
    g_string_append(story, i > 0 ? " " : "");
    g_string_append(story, begins ? "(" : "");
    action_print(&(Action){.stage = op->stage, .micro_batch = op->micro_batch, .kind = op->action}, story);
    g_string_append(story, ends ? ")" : "");
  }
  return g_string_free(g_steal_pointer(&story), FALSE);
}

static void assert_story(const char *schedule, int v, int rank, const char *expected) {
  g_autoptr(Order) order = order_of(schedule, 3, v, 3, 0);
  g_autoptr(Program) program = exchanging(order);
  g_autofree char *story = story_of(program, rank);
  ck_assert_str_eq(story, expected);
}

TEST(one_neighbour_s_send_and_receive_go_together) {
  /* p = 3, m = 3. Rank 0 begins with 2 forwards, rank 1 with one. Between two forwards (or two backwards) stand the
   * send to one neighbour and the receive from the other, one after the other; between a forward and a backward both
   * are with one neighbour. Rank 2 has no next one, and nothing to exchange between a forward and its backward. */
  assert_story("1f1b", 1, 0, "0F0 0SEND_F0 0F1 0SEND_F1 0F2 (0SEND_F2 0RECV_B0) 0B0 0RECV_B1 0B1 0RECV_B2 0B2");
  assert_story("1f1b", 1, 1,
               "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 (1SEND_F1 1RECV_B0) 1B0 (1SEND_B0 1RECV_F2) 1F2 (1SEND_F2 1RECV_B1) "
               "1B1 1SEND_B1 1RECV_B2 1B2 1SEND_B2");
  assert_story("1f1b", 1, 2, "2RECV_F0 2F0 2B0 (2SEND_B0 2RECV_F1) 2F1 2B1 (2SEND_B1 2RECV_F2) 2F2 2B2 2SEND_B2");
}

TEST(all_neighbours_are_met_at_once_between_rounds) {
  /* p = 3, v = 2, m = 3: slots k = 0 … 5 are chunk 0, then chunk 1, of micro-batches 0 1 2. Rank 1 begins with
   * 2(3 − 1 − 1) + (2 − 1)·3 = 5 forwards; the sixth and the first backward are one round. Stages 1 and 4 are its own.
   */
  assert_story("interleaved", 2, 1,
               "1RECV_F0 1F0 (1SEND_F0 1RECV_F1) 1F1 (1SEND_F1 1RECV_F2) 1F2 (1SEND_F2 4RECV_F0) 4F0 "
               "(4SEND_F0 4RECV_F1) 4F1 (4SEND_F1 4RECV_F2 4RECV_B0) 4F2 4B0 (4SEND_F2 4SEND_B0 4RECV_B1) 4B1 "
               "(4SEND_B1 4RECV_B2) 4B2 (4SEND_B2 1RECV_B0) 1B0 (1SEND_B0 1RECV_B1) 1B1 (1SEND_B1 1RECV_B2) 1B2 "
               "1SEND_B2");
  /* Rank 2: 3 forwards, then 3 rounds of both. Its stages are 2 and 5; stage 5 sends nothing on, and what its backwards
   * need it has itself. */
  assert_story(
      "interleaved", 2, 2,
      "2RECV_F0 2F0 (2SEND_F0 2RECV_F1) 2F1 (2SEND_F1 2RECV_F2) 2F2 (2SEND_F2 5RECV_F0) 5F0 5B0 "
      "(5SEND_B0 5RECV_F1) 5F1 5B1 (5SEND_B1 5RECV_F2) 5F2 5B2 (5SEND_B2 2RECV_B0) 2B0 (2SEND_B0 2RECV_B1) 2B1 "
      "(2SEND_B1 2RECV_B2) 2B2 2SEND_B2");
}

TEST(what_comes_round_before_it_is_needed_does_not_hold_up_its_sender) {
  /* p = 2, v = 2, one group of 3. Rank 1 sends stage 1's product of micro-batch 0 to stage 2 after its first slot; rank
   * 0 is p = 2 slots into its list then, and needs it in its fourth: one slot later. So 2RECV_F0 stands ahead of the
   * third (0F2), and so on; the gradients that rank 0 sends to rank 1 likewise. */
  g_autoptr(Order) order = order_of("interleaved", 2, 2, 3, 3);
  g_autoptr(Program) program = exchanging(order);
  const OpList *list = &program->ranks[0];
  for (int micro_batch = 0; micro_batch < 3; micro_batch++) {
    int receive = 0, use = 0, n_between = 0;
    while (list->ops[receive].action != ACTION_RECV_F || list->ops[receive].micro_batch != micro_batch)
      receive++;
    while (list->ops[use].action != ACTION_F || list->ops[use].stage != 2 || list->ops[use].micro_batch != micro_batch)
      use++;
    for (int i = receive; i < use; i++)
      n_between += list->ops[i].action == ACTION_F;
    ck_assert_int_eq(list->ops[receive].stage, 2);
    ck_assert_int_eq(n_between, 1);
  }
}

TEST(no_ranks_wait_for_each_other_in_a_circle) {
  for (int p = 2; p <= 8; p++)
    for (int v = 1; v <= 4; v++)
      for (int m = 1; m <= 3 * p + 1; m++)
        for (int group = 0; group <= (v > 1 ? m : 0); group += group == 0 ? p : 1) {
          if (v > 1 && group > 0 &&
              schedule_refusal(schedule_find("interleaved", NULL), (OrderShape){p, v, m, group}) != NULL)
            continue;
          g_autoptr(Order) order = order_of(v > 1 ? "interleaved" : "1f1b", p, v, m, group);
          g_autoptr(Program) program = exchanging(order);
          g_autoptr(GError) error = NULL;
          if (!program_verify(program, &error))
            ck_abort_msg("p=%d v=%d m=%d group=%d: %s", p, v, m, group, error->message);
        }
}

/* --- how long it takes --- */

typedef struct {
  gint64 span_ns, end_ns;
} Run;

/* Of one chunk of one rank. */
static Run run_of(Program *program, gint64 f_ns, gint64 b_ns, gint64 send_ns) {
  g_autofree gint64 *f = g_new(gint64, program->n_stages), *i = g_new(gint64, program->n_stages),
                    *w = g_new0(gint64, program->n_stages);
  for (int stage = 0; stage < program->n_stages; stage++) {
    f[stage] = f_ns;
    i[stage] = b_ns;
  }
  Timing *timing = timing_of_bare_times(program, &(BareTimes){f, i, w, .send_ns = send_ns});
  const Simulation simulation = {.program = program, .timing = timing, .folded = TRUE};
  EngineStats stats;
  Trace *trace = engine_run(&simulation, &stats);
  Metrics *metrics = metrics_new(trace);
  const Run run = {metrics->span_ns, trace_end(trace)};
  metrics_free(metrics);
  trace_free(trace);
  timing_free(timing);
  return run;
}

TEST(a_sender_waits_for_its_neighbour_s_round) {
  /* 1f1b on two ranks, m = 2, F = 2, B = 4, a send 1:
   *
   *     rank 0   F0 0–2, send 2–3, F1 3–5, { send F1, receive B0 } 5–10, B0 10–14, receive B1 14–17, B1 17–21
   *     rank 1   F0 3–5, B0 5–9, { send B0, receive F1 } 9–10, F1 10–12, B1 12–16, send 16–17
   *
   * Rank 0 has F1's product at 5, but rank 1 takes it when it has B0 behind it. */
  g_autoptr(Order) order = order_of("1f1b", 2, 1, 2, 0);
  g_autoptr(Program) program = exchanging(order);
  ck_assert_int_eq(run_of(program, 2, 4, 1).end_ns, 21);
}

TEST(both_directions_of_a_round_cost_one_exchange) {
  /* Interleaved with v = 2, p = m = 4, F = 2, B = 4. Without cost the step is m·v·(F + B) and the bubble of
   * (p − 1)(F + B): 66. All ranks run in step, rank r one round behind rank r − 1, and every round is followed by an
   * exchange that takes as long as one send, whatever it moves. The longest way: micro-batch 3 passes 8 stages down and
   * 8 up, 7 exchanges each, and before it rank 0 runs 3 rounds of other micro-batches, each with its exchange: 17. */
  g_autoptr(Order) order = order_of("interleaved", 4, 2, 4, 0);
  g_autoptr(Program) program = exchanging(order);
  for (gint64 send_ns = 0; send_ns <= 3; send_ns++)
    ck_assert_int_eq(run_of(program, 2, 4, send_ns).end_ns, 66 + 17 * send_ns);
}

TEST(free_exchanges_leave_the_bubble_as_it_is) {
  /* (p − 1)(F + B)/v, where (F + B)/v is what a chunk takes (arXiv 2104.04473 §2.2); with m < p also p − m slots at
   * each of the v − 1 changes of chunk, as without exchanges (test_oracles). */
  enum { F_NS = 2, B_NS = 4 };
  for (int p = 2; p <= 8; p++)
    for (int v = 1; v <= 4; v++)
      for (int m = 1; m <= 3 * p; m++) {
        g_autoptr(Order) order = order_of(v > 1 ? "interleaved" : "1f1b", p, v, m, 0);
        g_autoptr(Program) program = exchanging(order);
        const gint64 work_ns = (gint64)m * v * (F_NS + B_NS);
        const gint64 bubble_ns = (gint64)(p - 1 + (v - 1) * MAX(0, p - m)) * (F_NS + B_NS);
        const gint64 span_ns = run_of(program, F_NS, B_NS, 0).span_ns;
        if (span_ns != work_ns + bubble_ns)
          ck_abort_msg("p=%d v=%d m=%d: a span of %d, expected %d of work and %d of bubble", p, v, m, (int)span_ns,
                       (int)work_ns, (int)bubble_ns);
      }
}

int main(void) {
  return run_tests();
}
