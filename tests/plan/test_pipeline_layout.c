#include "error.h"
#include "pipeline_layout.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

/* --- auto --- */

static void assert_split(int n_layers, int n_stages, const int *expected) {
  const PipelineCounts counts = {n_layers, 0, n_stages};
  g_autofree int *layers = g_new(int, n_stages);
  ck_assert(pipeline_layout_deal(NULL, &counts, layers, NULL));
  for (int i = 0; i < n_stages; i++)
    ck_assert_int_eq(layers[i], expected[i]);
}

TEST(layers_that_divide_are_split_evenly) {
  assert_split(32, 4, (int[]){8, 8, 8, 8});
  assert_split(22, 1, (int[]){22});
  int ones[105];
  for (int i = 0; i < 105; i++)
    ones[i] = 1;
  assert_split(105, 105, ones); /* 530B: 35 stages × 3 chunks */
}

TEST(embedding_and_head_count_as_layers_when_that_divides) {
  /* Llama 3.1 405B: (126 + 2)/16 = 8. BLOOM: (70 + 2)/12 = 6. */
  assert_split(126, 16, (int[]){7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7});
  assert_split(70, 12, (int[]){5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5});
  assert_split(22, 8, (int[]){2, 3, 3, 3, 3, 3, 3, 2});
  /* (6 + 2)/8 = 1: the ends stand alone. */
  assert_split(6, 8, (int[]){0, 1, 1, 1, 1, 1, 1, 0});
}

TEST(other_layers_are_balanced_with_the_larger_stages_in_the_middle) {
  assert_split(22, 4, (int[]){5, 6, 6, 5}); /* (22 + 2)/4 = 6 */
  assert_split(22, 5, (int[]){4, 5, 5, 4, 4});
  assert_split(23, 4, (int[]){6, 6, 6, 5}); /* the head costs more than the embedding */
  assert_split(21, 4, (int[]){5, 6, 5, 5});
}

/* The last stage's heads count as 1 + 2 layers: 61 + 3 = 16 × 4 = 8 × 8. Over 5 stages 64 does not divide, 61 + 2
 * neither: ends of 12 and one stage of 13. Over 32 the heads would count more than a stage: ends of 1, the rest 2. */
TEST(heads_that_predict_further_count_as_layers) {
  static const struct { int n_stages, first, last; } cases[] = {{16, 4, 1}, {8, 8, 5}, {5, 12, 12}, {32, 1, 1}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    const PipelineCounts counts = {61, 1, cases[i].n_stages};
    int layers[32], sum = 0;
    ck_assert(pipeline_layout_deal(NULL, &counts, layers, NULL));
    for (int s = 0; s < cases[i].n_stages; s++)
      sum += layers[s];
    ck_assert_int_eq(sum, 61);
    ck_assert_int_eq(layers[0], cases[i].first);
    ck_assert_int_eq(layers[cases[i].n_stages - 1], cases[i].last);
  }
}

/* --- asked for --- */

/* Each as the list it comes to. */
TEST(layouts_are_dealt_out_as_they_say) {
  static const struct {
    const char *asked;
    int n_layers, n_stages;
    const char *dealt;
  } cases[] = {
      {"auto", 126, 16, "7+8*14+7"},
      {"balanced", 126, 16, "7+8*14+7"}, /* to begin with */
      {"7+8*14+7", 126, 16, "7+8*14+7"},
      {"7+even+7", 126, 16, "7+8*14+7"},
      {"even+6", 126, 16, "8*15+6"},
      {"6+even", 126, 16, "6+8*15"},
      {"even", 24, 4, "6*4"},
      {"3*2+even+1", 17, 5, "3*2+5*2+1"},
      {"embedding", 31, 4, "7+8*3"},
      {"loss", 31, 4, "8*3+7"},
      {"embedding+loss", 30, 4, "7+8*2+7"},
      {"embedding+loss", 32, 1, "32"},
      {"0+4*3+0", 12, 5, "0+4*3+0"}, /* the embedding and the head alone */
      {"0+4*3", 12, 4, "0+4*3"},
      {"1+1+1+2", 5, 4, "1*3+2"},
      {"4*13+5+4", 61, 15, "4*13+5+4"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    const PipelineCounts counts = {cases[i].n_layers, 0, cases[i].n_stages};
    g_autofree int *layers = g_new(int, cases[i].n_stages);
    g_autoptr(GError) error = NULL;
    ck_assert(pipeline_layout_check(cases[i].asked, NULL));
    ck_assert_msg(pipeline_layout_deal(cases[i].asked, &counts, layers, &error), "%s: %s", cases[i].asked,
                  error != NULL ? error->message : "");
    g_autofree char *dealt = pipeline_layout_text(layers, cases[i].n_stages);
    ck_assert_str_eq(dealt, cases[i].dealt);
  }
}

TEST(layouts_that_clash_with_model_or_plan_are_impossible) {
  static const struct {
    const char *asked;
    int n_layers, n_stages;
    const char *says;
  } cases[] = {
      {"8*15", 120, 16, "15 stages are not the plan's 16"},
      {"8*16", 126, 16, "128 layers are not the model's 126"},
      {"7+even+8", 126, 16, "even leaves 111 layers to 14 stages"},
      {"100+even+30", 126, 16, "130 layers are not the model's 126"},
      {"7*16+even", 126, 16, "16 stages and at least one of even are not the plan's 16"},
      {"4+0+4+4", 12, 4, "leaves stage 1 of 4 without a layer"},
      {"6+even+6", 12, 4, "leaves stage 1 of 4 without a layer"},
      {"embedding", 32, 4, "32 layers and 1 more are not shared evenly by 4 stages"},
      {"embedding+loss", 2, 1024, "not shared evenly"},
      {"1048576*1048576+1048576*1048576", 12, 4, "2097152 stages are not the plan's 4"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    const PipelineCounts counts = {cases[i].n_layers, 0, cases[i].n_stages};
    g_autofree int *layers = g_new(int, cases[i].n_stages);
    g_autoptr(GError) error = NULL;
    ck_assert(pipeline_layout_check(cases[i].asked, NULL));
    ck_assert(!pipeline_layout_deal(cases[i].asked, &counts, layers, &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
    ck_assert_msg(strstr(error->message, cases[i].says) != NULL, "%s", error->message);
  }
}

TEST(what_is_no_layout_is_bad_usage) {
  static const struct {
    const char *asked, *says;
  } cases[] = {
      {"", "found \"\""},
      {"7+", "found \"7+\""},
      {"+7", "expected layers of each stage as 7+8*14+6"},
      {"7++8", "7++8"},
      {"7*0", "7*0"},
      {"7*", "7*"},
      {"even+even", "even+even"},
      {"-1+3", "-1+3"},
      {"7 8", "7 8"},
      {"1048577", "1048577"},
      {"99999999999999999999", "99999999999999999999"},
      {"evenly", "did you mean \"even\"?"},
      {"embeding", "did you mean \"embedding\"?"},
      {"loss+7", "loss+7"},
      {"3,2*2,even", "did you mean \"3+2*2+even\"?"},
      {"Et|tL", "found \"Et|tL\""},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    ck_assert_msg(!pipeline_layout_check(cases[i].asked, &error), "%s", cases[i].asked);
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    ck_assert_msg(strstr(error->message, cases[i].says) != NULL, "%s", error->message);
  }
}

/* --- Megatron-LM's letters --- */

TEST(letters_are_read_as_megatron_reads_them) {
  static const struct {
    const char *letters, *dealt;
    int n_mtp;
  } cases[] = {
      {"Et|tt|tL", "1+2+1", 0},       {"Et*3|(tt|)*29,t,mL", "3+2*29+1", 1},
      {"E|(t|)*4L", "0+1*4+0", 0},    {"E,t*7|(t*8|)*14,t*6,L", "7+8*14+6", 0},
      {"E(|tt)*2|mmL", "0+2*2+0", 2}, {"EtL", "1", 0},
      {"E(t|t)*2L", "1+2+1", 0},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    int n_mtp = -1;
    g_autoptr(GError) error = NULL;
    ck_assert(pipeline_layout_is_letters(cases[i].letters));
    g_autofree char *dealt = pipeline_layout_of_letters(cases[i].letters, &n_mtp, &error);
    ck_assert_msg(dealt != NULL, "%s", error != NULL ? error->message : "");
    ck_assert_str_eq(dealt, cases[i].dealt);
    ck_assert_int_eq(n_mtp, cases[i].n_mtp);
    ck_assert(pipeline_layout_check(dealt, NULL));
  }
}

/* A head that predicts further without the loss, and letters out of their places. */
TEST(letters_that_cannot_be_run_are_refused) {
  static const char *const wrong[] = {
      "Et*3|(tt|)*29,m|L", "t|tt|tL",   "Et|tt|t", "Et|xt|tL",         "EtE|tL",    "EtL|tL",         "Et|mt|tL",
      "Et|(tt|*3tL",       "Et*2*2|tL", "Et|tmtL", "E(t*9999999)*99L", "E(((t)*2L", "Et*99999999999L"};
  for (gsize i = 0; i < G_N_ELEMENTS(wrong); i++) {
    int n_mtp;
    g_autoptr(GError) error = NULL;
    g_autofree char *dealt = pipeline_layout_of_letters(wrong[i], &n_mtp, &error);
    ck_assert_msg(dealt == NULL, "%s: %s", wrong[i], dealt);
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  }
  ck_assert(!pipeline_layout_is_letters("even") && !pipeline_layout_is_letters("7+8*14+6"));
}

int main(void) {
  return run_tests();
}
