/* A step predicted from fewer micro-batches equals the full step: over random plans, to the nanosecond, and fewer are
 * enough for most long steps. The reason: a list for more micro-batches is one for fewer with its repeating part
 * inserted once more.
 *
 * `test_predict_step N` draws N plans instead of the suite's few. */
#include "long_cases.h"
#include "passes.h"
#include "repeats.h"
#include "run_suite.h"

#include <stdlib.h>

enum { N_PLANS = 500 };

static int n_plans = N_PLANS;
typedef struct {
  int n_fewer, n_all, n_expanded, n_contended;
} Counts;

static void compare(const Case *drawn, Counts *counts) {
  g_autoptr(Prediction) whole = predict(&drawn->model, drawn->cluster, drawn->plan, NULL);
  StepPrediction step;
  const gboolean is_known = predict_step(NULL, &drawn->model, drawn->cluster, drawn->plan, &step, NULL);
  CASE_ASSERT(drawn, is_known == (whole != NULL), "one of them cannot be");
  if (whole == NULL)
    return;
  const Plan *plan = whole->workload->plan;
  const gboolean is_fewer = step.n_run < plan->n_micro_batches;
  CASE_ASSERT(drawn, step.step_time_s == whole->step_time_s, "%.12g s from %d micro-batches, %.12g s of %d",
              step.step_time_s, (int)step.n_run, whole->step_time_s, (int)plan->n_micro_batches);
  CASE_ASSERT(drawn, step.peak_bytes == whole->memory->peak_bytes, "%.17g bytes, %.17g", step.peak_bytes,
              whole->memory->peak_bytes);
  CASE_ASSERT(drawn,
              step.gpus == plan->gpus && step.global_batch == plan->global_batch &&
                  step.hardware_flops == workload_hardware_flops(whole->workload) &&
                  step.peak_flops == plan->gpus * whole->peak_flops,
              "other facts");
  counts->n_fewer += is_fewer;
  counts->n_all += !is_fewer;
  counts->n_expanded += is_fewer && whole->program->expansion;
  counts->n_contended += is_fewer && plan->contention;
}

TEST(steps_of_fewer_micro_batches_are_those_of_all) {
  Counts counts = {0};
  for (int seed = 0; seed < n_plans; seed++) {
    g_auto(Case) drawn = long_case((guint)seed);
    compare(&drawn, &counts);
  }
  g_print("# %d from fewer, %d of them expanded; %d from all\n", counts.n_fewer, counts.n_expanded, counts.n_all);
  ck_assert_int_gt(counts.n_fewer, n_plans / 3);
  ck_assert_int_gt(counts.n_expanded, n_plans / 20);
  ck_assert_int_gt(counts.n_all, n_plans / 20);
}

/* Tensor and context parallel ranks of one NVLink domain, and nothing else to send: collectives of tp share their links
 * with those of cp, which whole pieces say nothing of. */
TEST(collectives_of_cp_slow_those_of_tp_in_fewer_as_in_all) {
  Counts counts = {0};
  for (int pp = 1; pp <= 2; pp++) {
    /* the gradients are less of the step than what is taken for a meeting */
    g_auto(Case)
        drawn = {llama, case_clusters()[0], plan_said("--tp 2 --cp 2 --pp %d --seq-len 2048 --global-batch 512", pp)};
    g_autoptr(Prediction) meeting = predict_case(&drawn);
    drawn.plan->contention = FALSE;
    g_autoptr(Prediction) alone = predict_case(&drawn);
    drawn.plan->contention = TRUE;
    ck_assert_double_lt(alone->step_time_s, meeting->step_time_s);
    compare(&drawn, &counts);
  }
  ck_assert_int_eq(counts.n_fewer, 2);
}

/* What makes ranks differ, orders of another kind: all micro-batches are run. */
TEST(what_does_not_repeat_is_run_in_full) {
  static const char *const said[] = {"--jitter 0.01", "--fold off", "--schedule gpipe --chunks 1",
                                     "--schedule zb-h1 --chunks 1"};
  for (gsize i = 0; i < G_N_ELEMENTS(said); i++) {
    g_auto(Case) drawn = long_case(3);
    Plan *plan = plan_say(drawn.plan, "--steps 1 %s", said[i]);
    StepPrediction step;
    g_autoptr(GError) error = NULL;
    ck_assert_msg(predict_step(NULL, &drawn.model, drawn.cluster, plan, &step, &error), "%s", error ? error->message : "");
    ck_assert_int_eq(step.n_run, plan->global_batch / (plan->micro_batch * plan->dp));
  }
}

TEST(errors_are_those_of_the_whole_prediction) {
  g_auto(Case) drawn = long_case(3);
  drawn.plan->gpus += 1;
  g_autoptr(GError) expected = NULL, found = NULL;
  StepPrediction step;
  ck_assert_ptr_null(predict(&drawn.model, drawn.cluster, drawn.plan, &expected));
  ck_assert(!predict_step(NULL, &drawn.model, drawn.cluster, drawn.plan, &step, &found));
  ck_assert_str_eq(found->message, expected->message);
  ck_assert_int_eq(found->code, expected->code);
}

/* --- lists of more micro-batches --- */

static Program *lower_of(const Case *drawn, gint64 n_micro_batches, Workload **workload) {
  g_autoptr(Plan) plan = plan_copy(drawn->plan);
  g_autoptr(GError) error = NULL;
  plan->global_batch = n_micro_batches * plan->micro_batch * plan->dp;
  *workload = workload_complete(&drawn->model, drawn->cluster, plan, &error);
  ck_assert_msg(*workload != NULL, "%s", error ? error->message : "");
  g_autoptr(Order) order = method_order((*workload)->method, &error);
  const Lowering lowering = {.order = order, .workload = *workload, .n_steps = 1};
  Program *program = lower(&lowering, NULL, NULL, &error);
  ck_assert_msg(program != NULL, "%s", error ? error->message : "");
  return program;
}

/* Op `i` of the shorter list, `over` groups on in the longer: what it names there is as far on, if it repeats or comes
 * behind. */
static gboolean is_op_of_longer(const Program *shorter, const Program *longer, const ProgramRepeats *repeats, int rank,
                                gint32 i, int over) {
  const RepeatedOps *own = program_repeats_of(repeats, rank, 0);
  const Op *a = &shorter->ranks[rank].ops[i], *b = &longer->ranks[rank].ops[i + over * own->n_ops];
  if (a->kind != b->kind || a->stream != b->stream || a->action != b->action || a->stage != b->stage ||
      a->peer != b->peer || a->unit != b->unit || (a->batch < 0) != (b->batch < 0))
    return FALSE;
  if (a->micro_batch >= 0 && b->micro_batch != a->micro_batch + over * repeats->n_micro_batches)
    return FALSE;
  const gboolean repeats_itself = i >= own->first && i < own->end + own->n_ops;
  for (int k = 0; k < OP_MAX_AFTER; k++) {
    const gboolean is_on = a->after[k] >= own->first || (a->after[k] >= 0 && repeats_itself);
    if (b->after[k] != a->after[k] + (is_on ? over * own->n_ops : 0))
      return FALSE;
  }
  return TRUE;
}

static void assert_lists_grow(const Case *drawn, const Program *shorter, const Program *longer, int group) {
  g_autoptr(ProgramRepeats) repeats = program_repeats_new(shorter, group);
  CASE_ASSERT(drawn, repeats != NULL, "nothing repeats");
  for (int rank = 0; rank < shorter->n_ranks; rank++) {
    const RepeatedOps *own = program_repeats_of(repeats, rank, 0);
    const gint32 n_ops = shorter->ranks[rank].n_ops, end = own->end + own->n_ops;
    ck_assert_int_eq(longer->ranks[rank].n_ops, n_ops + 2 * own->n_ops);
    for (gint32 i = 0; i < end; i++)
      CASE_ASSERT(drawn, is_op_of_longer(shorter, longer, repeats, rank, i, 0),
                  "rank %d, op %d before the end of what repeats", rank, i);
    for (gint32 i = own->first; i < n_ops; i++)
      CASE_ASSERT(drawn, is_op_of_longer(shorter, longer, repeats, rank, i, 2), "rank %d, op %d two groups on", rank,
                  i);
  }
}

/* As they are lowered, and expanded. FALSE: nothing repeats, and all micro-batches are run. */
static gboolean assert_programs_grow(const Case *drawn, int group, int n_groups) {
  g_autoptr(Workload) few = NULL, many = NULL;
  g_autoptr(Program) shorter = lower_of(drawn, (gint64)group * n_groups, &few);
  g_autoptr(ProgramRepeats) repeats = program_repeats_new(shorter, group);
  if (repeats == NULL)
    return FALSE;
  g_autoptr(Program) longer = lower_of(drawn, (gint64)group * (n_groups + 2), &many);
  assert_lists_grow(drawn, shorter, longer, group);
  g_autoptr(Program) expanded = program_expand(shorter, few);
  g_autoptr(Program) longer_expanded = program_expand(longer, many);
  assert_lists_grow(drawn, expanded, longer_expanded, group);
  return TRUE;
}

TEST(lists_of_more_micro_batches_have_what_repeats_once_more) {
  int n_repeat = 0;
  for (guint seed = 0; seed < 150; seed++) {
    g_auto(Case) drawn = long_case(seed);
    const Plan *plan = drawn.plan;
    n_repeat += plan->chunks > 1 ? assert_programs_grow(&drawn, plan->pp, 4)
                                 : assert_programs_grow(&drawn, 1, (seed % 2 ? 3 : 1) * plan->pp + 3);
  }
  ck_assert_int_ge(n_repeat, 148); /* not where ZeRO-3 overlaps on stages of few layers */
}

/* 1f1b of 2 stages, rank 0: F0, then F B in turn. A group has F, B, the send of one and the receive of the other. */
TEST(a_group_of_1f1b_is_a_forward_and_a_backward) {
  g_auto(Case) drawn = {llama, case_clusters()[0], plan_said("--pp 2 --overlap-p2p on")};
  g_autoptr(Workload) workload = NULL;
  g_autoptr(Program) program = lower_of(&drawn, 8, &workload);
  g_autoptr(ProgramRepeats) repeats = program_repeats_new(program, 1);
  ck_assert_ptr_nonnull(repeats);
  for (int rank = 0; rank < 2; rank++)
    ck_assert_int_eq(program_repeats_of(repeats, rank, 0)->n_ops, 4);
  ck_assert_ptr_null(program_repeats_new(program, 7)); /* no two groups of seven in eight */
}

int main(int argc, char **argv) {
  if (argc > 1)
    n_plans = atoi(argv[1]);
  return run_tests();
}
