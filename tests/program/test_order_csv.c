/* Orders as PyTorch's CSV: written orders are read back, PyTorch's own are kept to the byte, and those that cannot run
 * are refused with the place. */
#include "error.h"
#include "order_cases.h"
#include "order_csv.h"
#include "order_read.h"
#include "passes.h"
#include "program_csv.h"
#include "run_suite.h"
#include "schedules.h"

/* --- cells --- */

TEST(cells_read_as_they_print) {
  static const char *const texts[] = {"0F3", "12SEND_B7", "1REDUCE_GRAD", "(0F3;1B2)OVERLAP_F_B",
                                      "(10F31;9B20)OVERLAP_F_B"};
  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
    Action actions[2];
    int n = action_parse_cell(texts[i], actions, NULL);
    ck_assert_int_eq(n, texts[i][0] == '(' ? 2 : 1);
    ck_assert_int_eq(actions[0].overlaps_next, n == 2);
    g_autoptr(GString) printed = g_string_new(NULL);
    ck_assert_int_eq(action_print_cell(&actions[0], &actions[1], printed), n);
    ck_assert_str_eq(printed->str, texts[i]);
  }
}

TEST(what_is_no_pair_is_refused) {
  static const char *const texts[] = {"(",
                                      "()",
                                      "(;)OVERLAP_F_B",
                                      "(0F1)OVERLAP_F_B",
                                      "(0F1;1B0)",
                                      "(0F1;1B0)OVERLAP_B_F",
                                      "(0F1;1B0)OVERLAP_F_Bx",
                                      "(1B0;0F1)OVERLAP_F_B",
                                      "(0F1;1I0)OVERLAP_F_B",
                                      "(0F1;1B0;2F0)OVERLAP_F_B",
                                      "((0F1;1B0)OVERLAP_F_B;1B1)OVERLAP_F_B",
                                      "0OVERLAP_F_B"};
  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
    Action actions[2];
    g_autoptr(GError) error = NULL;
    ck_assert_msg(action_parse_cell(texts[i], actions, &error) == 0, "%s", texts[i]);
    ck_assert_msg(strstr(error->message, "is no pair: expected") != NULL, "%s", error->message);
  }
}

/* --- round trips --- */

static gboolean same_actions(const GArray *a, const GArray *b) {
  if (a->len != b->len)
    return FALSE;
  for (guint i = 0; i < a->len; i++) {
    const Action *x = &g_array_index(a, Action, i), *y = &g_array_index(b, Action, i);
    if (x->stage != y->stage || x->micro_batch != y->micro_batch || x->kind != y->kind ||
        x->overlaps_next != y->overlaps_next)
      return FALSE;
  }
  return TRUE;
}

static gboolean same_orders(const Order *a, const Order *b) {
  const Placement *p = a->placement, *q = b->placement;
  if (p->n_ranks != q->n_ranks || p->n_stages != q->n_stages || p->n_pipes != q->n_pipes ||
      a->n_micro_batches != b->n_micro_batches || memcmp(p->stage_rank, q->stage_rank, sizeof(int) * p->n_stages) != 0)
    return FALSE;
  for (int rank = 0; rank < p->n_ranks; rank++)
    if (!same_actions(a->actions[rank], b->actions[rank]))
      return FALSE;
  return TRUE;
}

/* Written, read and written again it is the same text, and the same order. */
static void assert_round_trip(const Order *order) {
  g_autofree char *csv = order_to_csv(order);
  g_autoptr(Order) again = read_legal(csv);
  g_autofree char *csv_again = order_to_csv(again);
  if (strcmp(csv, csv_again) != 0 || !same_orders(order, again))
    ck_abort_msg("written:\n%sread and written again:\n%s", csv, csv_again);
}

static Program *lower_bare(const Order *order) {
  Lowering lowering = {.order = order, .n_steps = 1};
  g_autoptr(GError) error = NULL;
  Program *program = lower(&lowering, NULL, NULL, &error);
  ck_assert_msg(program != NULL, "%s", error ? error->message : "");
  return program;
}

/* The Program's CSV is read back as the order with its communication; lowered, that stands where it stood; and without
 * it, it is the order that was lowered. */
static void assert_comms_round_trip(const Order *order) {
  g_autoptr(Program) program = lower_bare(order);
  g_autofree char *csv = program_to_csv(program), *compute = order_to_compute_csv(order);
  g_autoptr(Order) comms = read_legal(csv);
  g_autofree char *csv_again = order_to_csv(comms), *compute_again = order_to_compute_csv(comms);
  g_autoptr(Program) lowered = lower_bare(comms);
  g_autofree char *csv_lowered = program_to_csv(lowered);
  if (strcmp(csv, csv_again) != 0 || strcmp(csv, csv_lowered) != 0 || strcmp(compute, compute_again) != 0)
    ck_abort_msg("program:\n%sread:\n%slowered:\n%swithout:\n%s", csv, csv_again, csv_lowered, compute_again);
}

TEST(every_schedule_is_read_back) {
  int n_orders = 0;
  for (const char *const *name = schedule_names(); *name; name++) {
    const ScheduleFacts *schedule = schedule_find(*name, NULL);
    for (int p = 1; p <= 6; p++)
      for (int chunks = schedule->least_chunks; chunks <= MIN(schedule->most_chunks, 3); chunks++)
        for (int m = 1; m <= 12; m += p % 2 + 1) {
          g_autoptr(Order) order = order_new(schedule, (OrderShape){p, chunks, m, 0}, NULL);
          if (order == NULL) /* not for these counts */
            continue;
          assert_round_trip(order);
          assert_comms_round_trip(order);
          n_orders++;
        }
  }
  ck_assert_int_gt(n_orders, 3 * 40);
}

enum { N_RANDOM = 300 };

TEST(any_order_that_can_run_is_read_back) {
  int n_pairs = 0, n_two_pipes = 0;
  for (guint32 seed = 0; seed < N_RANDOM; seed++) {
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    g_autoptr(Order) order = random_order(rand);
    assert_round_trip(order);
    assert_comms_round_trip(order);
    n_two_pipes += order->placement->n_pipes == 2;
    for (guint i = 0; i < order->actions[0]->len; i++)
      n_pairs += g_array_index(order->actions[0], Action, i).overlaps_next;
  }
  ck_assert_int_gt(n_pairs, N_RANDOM / 10);
  ck_assert_int_gt(n_two_pipes, N_RANDOM / 8);
}

/* --- as PyTorch writes it --- */

TEST(pytorch_s_text_is_kept_to_the_byte) {
  static const char *const texts[] = {
      dualpipe_v,
      dualpipe_v_comms,
      /* gpipe's idle slots; 1F1B with gradients reduced and nothing sent, as its class plans it */
      "0F0,0F1,,,0B0,0B1\r\n,1F0,1F1,1B0,1B1,\r\n",
      "0F0,,,0B0,0REDUCE_GRAD\n,1F0,1B0,1REDUCE_GRAD\n",
      ",,0F0,,,0B0,,,\n",
  };
  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
    g_autoptr(Order) order = read_legal(texts[i]);
    g_autofree char *csv = order_to_csv(order);
    ck_assert_str_eq(csv, texts[i]);
  }
}

TEST(communication_is_left_out_on_demand) {
  g_autoptr(Order) order = read_legal(dualpipe_v_comms);
  g_autofree char *csv = order_to_compute_csv(order);
  ck_assert_str_eq(csv, dualpipe_v);
  ck_assert(order->has_send_recv && order->has_unshard && order->has_reduce_grad);
}

TEST(idle_slots_and_blanks_do_not_change_the_order) {
  /* a V: stages 0 and 3 on the first rank; W apart from I */
  g_autoptr(Order) order = read_legal("0F0,,3F0,3I0,3W0,,0B0\r\n,1F0,2F0,,2B0, 1B0 \r\n");
  g_autoptr(Order) dense = read_legal("0F0,3F0,3I0,3W0,0B0\n1F0,2F0,2B0,1B0");
  g_autoptr(Order) marked = read_legal("\xef\xbb\xbf" /* a byte order mark */
                                       "0F0,3F0,3I0,3W0,0B0\n1F0,2F0,2B0,1B0");
  ck_assert(same_orders(order, dense) && same_orders(order, marked));
  static const int ranks[] = {0, 1, 1, 0};
  ck_assert_mem_eq(order->placement->stage_rank, ranks, sizeof ranks);
  ck_assert_int_eq(order->placement->n_pipes, 1);
  ck_assert_int_eq(order->n_micro_batches, 1);
  ck_assert_uint_eq(order->actions[0]->len, 5);
  ck_assert_int_eq(g_array_index(order->actions[0], Action, 3).kind, ACTION_W);
  ck_assert_int_eq(order_column(order, 0, 3), 5);
  ck_assert_int_eq(order_column(order, 1, 2), 5);
}

TEST(two_pipes_are_recognised) {
  /* micro-batch 0 goes through stages 0 1 (ranks 0 1), micro-batch 1 through stages 2 3 (ranks 1 0) */
  g_autoptr(Order) order = read_legal("0F0,3F1,3B1,0B0\n2F1,1F0,1B0,2B1\n");
  ck_assert_int_eq(order->placement->n_pipes, 2);
  ck_assert_int_eq(order->placement->n_stages, 4);
  assert_round_trip(order);
  assert_comms_round_trip(order);
}

/* --- refusals --- */

static const struct {
  const char *csv, *says;
} refusals[] = {
    {"", "empty"},
    {"0F0,0B0\n\n", ":2: no action"},
    {"0F0,0G0\n", ":1, column 2: \"0G0\""},
    {"0F0,,(0F1;0I0)OVERLAP_F_B\n", ":1, column 3: \"(0F1;0I0)OVERLAP_F_B\" is no pair"},
    {"0F0,0B0,OPTIMIZER\n", ":1, column 3: OPTIMIZER is an op of a Program"},
    {"UNSHARD,0F0,0B0\n", ":1, column 1: UNSHARD names no stage"},
    {"0UNSHARD3,0F0,0B0\n", ":1, column 1: 0UNSHARD3 names a micro-batch"},
    /* counts */
    {"0F0,0B0,0F0\n", ":1, column 3: 0F0 is there twice"},
    {"0F0,0F1,(0F2;0B0)OVERLAP_F_B,,0B1,0B2,0F2\n", ":1, column 7: 0F2 is there twice"},
    {"0F0,0B0,0W0\n", ":1, column 3: 0W0 repeats a gradient"},
    {"0F0,0I0,0W0,0B0\n", ":1, column 4: 0B0 repeats a gradient"},
    {"0F0,0B0\n0F1,0B1\n", ":2, column 1: 0F1 puts stage 0 on a second rank: row 1"},
    {"0F0,0B0,0F1,0B0\n", "0B0 is there twice"},
    {"0F0,0B0,0F1,0I1\n", ":1: 0W1 is missing"},
    {"0F0,0B0,0F1,0W1\n", ":1: 0I1 is missing"},
    {"0F0,0F1,0B1,1B0\n", "need at least"},
    {"0F0,0F1,0I1,0W1\n", ":1: 0B0 is missing"},
    {"0B0,0W1,0I1,0B2\n", "some are missing"},
    {"0F0,0B0,2F0,2B0\n1F0,1B0,1F1,1B1\n", "some are missing"},
    {"0F0,0B0,2F0,2B0\n1F0,1B0\n", ":2: 1 stages in this row, but 2 in the first"},
    {"0F0,2147483647B2147483647\n", "need at least"},
    {"0UNSHARD,0RESHARD\n", "no compute action"},
    {"0F0,2147483647UNSHARD,0B0\n", "need at least"},
    {"1F0,0F0,0B0,1B0,1SEND_F0\n", "sends to no stage: stage 1 is at the end"},
    /* places */
    {"0F0,0W0,0I0\n", ":1, column 2: 0W0 stands before 0I0 (row 1, column 3)"},
    {"0F1,0B0,0F0,0B1\n", ":1, column 2: 0B0 stands before 0F0 (row 1, column 3)"},
    {"0F0,0SEND_F0,1F0,1B0,0B0\n", "column 2: 0SEND_F0 sends to stage 1, which is on the same rank"},
    {"0RECV_F0,0F0,0B0\n1F0,1B0\n", "column 1: 0RECV_F0 receives from no stage"},
    {"0F0,0B0,1RECV_F0\n1F0,1B0\n", ":1, column 3: 1RECV_F0 is in the wrong row: stage 1 computes in row 2"},
    {"0F0,0SEND_F0,0B0\n1F0,1B0\n", ":1, column 2: 0SEND_F0 has no receive: 1RECV_F0 is missing in row 2"},
    {"0F0,0B0\n1RECV_F0,1F0,1B0\n",
     ":1, column 1: 0F0 is not sent: 0SEND_F0 is missing in this row, stage 1 is in row 2"},
    {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n",
     ":1, column 3: 0RECV_B0 has no send: 1SEND_B0 is missing in row 2"},
    {"0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
     ":1, column 1: 0SEND_F0 stands before 0F0 (row 1, column 2), which it sends"},
    {"0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0\n",
     ":2, column 2: 1RECV_F0 stands after 1F0 (row 2, column 1), which needs it"},
    {"0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
     ":1, column 3: 0SEND_F0 is there twice: in column 2 too"},
    /* sharding */
    {"0UNSHARD,0F0,0RESHARD,0B0\n", ":1, column 4: 0B0 computes with stage 0 in shards"},
    {"0UNSHARD,0F0,0UNSHARD,0B0\n", ":1, column 3: 0UNSHARD finds stage 0 gathered already"},
    {"0UNSHARD,0F0,0B0,0RESHARD,0RESHARD\n", ":1, column 5: 0RESHARD finds stage 0 in shards"},
    {"0F0,0REDUCE_GRAD,0B0\n", ":1, column 2: 0REDUCE_GRAD stands before 0B0 (row 1, column 3)"},
    {"0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD\n", ":1, column 4: 0REDUCE_GRAD is there twice"},
    {"0F0,0B0,0REDUCE_GRAD\n1F0,1B0\n", ":2: 1REDUCE_GRAD is missing"},
    /* stuck: each rank waits for what the other does after it */
    {"0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n", "the order gets stuck:\n"
                                           "  row 1, column 2: 0B0 waits for 1B0 (row 2, column 3)\n"
                                           "  row 2, column 1: 1F1 waits for 0F1 (row 1, column 3)"},
    {"0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,1F1,1B0,1B1\n",
     "  row 1, column 2: (0F1;0B0)OVERLAP_F_B waits for 1B0 (row 2, column 3)\n"
     "  row 2, column 2: 1F1 waits for 0F1 (row 1, column 2)"},
    {"1F0,0F0,0B0,1B0\n", "  row 1, column 1: 1F0 waits for 0F0 (row 1, column 2)"},
    /* receives in another order than the sends: neither lane can go on */
    {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
     "row 2, column 3: 1F0 waits for 1RECV_F0 (row 2, column 2), which is behind 1RECV_F1 (row 2, column 1)"},
    {"0F0,0F1,0SEND_F1,0SEND_F0,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
     "row 2, column 2: 1F0 waits for 1RECV_F0 (row 2, column 1) from 0SEND_F0 (row 1, column 4), which is behind "
     "0SEND_F1 (row 1, column 3)"},
};

/* Check's loop variable _i is the refusal. */
LOOP_TEST(csv_errors_name_the_place_and_what_is_wrong, G_N_ELEMENTS(refusals)) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Order) order = read_bytes(refusals[_i].csv, -1, &error);
  ck_assert_msg(order == NULL, "\"%s\" is read", refusals[_i].csv);
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_msg(strstr(error->message, refusals[_i].says) != NULL, "\"%s\" says: %s", refusals[_i].csv, error->message);
}

TEST(a_file_that_is_not_there_is_named) {
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(order_read_csv("/nonexistent/order.csv", &error));
  ck_assert_ptr_nonnull(strstr(error->message, "/nonexistent/order.csv"));
  ck_assert_ptr_null(order_read_csv(NULL, NULL));
}

/* --- damage --- */

/* A damaged text is refused, or it is another order that can run. */
static void assert_survives(const char *bytes, gsize length, int *n_read) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Order) order = read_bytes(bytes, (gssize)length, &error);
  if (order == NULL) {
    if (!g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT) || strlen(error->message) > 3000)
      ck_abort_msg("%s", error ? error->message : "no reason");
    return;
  }
  ++*n_read;
  g_autoptr(Program) program = lower_bare(order);
  g_autofree char *csv = order_to_csv(order), *comms = program_to_csv(program);
  ck_assert(*csv != '\0' && *comms != '\0');
}

TEST(damaged_files_are_refused_or_can_run) {
  static const char *const texts[] = {dualpipe_v, dualpipe_v_comms, "0F0,0F1,,,0B0,0B1\n,1F0,1F1,1B0,1B1,\n"};
  static const char damage[] = "0123456789FIWB,;()\n\r_SENDRCV\x80";
  g_autoptr(GRand) rand = g_rand_new_with_seed(7);
  int n_read = 0;
  for (int trial = 0; trial < 3000; trial++) {
    g_autofree char *text = g_strdup(texts[trial % G_N_ELEMENTS(texts)]);
    gsize length = strlen(text);
    for (int flips = g_rand_int_range(rand, 1, 4); flips > 0; flips--)
      text[g_rand_int_range(rand, 0, (int)length)] = damage[g_rand_int_range(rand, 0, sizeof damage - 1)];
    assert_survives(text, trial % 5 == 0 ? (gsize)g_rand_int_range(rand, 0, (int)length) : length, &n_read);
  }
  ck_assert_int_gt(n_read, 10);
}

/* Two actions change places: what can still run is lowered, the rest is refused; the passes never find what the reader
 * overlooked. */
TEST(swapped_actions_are_refused_or_can_run) {
  int n_read = 0, n_trials = 0;
  for (guint32 seed = 0; seed < 100; seed++) {
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    g_autoptr(Order) order = random_order(rand);
    g_autoptr(Program) program = lower_bare(order);
    g_autofree char *csv = program_to_csv(program);
    g_autoptr(Order) comms = read_legal(csv);
    for (int trial = 0; trial < 10; trial++, n_trials++) {
      GArray *actions = comms->actions[g_rand_int_range(rand, 0, comms->placement->n_ranks)];
      Action *a = &g_array_index(actions, Action, g_rand_int_range(rand, 0, (int)actions->len));
      Action *b = &g_array_index(actions, Action, g_rand_int_range(rand, 0, (int)actions->len));
      gboolean in_pair = a->overlaps_next || b->overlaps_next || a->kind == ACTION_B || b->kind == ACTION_B;
      Action kept[] = {*a, *b};
      if (in_pair)
        continue;
      *a = kept[1];
      *b = kept[0];
      g_autofree char *swapped = order_to_csv(comms);
      assert_survives(swapped, strlen(swapped), &n_read);
      *a = kept[0];
      *b = kept[1];
    }
  }
  ck_assert_int_gt(n_read, n_trials / 20);
}

TEST(noise_of_megabytes_is_refused_with_a_short_message) {
  enum { SIZE = 10 * 1000 * 1000 };
  static const char alphabets[][24] = {"0123456789FBIW,", "0F0,\n", "0", ",", "\n", {'a', '\0', '\x80', 1}};
  g_autofree char *noise = g_malloc(SIZE);
  for (gsize a = 0; a < G_N_ELEMENTS(alphabets); a++) {
    gsize n = a == G_N_ELEMENTS(alphabets) - 1 ? 4 : strlen(alphabets[a]);
    guint32 state = 1;
    for (int i = 0; i < SIZE; i++) {
      state = state * 1664525u + 1013904223u; /* Numerical Recipes' generator */
      noise[i] = alphabets[a][(state >> 16) % n];
    }
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(read_bytes(noise, SIZE, &error));
    ck_assert_uint_lt(strlen(error->message), 500);
  }
}

int main(void) {
  return run_tests();
}
