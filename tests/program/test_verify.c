/* The verifier: a good program passes, and each way of breaking it is found and named (sums of gradients:
 * test_gradient_order.c). */
#include "error.h"
#include "passes.h"
#include "program_fixture.h"
#include "run_suite.h"
#include "schedules.h"
#include "verify.h"

/* Programs are given as text: program_from_text() verifies what it has read and prefixes the verdict with the name. */
static void assert_refused(const Edit edits[MAX_EDITS], const char *const *says) {
  g_autofree char *text = edit_text(two_ranks, edits);
  g_autoptr(GError) error = NULL;
  g_autoptr(Program) program = program_from_text(text, "test", &error);
  ck_assert_msg(program == NULL, "accepted:\n%s", text);
  ck_assert_msg(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE), "%s", error->message);
  for (; *says; says++)
    ck_assert_msg(strstr(error->message, *says) != NULL, "expected \"%s\" in: %s", *says, error->message);
}

#define SAYS(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(a_good_program_passes) {
  g_autoptr(Program) program = read_program(two_ranks);
  g_autoptr(GError) error = NULL;
  ck_assert(program_verify(program, &error));
  ck_assert_ptr_null(error);
}

TEST(matches_are_found_by_peer_and_tag_in_order) {
  g_autoptr(Program) program = read_program(two_ranks);
  gint32 **match;
  ck_assert(program_match(program, &match, NULL));
  static const gint32 rank_0[] = {-1, 0, -1, 1, 4, -1, 7, -1, -1}, rank_1[] = {1, 3, -1, -1, 4, -1, -1, 6, -1};
  ck_assert_mem_eq(match[0], rank_0, sizeof rank_0);
  ck_assert_mem_eq(match[1], rank_1, sizeof rank_1);
  program_match_free(program, match);

  /* with one tag for all, order alone decides, and decides the same */
  g_autofree char *text = edit_text(two_ranks, EDITS({"0SEND_F1 peer=1 tag=2", "0SEND_F1 peer=1 tag=0"},
                                                     {"1RECV_F1 peer=0 tag=2", "1RECV_F1 peer=0 tag=0"}));
  g_autoptr(Program) same_tag = read_program(text);
  ck_assert(program_match(same_tag, &match, NULL));
  ck_assert_mem_eq(match[0], rank_0, sizeof rank_0);
  program_match_free(same_tag, match);
}

TEST(swapped_receives_deadlock_and_the_message_names_who_waits_for_whom) {
  assert_refused(
      EDITS({"0 recv_f 1RECV_F0 peer=0 tag=0", "0 recv_f 1RECV_F1 peer=0 tag=2"},
            {"1 recv_f 1RECV_F1 peer=0 tag=2 transfer=0\n  2", "1 recv_f 1RECV_F0 peer=0 tag=0 transfer=0\n  2"},
            {"1F0 work=2 after=0", "1F0 work=2 after=1"}, {"1F1 work=2 after=1", "1F1 work=2 after=0"}),
      SAYS("the program gets stuck", "rank 0 send_f: 0SEND_F0 waits for 1RECV_F0 of rank 1, which is behind 1RECV_F1",
           "rank 1 recv_f: 1RECV_F1 waits for 0SEND_F1 of rank 0, which is behind 0SEND_F0",
           "rank 1 compute: 1F0 waits for 1RECV_F0 on its recv_f stream",
           "rank 0 recv_b: 0RECV_B0 waits for 1SEND_B0 of rank 1, which waits itself",
           "rank 0 dp: NORM waits for 0B1 on its compute stream"));
}

TEST(an_unmatched_send_or_receive_is_named) {
  assert_refused(EDITS({"  8 dp NORM transfer=2 after=7\n", "  8 dp NORM transfer=2 after=7\n"
                                                            "  9 send_f 0SEND_F0 peer=1 tag=9 transfer=0 after=0\n"}),
                 SAYS("rank 0, op 9: 0SEND_F0 with tag 9 has no receive on rank 1"));
  assert_refused(EDITS({"1RECV_F1 peer=0 tag=2", "1RECV_F1 peer=0 tag=3"}),
                 SAYS("rank 0, op 3: 0SEND_F1 with tag 2 has no receive on rank 1"));
}

TEST(a_send_and_its_receive_must_have_equal_bytes) {
  assert_refused(EDITS({"transfer 2 all_reduce", "transfer 2 send 0->1 bytes=999\ntransfer 3 all_reduce"},
                       {"NORM transfer=2 after=7", "NORM transfer=3 after=7"},
                       {"NORM transfer=2 after=6", "NORM transfer=3 after=6"},
                       {"1RECV_F1 peer=0 tag=2 transfer=0", "1RECV_F1 peer=0 tag=2 transfer=2"}),
                 SAYS("rank 0, op 3 (0SEND_F1): sends 1000 bytes", "rank 1 (op 1) takes 999"));
}

TEST(members_of_a_group_must_have_the_same_collectives) {
  /* one more on rank 1 */
  assert_refused(
      EDITS({"  8 dp NORM transfer=2 after=6\n", "  8 dp NORM transfer=2 after=6\n  9 dp NORM transfer=2\n"}),
      SAYS("group world: rank 0 has 1 collectives of the 3"));
  /* as many, but another one */
  assert_refused(EDITS({"transfer 2 all_reduce", "transfer 2 all_gather group=0 bytes=4\ntransfer 3 all_reduce"},
                       {"NORM transfer=2 after=7", "NORM transfer=3 after=7"}),
                 SAYS("group world: collective 0 differs", "NORM (op 8 of rank 0)", "NORM (op 8 of rank 1)"));
  /* in another order */
  assert_refused(
      EDITS({"transfer 2 all_reduce", "transfer 2 all_gather group=0 bytes=4\ntransfer 3 all_reduce"},
            {"  8 dp NORM transfer=2 after=7\n", "  8 dp NORM transfer=2 after=7\n  9 dp TIED_GRAD transfer=3\n"},
            {"  8 dp NORM transfer=2 after=6\n", "  8 dp TIED_GRAD transfer=3 after=6\n  9 dp NORM transfer=2\n"}),
      SAYS("group world: collective 0 differs", "NORM (op 8 of rank 0), TIED_GRAD (op 8 of rank 1)"));
}

TEST(a_collective_holds_all_its_members) {
  /* a collective before the backward on rank 1 only: rank 0 reaches its own after 0B1, which needs 1B1, which stands
   * behind the collective by the event it waits for */
  assert_refused(EDITS({"  8 dp NORM transfer=2 after=7\n", "  8 dp WAIT kind=collective transfer=2 after=7\n"},
                       {"  6 compute 1B1 work=3\n", "  6 dp WAIT kind=collective transfer=2\n"},
                       {"  7 send_b 1SEND_B1 peer=0 tag=3 transfer=1 after=6\n", "  7 compute 1B1 work=3 after=6\n"},
                       {"  8 dp NORM transfer=2 after=6\n", "  8 send_b 1SEND_B1 peer=0 tag=3 transfer=1 after=7\n"}),
                 SAYS("gets stuck", "rank 1 dp: WAIT waits for WAIT of rank 0, which waits itself",
                      "rank 1 compute: 1B1 waits for WAIT on its dp stream"));
}

TEST(only_members_use_a_group) {
  static const char three[] = "program ranks=3 stages=3 micro_batches=1 steps=1\n"
                              "group 0 embedding axes=none pp=0,2 charge=pp\n"
                              "work 0 F\nwork 1 B\n"
                              "transfer 0 all_reduce group=0 bytes=1\n"
                              "rank 0\n 0 dp TIED_GRAD transfer=0\n"
                              "rank 1\n 0 dp TIED_GRAD transfer=0\n"
                              "rank 2\n 0 dp TIED_GRAD transfer=0\n";
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(program_from_text(three, "test", &error));
  ck_assert_msg(strstr(error->message, "rank 1, op 0 (TIED_GRAD): rank 1 is no member of group 0") != NULL, "%s",
                error->message);
}

TEST(a_forward_comes_after_its_receive) {
  assert_refused(EDITS({"1F0 work=2 after=0", "1F0 work=2"}),
                 SAYS("rank 1, op 2 (1F0): it does not wait for its receive 1RECV_F0"));
  assert_refused(EDITS({"1F1 work=2 after=1", "1F1 work=2 after=0"}),
                 SAYS("op 5 (1F1): it does not wait for its receive 1RECV_F1"));
  /* receive listed behind the forward */
  assert_refused(EDITS({"  1 recv_f 1RECV_F1 peer=0 tag=2 transfer=0\n", ""}, {"  2 compute 1F0", "  1 compute 1F0"},
                       {"  3 compute 1B0", "  2 compute 1B0"},
                       {"  4 send_b 1SEND_B0 peer=0 tag=1 transfer=1 after=3",
                        "  3 send_b 1SEND_B0 peer=0 tag=1 transfer=1 after=2"},
                       {"  5 compute 1F1 work=2 after=1\n",
                        "  4 compute 1F1 work=2\n  5 recv_f 1RECV_F1 peer=0 tag=2 transfer=0\n"}),
                 SAYS("rank 1, op 4 (1F1): it runs before its receive 1RECV_F1"));
}

TEST(waiting_by_way_of_another_op_counts) {
  /* 1F1 needs no event of its own when 1F0, before it on the stream, waited for both receives */
  g_autofree char *text =
      edit_text(two_ranks, EDITS({"1F0 work=2 after=0", "1F0 work=2 after=0,1"}, {"1F1 work=2 after=1", "1F1 work=2"}));
  g_autoptr(Program) program = read_program(text);
  ck_assert_ptr_nonnull(program);
}

TEST(a_backward_comes_after_its_forward_and_its_gradient) {
  assert_refused(EDITS({"0B0 work=1 after=4", "0B0 work=1"}),
                 SAYS("op 5 (0B0): it does not wait for its receive 0RECV_B0"));
  assert_refused(EDITS({"2 compute 1F0 work=2 after=0", "2 compute 1B0 work=3 after=0"},
                       {"3 compute 1B0 work=3\n", "3 compute 1F0 work=2\n"}),
                 SAYS("rank 1, op 2 (1B0): it runs before its forward 1F0"));
}

TEST(a_send_comes_after_what_it_sends) {
  assert_refused(EDITS({"0SEND_F1 peer=1 tag=2 transfer=0 after=2", "0SEND_F1 peer=1 tag=2 transfer=0 after=0"}),
                 SAYS("rank 0, op 3 (0SEND_F1): it does not wait for 0F1"));
  assert_refused(EDITS({"  1 send_f 0SEND_F0 peer=1 tag=0 transfer=0 after=0\n  2 compute 0F1 work=0\n",
                        "  1 compute 0F1 work=0\n  2 send_f 0SEND_F0 peer=1 tag=0 transfer=0\n"}),
                 SAYS("rank 0, op 2 (0SEND_F0): it does not wait for 0F0"));
}

/* Halves of a backward on the last stage of two_ranks. */
static const Edit halves[] = {{"work 3 B stage=1\n", "work 3 I stage=1\nwork 4 W stage=1\n"},
                              {"  3 compute 1B0 work=3\n", "  3 compute 1I0 work=3\n"},
                              {"  6 compute 1B1 work=3\n", "  6 compute 1I1 work=3\n"}};

TEST(a_weight_gradient_comes_after_its_input_gradient) {
  g_autofree char *good =
      edit_text(two_ranks, EDITS(halves[0], halves[1], halves[2],
                                 {"  8 dp NORM transfer=2 after=6\n", "  8 compute 1W0 work=4\n  9 compute 1W1 work=4\n"
                                                                      "  10 dp NORM transfer=2 after=9\n"}));
  g_autoptr(Program) program = read_program(good);
  ck_assert_ptr_nonnull(program);
  assert_refused(EDITS(halves[0], halves[1], {"  6 compute 1B1 work=3\n", "  6 compute 1W1 work=4\n"}),
                 SAYS("rank 1, op 6 (1W1): it runs before its input gradient 1I1"));
  assert_refused(EDITS(halves[0], halves[1], halves[2],
                       {"  8 dp NORM transfer=2 after=6\n", "  8 compute 1W0 work=4\n"
                                                            "  9 dp NORM transfer=2 after=8\n"}),
                 SAYS("stage 1, micro-batch 1, step 0: W is missing"));
}

TEST(every_action_is_there_exactly_once) {
  assert_refused(EDITS({"  7 compute 0B1 work=1 after=6\n", "  7 compute 0F1 work=0 after=6\n"}),
                 SAYS("rank 0, op 7 (0F1): it runs a second time, apart from the first"));
  assert_refused(EDITS({"program ranks=2 stages=2 micro_batches=2", "program ranks=2 stages=2 micro_batches=3"}),
                 SAYS("stage 0, micro-batch 2, step 0: F is missing"));
  assert_refused(EDITS({"program ranks=2 stages=2 micro_batches=2", "program ranks=2 stages=2 micro_batches=16777216"}),
                 SAYS("at least 67108864 compute ops, the program has 18"));
  assert_refused(EDITS({"0B1 work=1 after=6", "1B1 work=3 after=6"}), SAYS("stage 1 is computed on ranks 0 and 1"));
  assert_refused(
      EDITS({"work 3 B stage=1\n", "work 3 B stage=1\nwork 4 I\n"},
            {"  8 dp NORM transfer=2 after=6\n", "  8 compute 1I1 work=4\n  9 dp NORM transfer=2 after=8\n"}),
      SAYS("rank 1, op 8 (1I1): it repeats a gradient: a micro-batch has either B, or I and W"));
}

TEST(parts_of_an_action_stand_together) {
  /* 0F1 in two parts: legal side by side, refused with 0B0 between them, or sent before the last */
  g_autofree char *good =
      edit_text(two_ranks, EDITS({"  2 compute 0F1 work=0\n  3 send_f 0SEND_F1 peer=1 tag=2 transfer=0 after=2\n  4",
                                  "  2 compute 0F1 work=0\n  3 compute 0F1 unit=6 work=0\n"
                                  "  4 send_f 0SEND_F1 peer=1 tag=2 transfer=0 after=3\n  5"},
                                 {"  5 compute 0B0 work=1 after=4\n  6", "  6 compute 0B0 work=1 after=5\n  7"},
                                 {"  7 compute 0B1 work=1 after=6\n  8 dp NORM transfer=2 after=7",
                                  "  8 compute 0B1 work=1 after=7\n  9 dp NORM transfer=2 after=8"}));
  g_autoptr(Program) program = read_program(good);
  ck_assert_ptr_nonnull(program);
  assert_refused(
      EDITS({"  8 dp NORM transfer=2 after=7\n", "  8 compute 0F1 work=0 unit=6\n  9 dp NORM transfer=2 after=7\n"}),
      SAYS("rank 0, op 8 (0F1): it runs a second time, apart from the first"));
  assert_refused(EDITS({"  1 send_f 0SEND_F0 peer=1 tag=0 transfer=0 after=0\n  2 compute 0F1 work=0\n",
                        "  1 send_f 0SEND_F0 peer=1 tag=0 transfer=0 after=0\n  2 compute 0F0 unit=3 work=0\n"}),
                 SAYS("rank 0, op 2 (0F0): it goes on after its result was sent"));
}

TEST(a_batch_waits_for_all_its_ops) {
  /* send and receive of rank 0 issued together: both can be there, so it runs */
  g_autofree char *good = edit_text(
      two_ranks, EDITS({"0SEND_F1 peer", "0SEND_F1 batch=7 peer"}, {"0RECV_B0 peer", "0RECV_B0 batch=7 peer"}));
  g_autoptr(Program) program = read_program(good);
  ck_assert_ptr_nonnull(program);
  /* the first send together with the receive of the last gradient, which is behind another receive that needs it */
  assert_refused(EDITS({"0SEND_F0 peer", "0SEND_F0 batch=7 peer"}, {"0RECV_B1 peer", "0RECV_B1 batch=7 peer"}),
                 SAYS("gets stuck", "rank 0 send_f: 0SEND_F0 waits for the rest of batch 7"));
}

TEST(the_host_keeps_later_ops_from_being_issued) {
  /* a sync that nothing of the other rank hangs on */
  g_autofree char *good =
      edit_text(two_ranks,
                EDITS({"  8 dp NORM transfer=2 after=7\n", "  8 host SYNC after=7\n  9 dp NORM transfer=2 after=7\n"}));
  g_autoptr(Program) program = read_program(good);
  ck_assert_ptr_nonnull(program);
  /* rank 1 reads the norm before it issues the last send; rank 0's norm waits for what that send brings */
  assert_refused(EDITS({"  7 send_b 1SEND_B1 peer=0 tag=3 transfer=1 after=6\n  8 dp NORM transfer=2 after=6\n",
                        "  7 dp NORM transfer=2 after=6\n  8 host SYNC after=7\n  9 send_b 1SEND_B1 peer=0 tag=3 "
                        "transfer=1 after=6\n"}),
                 SAYS("gets stuck", "rank 1 send_b: 1SEND_B1 waits for SYNC on its host stream",
                      "rank 1 host: SYNC waits for NORM on its dp stream"));
}

TEST(indices_are_checked_before_they_are_used) {
  static const struct {
    Edit edit;
    const char *says;
  } cases[] = {
      {{"0F0 work=0", "0F0 work=9"}, "work 9; the program has 4"},
      {{"0F0 work=0", "0F0 work=1"}, "work 1 is of another phase"},
      {{"0F0 work=0", "0F0"}, "work -1"},
      {{"compute 0F0 work=0", "ep 0F0 kind=compute work=0"}, "computes on the stream ep; expected compute"},
      {{"0F0 work=0", "7F0 work=0"}, "stage 7; the program has 2"},
      {{"0F0 work=0", "0F7 work=0"}, "micro-batch 7; the program has 2"},
      {{"0F0 work=0", "0F0 work=0 step=1"}, "step 1; the program has 1"},
      {{"0F0 work=0", "0F0 work=0 effect=1"}, "effect 1; the program has 1"},
      {{"0F0 work=0", "0F0 work=0 after=0"}, "waits for op 0, which is not before it"},
      {{"0F0 work=0", "0F0 work=0 after=5"}, "waits for op 5, which is not before it"},
      {{"0SEND_F0 peer=1", "0SEND_F0 peer=0"}, "peer 0; expected another one of 2"},
      {{"0SEND_F0 peer=1", "0SEND_F0 peer=2"}, "peer 2; expected another one of 2"},
      {{"0SEND_F0 peer=1", "0SEND_F0"}, "peer -1"},
      {{"0SEND_F0 peer=1 tag=0 transfer=0", "0SEND_F0 peer=1 tag=0 transfer=1"}, "is no send from rank 0 to rank 1"},
      {{"NORM transfer=2 after=7", "NORM transfer=1 after=7"}, "transfer 1 is a send"},
      {{"NORM transfer=2 after=7", "NORM transfer=3 after=7"}, "transfer 3; the program has 3"},
      {{"all_reduce group=0", "all_reduce group=1"}, "transfer 2: group 1; the program has 1"},
      {{"pp=all", "pp=0,2"}, "pipeline ranks 0 and 2"},
      {{"pp=all", "pp=1,1"}, "pipeline ranks 1 and 1"},
      {{"work 0 F stage=0", "work 0 F piece=layer stage=0"}, "items -1..-1"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    assert_refused(EDITS(cases[i].edit), SAYS(cases[i].says));
}

/* Lowering relies on generated orders; both steps are proved here. Returns whether the schedule takes the shape. */
static gboolean assert_lowered(const ScheduleFacts *schedule, OrderShape shape) {
  g_autoptr(Order) order = order_new(schedule, shape, NULL);
  if (order == NULL)
    return FALSE;
  g_autoptr(GError) error = NULL;
  const Lowering lowering = {.order = order, .n_steps = 2};
  g_autoptr(Program) program = lower(&lowering, NULL, NULL, &error);
  if (program == NULL || !program_verify(program, &error))
    ck_abort_msg("%s p=%d chunks=%d m=%d group=%d turns=%d: %s", schedule->name, shape.n_ranks, shape.n_chunks,
                 shape.n_micro_batches, shape.group, shape.takes_turns, error->message);
  return TRUE;
}

/* Without a workload; with one: test_generated_programs. */
TEST(lowered_orders_pass_for_every_schedule) {
  enum { MOST_RANKS = 6, MOST_CHUNKS = 4, MOST_MICRO_BATCHES = 9 };
  for (const char *const *name = schedule_names(); *name; name++) {
    const ScheduleFacts *schedule = schedule_find(*name, NULL);
    int n_lowered = 0;
    for (int p = 1; p <= MOST_RANKS; p++)
      for (int chunks = schedule->least_chunks; chunks <= MIN(schedule->most_chunks, MOST_CHUNKS); chunks++)
        for (int m = 1; m <= MOST_MICRO_BATCHES; m++)
          for (int group = 0; group <= (schedule->takes_group ? m : 0); group++)
            for (int takes_turns = FALSE; takes_turns <= TRUE; takes_turns++)
              n_lowered += assert_lowered(schedule, (OrderShape){p, chunks, m, group, takes_turns});
    ck_assert_int_gt(n_lowered, MOST_RANKS * MOST_MICRO_BATCHES / 2); /* dualpipe takes even ranks only */
  }
}

TEST(an_order_that_cannot_run_is_named_when_lowered) {
  /* the last rank's first two actions, 1F0 and 1B0, swapped: a backward before its own forward */
  Order *order = order_new(schedule_find("1f1b", NULL), (OrderShape){2, 1, 2, 0}, NULL);
  Action *first = &g_array_index(order->actions[1], Action, 0), *second = &g_array_index(order->actions[1], Action, 1);
  Action swap = *first;
  *first = *second;
  *second = swap;
  order->is_generated = FALSE;
  g_autoptr(GError) error = NULL;
  Lowering lowering = {.order = order, .n_steps = 1};
  ck_assert_ptr_null(lower(&lowering, NULL, NULL, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  ck_assert_msg(strstr(error->message, "1B0") != NULL, "%s", error->message);
  order_free(order);
}

int main(void) {
  return run_tests();
}
