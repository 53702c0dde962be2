/* Programs from a cache equal those lowered from the plan, whatever was cached before. */
#include <check.h>
#include <string.h>

#include "passes.h"
#include "program_cache.h"
#include "run_suite.h"
#include "small_workloads.h"

typedef struct {
  const char *schedule;
  int tp, pp, dp, chunks, n_micro_batches, zero, steps;
  gint64 seq_len;
  FrameworkWeights weights;
  double live_parameters;   /* ZeRO-3 that moves tensors; 0: it does not */
  gint64 bucket_parameters; /* 0: a million */
} Case;

/* Pairs of one structure, one after the other, and structures that differ in one thing. */
static const Case cases[] = {
    {"1f1b", 1, 4, 2, 1, 8, 1, 1, 512},
    {"1f1b", 2, 4, 2, 1, 8, 1, 1, 256},
    {"1f1b", 2, 4, 2, 1, 8, 0, 1, 256},
    {"1f1b", 2, 4, 1, 1, 8, 1, 1, 256},
    {"gpipe", 1, 4, 2, 1, 8, 1, 1, 512},
    {"interleaved", 1, 2, 2, 2, 6, 2, 1, 512},
    {"interleaved", 1, 2, 4, 2, 6, 2, 1, 256},
    {"1f1b", 1, 1, 4, 1, 3, 3, 2, 512},
    {"1f1b", 1, 1, 4, 1, 3, 3, 2, 1024},
    {"zb-v", 1, 2, 2, 2, 6, 1, 3, 512},
    {"zb-v", 2, 2, 2, 2, 6, 1, 3, 512},
    {"dualpipe", 1, 2, 2, 2, 6, 1, 1, 512},
    {"dualpipe", 2, 2, 2, 2, 6, 1, 1, 256},
    {"zb-h1", 1, 4, 2, 1, 8, 0, 3, 512},
    {"1f1b", 1, 2, 2, 1, 8, 1, 1, 512, WEIGHTS_BROADCAST},
    {"1f1b", 1, 2, 2, 1, 8, 1, 1, 256, WEIGHTS_BROADCAST},
    {"1f1b", 1, 2, 64, 1, 8, 1, 1, 256, WEIGHTS_BROADCAST},
    {"1f1b", 1, 1, 4, 1, 3, 3, 2, 512, .live_parameters = 1},
    {"1f1b", 1, 1, 4, 1, 3, 3, 2, 256, .live_parameters = 1},
    {"1f1b", 1, 1, 4, 1, 3, 3, 2, 256, .live_parameters = 1e12},
    {"gpipe", 1, 4, 2, 1, 8, 1, 1, 512, .bucket_parameters = 1000000000},
};

static Workload *workload_of_case(const Case *c, PlanOrder *choice) {
  g_autoptr(Plan) plan = plan_new();
  g_autoptr(GError) error = NULL;
  g_free(plan->schedule);
  plan->schedule = g_strdup(c->schedule);
  plan->tp = c->tp;
  plan->pp = c->pp;
  plan->dp = c->dp;
  plan->chunks = c->chunks;
  plan->zero = c->zero;
  plan->steps = c->steps;
  plan->seq_len = c->seq_len;
  plan->sequence_parallel = c->tp > 1;
  plan->time.weights = (int)c->weights;
  plan->time.zero3_tensors = c->live_parameters > 0;
  plan->time.zero3_live_parameters = c->live_parameters;
  plan->bucket_parameters = c->bucket_parameters > 0 ? c->bucket_parameters : 1000000;
  plan->global_batch = (gint64)c->n_micro_batches * c->dp;
  Workload *workload = plan_order_workload(choice, &gpt, NULL, plan, &error);
  ck_assert_msg(workload != NULL, "%s: %s", c->schedule, error != NULL ? error->message : "");
  return workload;
}

static gboolean same_sizes(const Program *a, const Program *b, const Op *x, const Op *y) {
  const Effect *e = &g_array_index(a->effects, Effect, x->effect), *f = &g_array_index(b->effects, Effect, y->effect);
  if (memcmp(e, f, sizeof *e) != 0)
    return FALSE;
  if (x->kind == OP_HOST)
    return TRUE;
  if (x->kind == OP_COMPUTE) {
    const Work *u = &g_array_index(a->works, Work, x->work), *v = &g_array_index(b->works, Work, y->work);
    return u->phase == v->phase && u->n_layers == v->n_layers && u->n_embedding == v->n_embedding &&
           u->n_head == v->n_head && u->flops == v->flops && u->parameters == v->parameters;
  }
  const Transfer *u = &g_array_index(a->transfers, Transfer, x->work),
                 *v = &g_array_index(b->transfers, Transfer, y->work);
  return u->group == v->group && u->source == v->source && u->target == v->target && u->collective == v->collective &&
         u->bytes == v->bytes && u->n_layers == v->n_layers && u->n_tables == v->n_tables && u->n_calls == v->n_calls;
}

/* All but the numbers of table entries. */
static gboolean same_op(const Op *x, const Op *y) {
  Op a = *x, b = *y;
  a.work = b.work = a.effect = b.effect = 0;
  return memcmp(&a, &b, sizeof a) == 0;
}

static void assert_same(const Program *a, const Program *b) {
  ck_assert_int_eq(a->n_ranks, b->n_ranks);
  ck_assert_int_eq(a->n_steps, b->n_steps);
  for (int rank = 0; rank < a->n_ranks; rank++) {
    ck_assert_int_eq(a->ranks[rank].n_ops, b->ranks[rank].n_ops);
    ck_assert_mem_eq(a->ranks[rank].resident, b->ranks[rank].resident, sizeof a->ranks[rank].resident);
    for (int i = 0; i < a->ranks[rank].n_ops; i++) {
      const Op *x = &a->ranks[rank].ops[i], *y = &b->ranks[rank].ops[i];
      if (!same_op(x, y) || !same_sizes(a, b, x, y))
        ck_abort_msg("rank %d, op %d", rank, i);
    }
  }
}

/* Through a cache, which may have made one of `n_fewer` micro-batches longer, and lowered. */
static void assert_as_lowered(ProgramCache *cache, const Case *c, int n_fewer) {
  g_auto(PlanOrder) choice = {0};
  g_autoptr(GError) error = NULL;
  g_autoptr(Workload) workload = workload_of_case(c, &choice);
  g_autoptr(Order) order = plan_order_make(&choice, workload->plan, &error);
  const Lowering lowering = {.order = order, .workload = workload, .n_steps = workload->plan->steps};
  g_autoptr(Program) lowered = lower(&lowering, NULL, NULL, &error);
  g_assert_no_error(error);
  g_autoptr(Program) program = program_cache_lower(cache, &choice, workload, n_fewer, &error);
  g_assert_no_error(error);
  ck_assert_int_eq(program->n_micro_batches, c->n_micro_batches);
  assert_same(program, lowered);
}

START_TEST(programs_from_a_cache_are_as_lowered) {
  g_autoptr(ProgramCache) cache = program_cache_new(1 << 20);
  for (int round = 0; round < 2; round++)
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
      assert_as_lowered(cache, &cases[i], cases[i].n_micro_batches);
  /* the second round finds all; in the first the second interleaved, the second ZeRO-3, with and without tensors, and
   * the second broadcast find the one before, while tp 2 beside tp 1 (with sequence parallelism) adds the sum of whole
   * gradients */
  ck_assert_uint_eq(program_cache_stats(cache).n_lent, G_N_ELEMENTS(cases) + 4);
  ck_assert_uint_eq(program_cache_stats(cache).n_lowered, G_N_ELEMENTS(cases) - 4);
}
END_TEST

/* A group of 1f1b is one micro-batch, of interleaved chunks pp of them. */
static void make_longer(ProgramCache *cache, Case c, int pp) {
  const int group = c.chunks > 1 ? pp : 1, n_fewer = 5 * pp;
  c.pp = pp;
  c.n_micro_batches = n_fewer;
  assert_as_lowered(cache, &c, n_fewer);
  for (int n_more = 1; n_more <= 17; n_more += 8) {
    const guint64 n_before = program_cache_stats(cache).n_longer;
    c.n_micro_batches = n_fewer + n_more * group;
    assert_as_lowered(cache, &c, n_fewer);
    ck_assert_uint_eq(program_cache_stats(cache).n_longer, n_before + 1);
  }
}

START_TEST(a_program_of_fewer_micro_batches_is_made_longer) {
  static const Case longer[] = {
      {"1f1b", 1, 0, 1, 1, 0, 0, 1, 512},
      {"1f1b", 2, 0, 2, 1, 0, 0, 1, 512},
      {"1f1b", 1, 0, 4, 1, 0, 1, 1, 512},
      {"1f1b", 1, 0, 4, 1, 0, 2, 1, 512},
      {"1f1b", 1, 0, 4, 1, 0, 3, 1, 512},
      {"1f1b", 1, 0, 4, 1, 0, 3, 1, 512, .live_parameters = 1},
      {"1f1b", 1, 0, 4, 1, 0, 3, 1, 512, .live_parameters = 1e12},
      {"1f1b", 1, 0, 4, 1, 0, 2, 1, 512, .bucket_parameters = 1000000000},
      {"1f1b", 1, 0, 2, 1, 0, 1, 1, 512, WEIGHTS_BROADCAST},
      {"interleaved", 1, 0, 2, 2, 0, 1, 1, 512},
      {"interleaved", 1, 0, 4, 2, 0, 2, 1, 512},
      {"interleaved", 1, 0, 4, 2, 0, 3, 1, 512},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(longer); i++)
    for (int pp = longer[i].chunks; pp <= 4; pp++) {
      g_autoptr(ProgramCache) cache = program_cache_new(1 << 20);
      make_longer(cache, longer[i], pp);
    }
}
END_TEST

/* As few as a prediction tries first: a single bucket then waits for the one two micro-batches before it in the last
 * micro-batch alone, which a list of more must not leave out. */
START_TEST(few_micro_batches_do_not_tell_more_than_they_show) {
  static const Case fewest[] = {
      {"1f1b", 1, 0, 4, 1, 0, 2, 1, 512},
      {"1f1b", 1, 0, 4, 1, 0, 2, 1, 512, .bucket_parameters = 1000000000},
      {"1f1b", 1, 0, 4, 1, 0, 3, 1, 512, .bucket_parameters = 1000000000},
      {"interleaved", 1, 0, 4, 2, 0, 2, 1, 512, .bucket_parameters = 1000000000},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(fewest); i++)
    for (int pp = fewest[i].chunks; pp <= 4; pp++) {
      g_autoptr(ProgramCache) cache = program_cache_new(1 << 20);
      Case c = fewest[i];
      const int n_fewer = c.chunks > 1 ? 4 * pp : pp + 2;
      c.pp = pp;
      for (int n = n_fewer; n <= n_fewer + 4 * pp; n += pp) {
        c.n_micro_batches = n;
        assert_as_lowered(cache, &c, n_fewer);
      }
    }
}
END_TEST

/* One step does not tell how several are chained, nor whole groups of what is over. */
START_TEST(a_program_is_lowered_where_none_of_fewer_micro_batches_tells) {
  g_autoptr(ProgramCache) cache = program_cache_new(1 << 20);
  const Case few = {"1f1b", 1, 2, 2, 1, 10, 1, 2, 512}, more = {"1f1b", 1, 2, 2, 1, 20, 1, 2, 512};
  const Case uneven = {"interleaved", 1, 4, 2, 2, 20, 1, 1, 512}, longer = {"interleaved", 1, 4, 2, 2, 27, 1, 1, 512};
  assert_as_lowered(cache, &few, 10);
  assert_as_lowered(cache, &more, 10);
  assert_as_lowered(cache, &uneven, 20);
  assert_as_lowered(cache, &longer, 20);
  ck_assert_uint_eq(program_cache_stats(cache).n_lowered, 4);
  ck_assert_uint_eq(program_cache_stats(cache).n_longer, 0);
}
END_TEST

START_TEST(a_cache_without_room_lowers_each_plan) {
  g_autoptr(ProgramCache) cache = program_cache_new(1);
  for (gsize i = 0; i < 5; i++)
    assert_as_lowered(cache, &cases[i], cases[i].n_micro_batches);
  ck_assert_uint_eq(program_cache_stats(cache).n_lent, 0);
  ck_assert_uint_eq(program_cache_stats(cache).n_lowered, 5);
}
END_TEST

START_TEST(a_program_outlives_its_cache) {
  g_auto(PlanOrder) choice = {0};
  g_autoptr(Workload) workload = workload_of_case(&cases[0], &choice);
  ProgramCache *cache = program_cache_new(1 << 20);
  g_autoptr(Program) program = program_cache_lower(cache, &choice, workload, workload->plan->n_micro_batches, NULL);
  program_cache_free(cache);
  g_autoptr(Order) order = plan_order_make(&choice, workload->plan, NULL);
  const Lowering lowering = {.order = order, .workload = workload, .n_steps = 1};
  g_autoptr(Program) lowered = lower(&lowering, NULL, NULL, NULL);
  assert_same(program, lowered);
}
END_TEST

/* What its first step was proved with stands for all steps. */
START_TEST(partners_are_those_of_the_whole_program) {
  g_autoptr(ProgramCache) cache = program_cache_new(1 << 20);
  g_auto(PlanOrder) choice = {0};
  g_autoptr(Workload) workload = workload_of_case(&cases[_i], &choice);
  g_autoptr(Program) program = program_cache_lower(cache, &choice, workload, workload->plan->n_micro_batches, NULL);
  gint32 **match;
  ck_assert(program_match(program, &match, NULL));
  for (int rank = 0; rank < program->n_ranks; rank++)
    ck_assert_mem_eq(program->shared->match[rank], match[rank], sizeof(gint32) * (gsize)program->ranks[rank].n_ops);
  program_match_free(program, match);
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("program_cache");
  tcase_add_test(tcase, programs_from_a_cache_are_as_lowered);
  tcase_add_test(tcase, a_program_of_fewer_micro_batches_is_made_longer);
  tcase_add_test(tcase, few_micro_batches_do_not_tell_more_than_they_show);
  tcase_add_test(tcase, a_program_is_lowered_where_none_of_fewer_micro_batches_tells);
  tcase_add_test(tcase, a_cache_without_room_lowers_each_plan);
  tcase_add_test(tcase, a_program_outlives_its_cache);
  tcase_add_loop_test(tcase, partners_are_those_of_the_whole_program, 0, G_N_ELEMENTS(cases));
  return run_case("program_cache", tcase);
}
