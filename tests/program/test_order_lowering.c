/* How the passes lower orders with explicit communication, and pairs that run as one. */
#include "case_clusters.h"
#include "error.h"
#include "order_cases.h"
#include "order_run.h"
#include "passes.h"
#include "plan.h"
#include "plan_schedule.h"
#include "program_csv.h"
#include "program_text.h"
#include "run_suite.h"
#include "verify.h"
#include <math.h>

static Program *lower_for(const Order *order, const Workload *workload) {
  Lowering lowering = {.order = order, .workload = workload, .n_steps = 1};
  g_autoptr(GError) error = NULL;
  Program *program = lower(&lowering, NULL, NULL, &error);
  ck_assert_msg(program != NULL, "%s", error ? error->message : "");
  return program;
}

static gboolean waits_for(const Op *op, gint32 index) {
  for (int i = 0; i < OP_MAX_AFTER && op->after[i] >= 0; i++)
    if (op->after[i] == index)
      return TRUE;
  return FALSE;
}

/* Index of the op before or after `from` with this action; −1: none. */
static gint32 find_op(const OpList *list, gint32 from, int direction, ActionKind kind, int stage, int micro_batch) {
  for (gint32 i = from + direction; i >= 0 && i < list->n_ops; i += direction) {
    const Op *op = &list->ops[i];
    if (op->action == kind && op->stage == stage && op->micro_batch == micro_batch)
      return i;
  }
  return -1;
}

/* --- pairs --- */

/* Returns how many pairs there are. */
static int assert_pairs(const Program *program) {
  int n_pairs = 0;
  for (int rank = 0; rank < program->n_ranks; rank++) {
    const OpList *list = &program->ranks[rank];
    for (gint32 f = 0; f < list->n_ops; f++) {
      const Op *forward = &list->ops[f];
      if (forward->action != ACTION_F || !forward->overlapped)
        continue;
      gint32 b = f + 1;
      while (list->ops[b].kind != OP_COMPUTE)
        b++;
      const Op *backward = &list->ops[b];
      ck_assert(backward->action == ACTION_B && backward->overlapped);
      gint32 inputs[] = {find_op(list, f, -1, ACTION_RECV_F, forward->stage, forward->micro_batch),
                         find_op(list, b, -1, ACTION_RECV_B, backward->stage, backward->micro_batch)};
      for (gsize i = 0; i < G_N_ELEMENTS(inputs); i++)
        ck_assert(inputs[i] < 0 || (inputs[i] < f && waits_for(forward, inputs[i])));
      gint32 products[] = {find_op(list, f, 1, ACTION_SEND_F, forward->stage, forward->micro_batch),
                           find_op(list, b, 1, ACTION_SEND_B, backward->stage, backward->micro_batch)};
      for (gsize i = 0; i < G_N_ELEMENTS(products); i++)
        ck_assert(products[i] < 0 || waits_for(&list->ops[products[i]], b));
      n_pairs++;
    }
  }
  return n_pairs;
}

/* The two ranks have two and three pairs. */
TEST(pairs_wait_for_both_inputs_and_send_both_products_at_their_end) {
  static const char *const texts[] = {dualpipe_v, dualpipe_v_comms};
  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
    g_autoptr(Order) order = read_legal(texts[i]);
    g_autoptr(Program) program = lower_for(order, NULL);
    int n_cells = 0;
    for (const char *at = texts[i]; (at = strstr(at, "OVERLAP_F_B")) != NULL; at++)
      n_cells++;
    ck_assert_int_eq(n_cells, 6);
    ck_assert_int_eq(assert_pairs(program), n_cells);
  }
}

TEST(the_text_of_a_program_keeps_its_pairs) {
  /* 5 micro-batches through two pipes: 3 and 2 */
  g_autoptr(Order) two_pipes = order_new(schedule_find("dualpipe", NULL), (OrderShape){4, 2, 5, 0}, NULL);
  g_autoptr(Order) one_pipe = read_legal(dualpipe_v);
  const Order *orders[] = {two_pipes, one_pipe};
  for (gsize i = 0; i < G_N_ELEMENTS(orders); i++) {
    g_autoptr(Program) program = lower_for(orders[i], NULL);
    g_autofree char *text = program_to_text(program);
    g_autoptr(GError) error = NULL;
    g_autoptr(Program) again = program_from_text(text, "text", &error);
    ck_assert_msg(again != NULL, "%s", error ? error->message : "");
    g_autofree char *text_again = program_to_text(again), *csv = program_to_csv(program),
                    *csv_again = program_to_csv(again);
    ck_assert_str_eq(text_again, text);
    ck_assert_str_eq(csv_again, csv);
  }
}

TEST(a_pair_takes_the_time_it_is_given) {
  /* two forwards of 1, a pair of 2.5, two backwards of 2: 8.5; without a time of its own the pair takes 3: 9 */
  g_autoptr(Order) order = read_legal("0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2\n");
  const double pair_ns[] = {2500, 0};
  const gint64 expected_ns[] = {8500, 9000};
  for (gsize i = 0; i < G_N_ELEMENTS(pair_ns); i++) {
    const StageTimes times = {.f_ns = 1000, .i_ns = 1000, .w_ns = 1000, .pair_ns = pair_ns[i]};
    g_autoptr(OrderRun) run = order_run_new(order, &times, 1, NULL, NULL, NULL);
    ck_assert_ptr_nonnull(run);
    ck_assert_int_eq(trace_end(run->trace), expected_ns[i]);
  }
}

/* --- communication in the order --- */

TEST(transfers_stand_where_the_order_puts_them) {
  /* both activations are sent together, after the second forward */
  g_autoptr(Order) order = read_legal("0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B1,0RECV_B0,0B1,0B0\n"
                                      "1RECV_F0,1RECV_F1,1F0,1F1,1B1,1SEND_B1,1B0,1SEND_B0\n");
  g_autoptr(Program) program = lower_for(order, NULL);
  const OpList *list = &program->ranks[0];
  static const ActionKind kinds[] = {ACTION_F,      ACTION_F,      ACTION_SEND_F, ACTION_SEND_F,
                                     ACTION_RECV_B, ACTION_RECV_B, ACTION_B,      ACTION_B};
  ck_assert_int_eq(list->n_ops, G_N_ELEMENTS(kinds));
  for (int i = 0; i < list->n_ops; i++)
    ck_assert_int_eq(list->ops[i].action, kinds[i]);
  ck_assert(waits_for(&list->ops[2], 0) && waits_for(&list->ops[3], 1));
  ck_assert(waits_for(&list->ops[6], 4) && waits_for(&list->ops[7], 5));
}

/* What a rank's ops hold and do not drop, and hold in all. */
static void sum_effects(const Program *program, int rank, double left[N_MEMORY], double held[N_MEMORY]) {
  for (int c = 0; c < N_MEMORY; c++)
    left[c] = held[c] = 0;
  for (int i = 0; i < program->ranks[rank].n_ops; i++)
    for (int c = 0; c < N_MEMORY; c++) {
      const Effect *effect = &g_array_index(program->effects, Effect, program->ranks[rank].ops[i].effect);
      left[c] += effect->hold[c] - effect->drop[c];
      held[c] += effect->hold[c];
    }
}

static double reduced_bytes(const Program *program, int rank, Collective collective) {
  double bytes = 0;
  for (int i = 0; i < program->ranks[rank].n_ops; i++) {
    const Op *op = &program->ranks[rank].ops[i];
    if (op->kind != OP_COLLECTIVE || op->action != ACTION_REDUCE_GRAD)
      continue;
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work);
    bytes += transfer->collective == collective ? transfer->bytes : 0;
  }
  return bytes;
}

/* ZeRO-3: every F and every backward that needs parameters waits for a gather of its stage. */
static gboolean is_gathered(const Program *program, int rank) {
  const OpList *list = &program->ranks[rank];
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->kind != OP_COMPUTE || op->action > ACTION_B || op->action == ACTION_W)
      continue;
    gboolean waits = FALSE;
    for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++)
      waits |= list->ops[op->after[k]].action == ACTION_UNSHARD && list->ops[op->after[k]].stage == op->stage;
    if (!waits)
      return FALSE;
  }
  return TRUE;
}

/* Under every plan: gradients are reduced once a step whatever the ZeRO stage, since the grammar has one REDUCE_GRAD a
 * stage; what a step holds it drops; every user of sharded parameters waits for their gather. */
static const char *fault_of(const Program *program, const Workload *workload) {
  const Plan *plan = workload->plan;
  int shards = plan->zero > 0 ? plan->zero_ranks : 1;
  for (int rank = 0; rank < program->n_ranks; rank++) {
    double left[N_MEMORY], held[N_MEMORY], gradients = 0;
    sum_effects(program, rank, left, held);
    for (int c = 0; c < N_MEMORY; c++)
      if (fabs(left[c]) > 1e-9 * held[c])
        return "memory is left";
    for (int stage = 0; stage < program->n_stages; stage++)
      if (workload->placement->stage_rank[stage] == rank)
        gradients += (double)workload->stages[stage].trained * plan->recipe.gradients;
    double scattered = shards > 1 ? gradients : 0, summed = plan->dp / shards > 1 ? gradients / shards : 0;
    if (fabs(reduced_bytes(program, rank, COLLECTIVE_REDUCE_SCATTER) - scattered) > 1e-9 * scattered ||
        fabs(reduced_bytes(program, rank, COLLECTIVE_ALL_REDUCE) - summed) > 1e-9 * summed)
      return "not every gradient is reduced once";
    if (plan->zero == 3 && shards > 1 && !is_gathered(program, rank))
      return "parameters in shards";
  }
  return NULL;
}

enum { N_PLANS = 200, MAX_GPUS = 64 };

/* A plan's Program goes out as PyTorch's CSV and comes back as an order that says where to communicate. */
TEST(a_plan_s_program_comes_back_as_an_order) {
  int n_unsharded = 0, n_reduced = 0;
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = random_case(seed, clusters, MAX_GPUS);
    drawn.plan->training = (TrainedParts){0};
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    g_autofree char *csv = program_to_csv(prediction->program), *text = case_text(&drawn);
    g_autoptr(Order) order = read_legal(csv);
    g_autoptr(Program) program = lower_for(order, prediction->workload);
    g_autoptr(Program) expanded = program_expand(program, prediction->workload);
    g_autoptr(GError) error = NULL;
    ck_assert_msg(program_verify(expanded, &error), "%s\n%s", text, error ? error->message : "");
    const char *fault = drawn.plan->dp > 1 ? fault_of(program, prediction->workload) : NULL;
    ck_assert_msg(fault == NULL, "%s\n%s\n%s", text, fault, csv);
    g_autofree char *csv_again = program_to_csv(program);
    if (!order->has_unshard) /* else whole stages are gathered, where pieces were */
      ck_assert_msg(strcmp(csv, csv_again) == 0, "%s\n%s\nand then\n%s", text, csv, csv_again);
    n_unsharded += order->has_unshard;
    n_reduced += order->has_reduce_grad;
  }
  ck_assert_int_gt(n_unsharded, N_PLANS / 10);
  ck_assert_int_gt(n_reduced, N_PLANS / 3);
}

TEST(sharding_in_the_order_costs_nothing_on_one_rank) {
  g_autoptr(Order) comms = read_legal("0UNSHARD,0F0,0F1,0RESHARD,0UNSHARD,0B0,0B1,0REDUCE_GRAD,0RESHARD\n");
  g_autoptr(Order) plain = read_legal("0F0,0F1,0B0,0B1\n");
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->pp = plan->chunks = 1;
  g_autoptr(Workload) workload = workload_new(&gpt, plan, NULL);
  g_autoptr(Program) program = lower_for(comms, workload), expected = lower_for(plain, workload);
  g_autofree char *text = program_to_text(program), *expected_text = program_to_text(expected);
  ck_assert_str_eq(text, expected_text);
}

/* --- what a schedule's own runtime does --- */

TEST(without_overlap_the_next_op_of_the_sender_waits_for_the_send) {
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = random_case(seed, clusters, MAX_GPUS);
    drawn.plan->training = (TrainedParts){0};
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    const Program *program = prediction->program;
    for (int rank = 0; rank < program->n_ranks; rank++) {
      const OpList *list = &program->ranks[rank];
      for (gint32 i = 0; i < list->n_ops; i++) {
        gint32 next = i + 1;
        while (next < list->n_ops && list->ops[next].stream != STREAM_COMPUTE)
          next++;
        gboolean waits = next < list->n_ops && list->ops[next].kind == OP_COMPUTE && waits_for(&list->ops[next], i);
        if (list->ops[i].kind == OP_SEND && next < list->n_ops && list->ops[next].kind == OP_COMPUTE)
          ck_assert_int_eq(waits, !drawn.plan->overlap_p2p);
      }
    }
  }
}

TEST(a_schedule_brings_what_its_runtime_does_and_the_plan_may_differ) {
  static const struct {
    const char *schedule;
    gboolean overlaps_p2p, waits_for_norm;
    int steps;
  } cases[] = {{"1f1b", FALSE, TRUE, 1}, {"interleaved", FALSE, TRUE, 1}, {"zb-h2", TRUE, FALSE, 3},
               {"zb-v", TRUE, FALSE, 3}, {"v-min", TRUE, FALSE, 3},       {"dualpipe", TRUE, TRUE, 1},
               {"auto", TRUE, FALSE, 3}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    for (int given = -1; given <= 1; given++) {
      g_autoptr(Plan) plan = plan_new();
      plan->schedule = g_strdup(cases[i].schedule);
      plan->pp = 4;
      plan->overlap_p2p = plan->grad_norm_barrier = given;
      ck_assert(plan_complete(plan, NULL, NULL, NULL));
      ck_assert_int_eq(plan->overlap_p2p, given >= 0 ? given : cases[i].overlaps_p2p);
      ck_assert_int_eq(plan->grad_norm_barrier, given >= 0 ? given : cases[i].waits_for_norm);
      ck_assert_int_eq(plan->steps, given >= 0 ? (given ? 1 : 3) : cases[i].steps);
    }
}

int main(void) {
  TCase *tcase = listed_tests();
  tcase_add_unchecked_fixture(tcase, set_up, tear_down);
  return run_case("order_lowering", tcase);
}
