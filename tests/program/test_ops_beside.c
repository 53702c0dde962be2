/* Which compute ops a transfer may overlap, computed by hand; only those are expanded into pieces. */
#include "case_clusters.h"
#include "hand_program.h"
#include "lowering.h"
#include "plan.h"
#include "run_suite.h"
#include "timing_model.h"

static const Group gradients = {.name = "dp", .axes = AXIS_BIT(AXIS_DP), .pp_first = -1, .pp_last = -1};

/* Of rank 0's ops: a letter for each, b where it is beside a marked transfer. */
static char *letters(Hand *hand, gint32 transfer, gint64 eager_bytes) {
  for (guint w = 0; w < hand->program->works->len; w++)
    g_array_index(hand->program->works, Work, w).n_layers = 2;
  hand_finish(hand);
  g_autofree gboolean *marked = g_new0(gboolean, hand->program->transfers->len + 1);
  marked[transfer] = TRUE;
  g_autoptr(OpsBeside) beside = ops_beside_new(hand->program, marked, eager_bytes);
  GString *text = g_string_new(NULL);
  double n_pieces = 0;
  for (int i = 0; i < hand->program->ranks[0].n_ops; i++) {
    g_string_append_c(text, beside->is_beside[0][i] ? 'b' : '.');
    n_pieces += beside->is_beside[0][i] ? 2 : 0;
  }
  ck_assert(beside->n_pieces == n_pieces);
  hand_clear(hand);
  return g_string_free(text, FALSE);
}

/* k0 → sum → k2, k1 waits for nothing. */
TEST(a_transfer_is_beside_what_neither_waits_for_the_other) {
  Hand hand = hand_of(1);
  int k0 = hand_compute(&hand, 0, hand_kernel(10));
  int sum = hand_collective(&hand, 0, STREAM_DP, gradients, hand_kernel(50));
  hand_after(&hand, 0, sum, k0);
  hand_compute(&hand, 0, hand_kernel(20));
  int k2 = hand_compute(&hand, 0, hand_kernel(30));
  hand_after(&hand, 0, k2, sum);
  gint32 transfer = hand_op(&hand, 0, sum)->work;
  g_autofree char *found = letters(&hand, transfer, -1);
  ck_assert_str_eq(found, "..b.");
}

/* The second sum follows the first, which waits for k1; nothing waits for it. The first is not looked at. */
TEST(what_the_stream_waits_for_counts) {
  Hand hand = hand_of(1);
  hand_compute(&hand, 0, hand_kernel(10));
  int k1 = hand_compute(&hand, 0, hand_kernel(10));
  int first = hand_collective(&hand, 0, STREAM_DP, gradients, hand_kernel(50));
  hand_after(&hand, 0, first, k1);
  int second = hand_collective(&hand, 0, STREAM_DP, gradients, hand_kernel(60));
  hand_compute(&hand, 0, hand_kernel(20));
  hand_compute(&hand, 0, hand_kernel(30));
  gint32 transfer = hand_op(&hand, 0, second)->work;
  g_autofree char *found = letters(&hand, transfer, -1);
  ck_assert_str_eq(found, "....bb");
}

/* A third one on the stream, which k1 waits for, ends after it. */
TEST(what_waits_for_the_stream_counts) {
  Hand hand = hand_of(1);
  int sum = hand_collective(&hand, 0, STREAM_DP, gradients, hand_kernel(50));
  int later = hand_collective(&hand, 0, STREAM_DP, gradients, hand_kernel(60));
  hand_compute(&hand, 0, hand_kernel(20));
  int k1 = hand_compute(&hand, 0, hand_kernel(30));
  hand_after(&hand, 0, k1, later);
  gint32 transfer = hand_op(&hand, 0, sum)->work;
  g_autofree char *found = letters(&hand, transfer, -1);
  ck_assert_str_eq(found, "..b.");
}

/* The host reads what k0 made before it issues the sum, and the sum before it issues k2. */
TEST(what_the_host_waits_for_counts) {
  Hand hand = hand_of(1);
  int k0 = hand_compute(&hand, 0, hand_kernel(10));
  int read = hand_host(&hand, 0);
  hand_after(&hand, 0, read, k0);
  int sum = hand_collective(&hand, 0, STREAM_DP, gradients, hand_kernel(50));
  hand_compute(&hand, 0, hand_kernel(20));
  int read_sum = hand_host(&hand, 0);
  hand_after(&hand, 0, read_sum, sum);
  hand_compute(&hand, 0, hand_kernel(30));
  gint32 transfer = hand_op(&hand, 0, sum)->work;
  g_autofree char *found = letters(&hand, transfer, -1);
  ck_assert_str_eq(found, "...b..");
}

typedef enum { APART, TOGETHER, EARLY } Receipt;

/* k0, k1 → send; a receive; k2 waits for the receive. Of the receive: together in a batch it starts no earlier than the
 * send; a small one may arrive before it starts. */
static char *letters_of_receive(Receipt receipt) {
  Hand hand = hand_of(2);
  hand_compute(&hand, 0, hand_kernel(10));
  int receive = hand_receive(&hand, 0, 1, 0, 100, hand_kernel(50));
  int k1 = hand_compute(&hand, 0, hand_kernel(20));
  int send = hand_send(&hand, 0, 1, 1, 100, hand_kernel(60));
  hand_after(&hand, 0, send, k1);
  int k2 = hand_compute(&hand, 0, hand_kernel(30));
  hand_after(&hand, 0, k2, receive);
  if (receipt != APART)
    hand_op(&hand, 0, receive)->batch = hand_op(&hand, 0, send)->batch = 0;
  gint32 transfer = hand_op(&hand, 0, receive)->work;
  return letters(&hand, transfer, receipt == EARLY ? 100 : 99);
}

TEST(a_batch_starts_together) {
  g_autofree char *apart = letters_of_receive(APART), *together = letters_of_receive(TOGETHER),
                  *early = letters_of_receive(EARLY);
  ck_assert_str_eq(apart, "b.b..");
  ck_assert_str_eq(together, ".....");
  ck_assert_str_eq(early, "b.b..");
}

/* In 1F1B with gradients summed beside the last backward, all before it stays whole: of 8 micro-batches two passes of
 * 16 are in pieces. */
TEST(only_the_last_backward_runs_beside_gradients) {
  Case drawn = {.model = gpt, .cluster = clusters[1], .plan = plan_new()}; /* dgx-h100: tp 4 leaves a node to two */
  drawn.model.n_layers = 4;
  drawn.plan->tp = drawn.plan->dp = 4;
  drawn.plan->gpus = 16;
  drawn.plan->global_batch = 32;
  drawn.plan->seq_len = 256;
  drawn.plan->bucket_parameters = 1;
  g_autoptr(Prediction) prediction = predict_case(&drawn);
  ck_assert_int_eq(prediction->program->expansion, EXPANSION_BESIDE);
  const OpList *list = &prediction->program->ranks[0];
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->kind != OP_COMPUTE || op->micro_batch < 0)
      continue;
    const Work *work = &g_array_index(prediction->program->works, Work, op->work);
    const gboolean is_last_backward = op->action == ACTION_B && op->micro_batch == 7;
    ck_assert_msg(is_last_backward || work->piece < 0, "op %d of micro-batch %d is in pieces", i, op->micro_batch);
  }
  case_clear(&drawn);
}

/* Expanded at once, or first beside transfers and then all else: the same step of all ranks, of as many ops. */
TEST(the_rest_can_be_expanded_later) {
  int n_in_pieces = 0;
  for (guint seed = 0; seed < 120; seed++) {
    g_auto(Case) drawn = random_case(seed, clusters, 32);
    g_autoptr(Prediction) folded = predict_case(&drawn);
    if (folded->program->expansion != EXPANSION_BESIDE)
      continue;
    g_autoptr(Program) later = program_expand(folded->program, folded->workload);
    n_in_pieces += later->ranks[0].n_ops != folded->program->ranks[0].n_ops;
    drawn.plan->fold = FALSE;
    g_autoptr(Prediction) all = predict_case(&drawn);
    for (int rank = 0; rank < later->n_ranks; rank++)
      ck_assert_int_eq(later->ranks[rank].n_ops, all->program->ranks[rank].n_ops);
    g_autoptr(GError) error = NULL;
    Prediction *again = predict_program(&drawn.model, drawn.cluster, drawn.plan, g_steal_pointer(&later), &error);
    ck_assert_msg(again != NULL, "%s", error != NULL ? error->message : "");
    ck_assert_int_eq(again->metrics->step_ns, all->metrics->step_ns);
    ck_assert_int_eq(again->metrics->step_ns, folded->metrics->step_ns);
    prediction_free(again);
  }
  ck_assert_int_gt(n_in_pieces, 5);
}

int main(void) {
  TCase *tcase = listed_tests();
  tcase_add_unchecked_fixture(tcase, set_up, tear_down);
  return run_case("ops beside", tcase);
}
