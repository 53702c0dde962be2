#include "error.h"
#include "plan_with.h"
#include "run_suite.h"
#include "state_memory.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static Recipe recipe_of(const char *text) {
  Recipe recipe;
  ck_assert_msg(recipe_parse(text, &recipe, NULL), "%s", text);
  return recipe;
}

static double total(const char *recipe_text, double parameters, int zero, int shards) {
  const Recipe recipe = recipe_of(recipe_text);
  const StateBytes state = state_memory(&recipe, parameters, zero, shards);
  return state_memory_total(&state);
}

TEST(each_zero_stage_divides_one_part_more) {
  const Recipe recipe = recipe_of("w2+g2+p4+m4+v4");
  /* 64 parameters over 4 shards: weights 128 B, gradients 128 B, optimizer 12·64 = 768 B, each whole or a quarter. */
  const double expected[4][3] = {{128, 128, 768}, {128, 128, 192}, {128, 32, 192}, {32, 32, 192}};
  for (int zero = 0; zero <= 3; zero++) {
    const StateBytes state = state_memory(&recipe, 64, zero, 4);
    ck_assert_double_eq(state.weights_bytes, expected[zero][0]);
    ck_assert_double_eq(state.gradients_bytes, expected[zero][1]);
    ck_assert_double_eq(state.optimizer_bytes, expected[zero][2]);
  }
}

TEST(one_shard_is_the_same_at_every_stage) {
  for (int zero = 0; zero <= 3; zero++)
    ck_assert_double_eq(total("bf16+master", 1e9, zero, 1), 16e9);
}

TEST(megatron_distributed_optimizer_holds_6_plus_12_over_d) {
  /* bf16 weights 2 + fp32 main gradient 4 stay, fp32 master and two moments 12 are divided. */
  ck_assert_double_eq_tol(total("megatron", 1e6, 1, 8), (6 + 12.0 / 8) * 1e6, 1e-3);
  ck_assert_double_eq(total("megatron", 1e6, 0, 8), 18e6);
}

TEST(largest_model_fills_the_capacity_exactly) {
  const Recipe recipe = recipe_of("w2+g2+p4+m4+v4");
  for (int zero = 0; zero <= 3; zero++) {
    const double largest = state_memory_max_parameters(&recipe, 8, zero, 16, 80e9);
    const StateBytes state = state_memory(&recipe, largest / 8, zero, 16);
    ck_assert_double_eq_tol(state_memory_total(&state), 80e9, 1);
  }
}

TEST(state_that_fits_exactly_needs_no_further_gpu) {
  const Recipe recipe = recipe_of("w2+g2+p4+m4+v4");
  /* 16 B × 5e9 = 80 GB: one GPU. One parameter more: two. Nothing still needs a GPU. */
  ck_assert_double_eq(state_memory_min_gpus(&recipe, 5e9, 80e9), 1);
  ck_assert_double_eq(state_memory_min_gpus(&recipe, 5e9 + 1, 80e9), 2);
  ck_assert_double_eq(state_memory_min_gpus(&recipe, 0, 80e9), 1);
}

static double sent_of(const char *given, int zero) {
  g_autoptr(Plan) plan = plan_with(given);
  g_autoptr(Method) method = method_complete(NULL, NULL, plan, NULL);
  return rank_state(method, &(HeldParameters){.trained = 8e9}, zero).sent_bytes;
}

/* 16 GB of weights and as much of gradients, of which a reduce-scatter or an all-gather over 8 sends 14. */
TEST(sharded_ranks_send_for_every_micro_batch) {
  const char *plan = "dp=8 global-batch=32"; /* four micro-batches */
  ck_assert_double_eq(sent_of(plan, 0), 28e9);
  ck_assert_double_eq(sent_of(plan, 1), 28e9);
  ck_assert_double_eq(sent_of(plan, 2), 4 * 14e9 + 14e9);
  ck_assert_double_eq(sent_of(plan, 3), 4 * 14e9 + 8 * 14e9);
  /* shards of 4 ranks: 12 each way, then the shard's 4 GB of gradients between two: 2 · 1/2 · 4 */
  ck_assert_double_eq(sent_of("dp=8 zero-ranks=4 zero=1", 1), 12e9 + 4e9 + 12e9);
}

/* "params=7e9 dp=64 zero=1" → the number after "zero=", or `otherwise`. */
static double input(const char *inputs, const char *key, double otherwise) {
  g_auto(GStrv) parts = g_strsplit(inputs, " ", -1);
  for (int i = 0; parts[i] != NULL; i++)
    if (g_str_has_prefix(parts[i], key) && parts[i][strlen(key)] == '=')
      return g_ascii_strtod(parts[i] + strlen(key) + 1, NULL);
  return otherwise;
}

static double figure(const char *inputs, const char *convention, const char *unit) {
  const Recipe recipe = recipe_of(convention);
  const double parameters = input(inputs, "params", 0),
               model_parallel = input(inputs, "tp", 1) * input(inputs, "pp", 1);
  const int shards = (int)input(inputs, "dp", input(inputs, "shards", 1));
  const int zero = (int)input(inputs, "zero", shards > 1 ? 3 : 0);
  if (strcmp(unit, "GPUs") == 0)
    return state_memory_min_gpus(&recipe, parameters, 80e9);
  if (strcmp(unit, "params") == 0)
    return state_memory_max_parameters(&recipe, (int)model_parallel, zero, shards, input(inputs, "hbm", 0));
  const StateBytes state = state_memory(&recipe, parameters / model_parallel, zero, shards);
  return state_memory_total(&state) / 1e9;
}

enum { ID, QUANTITY = 2, INPUTS, CONVENTION, STATED, UNIT, VERDICT, CORRECT, N_COLUMNS };

/* A row with several values ("140/70/35/17.5") varies dp as its quantity says ("N=8/16/32/64"). */
static void check_figure(char **column) {
  g_auto(GStrv) correct = g_strsplit(column[CORRECT], "/", -1);
  const char *varied = strstr(column[QUANTITY], "N=");
  g_auto(GStrv) sizes = g_strsplit(varied == NULL ? "" : varied + 2, "/", -1);
  const gboolean several = correct[1] != NULL;
  for (int i = 0; correct[i] != NULL; i++) {
    g_autofree char *inputs =
        several ? g_strdup_printf("%s dp=%s", column[INPUTS], sizes[i]) : g_strdup(column[INPUTS]);
    const double expected = g_ascii_strtod(correct[i], NULL), found = figure(inputs, column[CONVENTION], column[UNIT]);
    /* printed with four digits */
    ck_assert_msg(ABS(found / expected - 1) < 5e-4, "%s: found %g, expected %g", column[ID], found, expected);
    if (strcmp(column[VERDICT], "erratum") == 0)
      ck_assert_double_gt(ABS(found / g_ascii_strtod(column[STATED], NULL) - 1), 0.01);
  }
}

TEST(every_memory_figure_of_the_seed_documents_comes_out) {
  g_autofree char *file = g_build_filename(g_getenv("STEPSIM_SHARED") ? g_getenv("STEPSIM_SHARED") : "", "reference",
                                           "seed_figures.csv", NULL);
  g_autofree char *text = NULL;
  if (!g_file_get_contents(file, &text, NULL, NULL))
    return; /* the figures are not part of the source tree */
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  int n_checked = 0;
  for (int i = 0; lines[i] != NULL; i++) {
    g_auto(GStrv) column = g_strsplit(lines[i], ",", -1);
    if (lines[i][0] != 'm' || !g_ascii_isdigit(lines[i][1]))
      continue;
    ck_assert_int_gt(g_strv_length(column), CORRECT);
    check_figure(column);
    n_checked++;
  }
  ck_assert_int_ge(n_checked, 26);
}

int main(void) {
  return run_tests();
}
