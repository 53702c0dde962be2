/* What a scratch keeps between predictions changes none of them: over random plans, and similar ones of other sizes,
 * the report has the same bytes as without a scratch, and the trace the same records.
 *
 * `test_predict_scratch N` draws N batches of plans instead of the suite's few. */
#include "error.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "json_report.h"
#include "plan_cases.h"
#include "predict_parts.h"
#include "step_of_prediction.h"
#include "verify.h"

enum { BATCHES = 12, PLANS_PER_BATCH = 25, LIKENESSES = 3, MAX_GPUS = 4096 };

static Cluster *clusters[N_CASE_CLUSTERS];
static GStrv shipped_frameworks; /* of all that are shipped */
static GArray *frameworks;       /* of Framework, the same */

static void read_frameworks(void) {
  shipped_frameworks = framework_names();
  frameworks = g_array_new(FALSE, FALSE, sizeof(Framework));
  for (char **name = shipped_frameworks; *name != NULL; name++) {
    g_autoptr(GError) error = NULL;
    Framework framework;
    ck_assert_msg(framework_read(*name, &framework, &error), "%s", error ? error->message : "");
    g_array_append_val(frameworks, framework);
  }
}

static void set_up(void) {
  read_case_clusters(clusters);
  read_frameworks();
}

static void tear_down(void) {
  free_case_clusters(clusters);
  g_strfreev(shipped_frameworks);
  g_array_unref(frameworks);
}

static char *json_of(const Prediction *prediction) {
  g_autofree int *in_flight = g_new(int, prediction->program->n_ranks);
  StepReport report = step_of_prediction(prediction, in_flight);
  report.wall_s = 0; /* of the wall clock */
  return json_report_step(&report);
}

/* What is known of a step that was run with fewer micro-batches as well. */
static char *row_of(const Prediction *prediction) {
  StepReport report = step_of_prediction(prediction, NULL);
  report.wall_s = 0;
  return json_report_step(&report);
}

static gboolean same_values(const Prediction *a, const Prediction *b, int rank, int i) {
  const Program *p = a->program, *q = b->program;
  const Op *x = &p->ranks[rank].ops[i], *y = &q->ranks[rank].ops[i];
  if (memcmp(&g_array_index(p->effects, Effect, x->effect), &g_array_index(q->effects, Effect, y->effect),
             sizeof(Effect)) != 0)
    return FALSE;
  if (x->kind == OP_HOST)
    return TRUE;
  if (x->kind != OP_COMPUTE)
    return g_array_index(p->transfers, Transfer, x->work).bytes == g_array_index(q->transfers, Transfer, y->work).bytes;
  const Work *u = &g_array_index(p->works, Work, x->work), *v = &g_array_index(q->works, Work, y->work);
  return u->flops == v->flops && u->parameters == v->parameters;
}

static gboolean same_records(const Prediction *a, const Prediction *b) {
  const Trace *x = a->trace, *y = b->trace;
  gsize n = x->first[x->n_ranks], bytes = n * sizeof(gint64);
  if (x->n_ranks != y->n_ranks || n != y->first[y->n_ranks] || memcmp(x->start_ns, y->start_ns, bytes) != 0 ||
      memcmp(x->end_ns, y->end_ns, bytes) != 0 || memcmp(x->issue_ns, y->issue_ns, bytes) != 0)
    return FALSE;
  for (int rank = 0; rank < a->program->n_ranks; rank++)
    for (int i = 0; i < a->program->ranks[rank].n_ops; i++)
      if (!same_values(a, b, rank, i))
        return FALSE;
  return TRUE;
}

/* Without a prediction, with the same error. */
static void assert_same(PredictScratch *scratch, const Case *drawn) {
  g_autoptr(GError) error_alone = NULL, error = NULL;
  g_autoptr(Prediction) alone = predict(&drawn->model, drawn->cluster, drawn->plan, &error_alone);
  g_autoptr(Prediction) with = predict_with(scratch, &drawn->model, drawn->cluster, drawn->plan, &error);
  g_autofree char *text = case_text(drawn);
  ck_assert_msg((alone != NULL) == (with != NULL), "%s\nalone: %s, with a scratch: %s", text,
                alone != NULL ? "done" : error_alone->message, with != NULL ? "done" : error->message);
  if (alone == NULL) {
    ck_assert_str_eq(error_alone->message, error->message);
    return;
  }
  ck_assert_msg(program_verify(alone->program, &error), "%s\n%s", text, error != NULL ? error->message : "");
  g_autofree char *expected = json_of(alone), *found = json_of(with);
  ck_assert_msg(strcmp(expected, found) == 0, "%s\nalone:\n%s\nwith a scratch:\n%s", text, expected, found);
  ck_assert_msg(same_records(alone, with), "%s\nother records", text);
  g_autofree char *row = row_of(alone);
  for (int i = 0; i < 2; i++) { /* made, unless one before was like it, and made no more */
    g_autoptr(Prediction) numbers = predict_numbers(scratch, &drawn->model, drawn->cluster, drawn->plan, NULL);
    g_autofree char *counted = row_of(numbers);
    ck_assert_msg(strcmp(row, counted) == 0, "%s\nalone:\n%s\nin numbers:\n%s", text, row, counted);
    const gboolean is_fewer = numbers->omitted != NULL || numbers->program->n_steps < alone->program->n_steps;
    ck_assert_msg(is_fewer || same_records(alone, numbers), "%s\nother records in numbers", text);
  }
}

static void set_framework(GRand *rand, Plan *plan) {
  int i = g_rand_int_range(rand, 0, (gint32)frameworks->len);
  run_under(plan, shipped_frameworks[i], &g_array_index(frameworks, Framework, i));
  if (coin(rand))
    plan->overlap_p2p = -1; /* as the framework and the schedule have it */
}

static void draw_framework(GRand *rand, Case *drawn) {
  Plan *plan = plan_copy(drawn->plan);
  set_framework(rand, plan);
  take_if_possible(drawn, plan);
}

/* Sequences cut over some of the ranks of dp, or over more. */
static void draw_context(GRand *rand, Case *drawn) {
  Plan *plan = plan_copy(drawn->plan);
  plan->cp = PICK(rand, 2, 2, 4);
  plan->cp_comm = (CpComm)g_rand_int_range(rand, 0, N_CP_COMMS);
  plan->dp = PICK(rand, plan->dp, 1, 2);
  plan->gpus = 0;
  plan->zero_ranks = PICK(rand, 0, 0, 4);
  plan->global_batch = plan->micro_batch * plan->dp * PICK(rand, 1, 2, 5);
  take_if_possible(drawn, plan);
}

/* Other sizes, often of the same structure: the case's own tables must not show. */
static void change_sizes(GRand *rand, Case *drawn) {
  Plan *plan = drawn->plan;
  plan->seq_len = PICK(rand, 64, 256, 1024, 2048);
  plan->recompute = (Recompute)g_rand_int_range(rand, 0, N_RECOMPUTES);
  plan->attention = (Attention)g_rand_int_range(rand, 0, N_ATTENTIONS);
  recipe_parse(recipe_names()[g_rand_int_range(rand, 0, 3)], &plan->recipe, NULL);
  plan->gpus = 0;
  plan->tp = PICK(rand, plan->tp, plan->tp, 1, 2, 4);
  drawn->model.tied ^= g_rand_int_range(rand, 0, 4) == 0;
  drawn->model.ffn_hidden *= PICK(rand, 1, 1, 2);
}

/* One thing that ops may depend on. */
static void change_structure(GRand *rand, Case *drawn) {
  Plan *plan = drawn->plan;
  switch (g_rand_int_range(rand, 0, 13)) {
  case 0:
    plan->zero = g_rand_int_range(rand, 0, 4);
    plan->zero_ranks = 0;
    break;
  case 1:
    plan->overlap_p2p = !plan->overlap_p2p;
    break;
  case 2:
    plan->overlap_grad = !plan->overlap_grad;
    break;
  case 3:
    plan->overlap_param = !plan->overlap_param;
    break;
  case 4:
    plan->prefetch = g_rand_int_range(rand, 0, 4);
    break;
  case 5:
    plan->grad_norm_barrier = !plan->grad_norm_barrier;
    break;
  case 6:
    plan->bucket_parameters = PICK(rand, 1, 10000000, 30000000);
    break;
  case 7:
    plan->steps = PICK(rand, 1, 2, 3);
    break;
  case 8:
    plan->sequence_parallel = !plan->sequence_parallel;
    break;
  case 9:
    set_framework(rand, plan);
    break;
  case 10:
    plan->cp = PICK(rand, 1, 2, 4);
    plan->gpus = plan->zero_ranks = 0;
    break;
  case 11:
    plan->group = PICK(rand, 0, 1, plan->pp + 1);
    break;
  default:
    plan->global_batch += plan->micro_batch * plan->dp;
  }
}

/* A plan that cannot be: more tp than anything has heads. */
static void assert_same_failure(PredictScratch *scratch, const Case *drawn) {
  Case impossible = *drawn;
  g_autoptr(Plan) plan = plan_copy(drawn->plan);
  plan->tp = 7;
  plan->gpus = 0;
  impossible.plan = plan;
  assert_same(scratch, &impossible);
}

START_TEST(predictions_do_not_depend_on_the_ones_before) {
  g_autoptr(PredictScratch) scratch = predict_scratch_new(1);
  for (guint seed = 0; seed < PLANS_PER_BATCH; seed++) {
    guint number = (guint)_i * PLANS_PER_BATCH + seed;
    g_autoptr(GRand) rand = g_rand_new_with_seed(number);
    g_auto(Case) drawn = random_case(number, clusters, MAX_GPUS);
    draw_schedule(rand, &drawn);
    if (coin(rand))
      draw_framework(rand, &drawn);
    if (seed % 3 == 0)
      draw_context(rand, &drawn);
    assert_same(scratch, &drawn);
    for (int i = 0; i < LIKENESSES; i++) {
      change_sizes(rand, &drawn);
      assert_same(scratch, &drawn);
      change_structure(rand, &drawn);
      assert_same(scratch, &drawn);
    }
    if (seed % 5 == 0)
      assert_same_failure(scratch, &drawn);
  }
  ck_assert_uint_gt(predict_scratch_programs(scratch).n_lent, PLANS_PER_BATCH / 2);
}
END_TEST

/* Hosts so slow that the clock leaves a transfer that has begun at one end alone: on the other rank's record it ends,
 * and the ways it takes then must count (interleaved exchanges beside gathers and reductions of ZeRO-3). */
START_TEST(transfers_begun_at_one_end_meet_others) {
  g_autoptr(PredictScratch) scratch = predict_scratch_new(1);
  g_autoptr(Plan) plan = plan_new();
  for (guint i = 0; i < frameworks->len; i++)
    if (strcmp(shipped_frameworks[i], "pytorch-fsdp") == 0)
      run_under(plan, shipped_frameworks[i], &g_array_index(frameworks, Framework, i));
  plan->pp = plan->chunks = plan->zero_ranks = plan->prefetch = 2;
  plan->dp = 8;
  plan->schedule = g_strdup("interleaved");
  plan->global_batch = 48;
  plan->seq_len = 1024;
  plan->zero = 3;
  plan->bucket_parameters = 10000000;
  plan->grad_norm_barrier = FALSE;
  plan->steps = 1;
  plan->recompute = RECOMPUTE_FULL;
  plan->attention = ATTENTION_UNFUSED;
  ck_assert(recipe_parse("no-master", &plan->recipe, NULL));
  Case drawn = {.model = gpt, .cluster = clusters[N_CASE_CLUSTERS - 1], .plan = plan};
  drawn.model.n_layers = 6;
  drawn.model.tied = TRUE;
  assert_same(scratch, &drawn);
}
END_TEST

int main(int argc, char **argv) {
  TCase *tcase = tcase_create("scratch");
  tcase_add_checked_fixture(tcase, set_up, tear_down);
  tcase_set_timeout(tcase, 3600);
  tcase_add_loop_test(tcase, predictions_do_not_depend_on_the_ones_before, 0, argc > 1 ? atoi(argv[1]) : BATCHES);
  tcase_add_test(tcase, transfers_begun_at_one_end_meet_others);
  return run_case("predict_scratch", tcase);
}
