#include "error.h"
#include "precision.h"
#include "recipe.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

static double total(const Recipe *recipe) {
  return recipe->weights + recipe->gradients + recipe_optimizer_bytes(recipe);
}

static Recipe parse(const char *text) {
  Recipe recipe = {0};
  g_autoptr(GError) error = NULL;
  gboolean parsed = recipe_parse(text, &recipe, &error);
  ck_assert_msg(parsed, "%s", error == NULL ? "" : error->message);
  return recipe;
}

/* ZeRO, arXiv 1910.02054 §3.1: 2 + 2 + 12 = 16; Megatron-LM: 18; the others as their names say. */
TEST(presets_hold_their_bytes) {
  const struct {
    const char *name;
    double bytes;
  } presets[] = {{"bf16+master", 16}, {"megatron", 18},   {"no-master", 12},    {"pure-bf16", 8},   {"fp32-grads", 14},
                 {"fp32", 16},        {"fp8+master", 15}, {"megatron-fp8", 17}, {"deepseek-v3", 13}};
  for (size_t i = 0; i < G_N_ELEMENTS(presets); i++) {
    Recipe recipe = parse(presets[i].name);
    ck_assert_double_eq(total(&recipe), presets[i].bytes);
  }
}

/* Megatron-LM's theoretical memory with its distributed optimizer over d ranks: 6 + 12/d. */
TEST(megatron_shards_twelve_of_its_eighteen_bytes) {
  Recipe recipe = parse("megatron");
  ck_assert_double_eq(recipe_optimizer_bytes(&recipe), 12);
  ck_assert_double_eq(recipe.weights + recipe.gradients, 6);
}

/* Moments of 8 bytes are 4 + 4: wider than 16-bit weights; with a master copy they go with that. */
TEST(moments_wider_than_weights_without_a_master_copy_are_told) {
  static const struct {
    const char *recipe, *advice; /* NULL: nothing to tell */
  } cases[] = {{"no-master", "moments of 8 bytes a parameter"},
               {"fp32-grads", "--recipe w2+g4+m2+v2"},
               {"w2+g2+m4+v4", "--recipe pure-bf16"},
               {"pure-bf16", NULL},
               {"bf16+master", NULL},
               {"fp32", NULL}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    const Recipe recipe = parse(cases[i].recipe);
    g_autofree char *warning = recipe_warning(&recipe);
    ck_assert_msg((warning != NULL) == (cases[i].advice != NULL), "%s", cases[i].recipe);
    ck_assert(warning == NULL || strstr(warning, cases[i].advice) != NULL);
  }
}

TEST(every_listed_preset_is_known_under_its_name) {
  int n = 0;
  for (; recipe_names()[n] != NULL; n++) {
    Recipe recipe = parse(recipe_names()[n]);
    ck_assert_str_eq(recipe.name, recipe_names()[n]);
  }
  ck_assert_int_ge(n, 5);
}

TEST(parts_add_up_in_any_order) {
  Recipe recipe = parse("w2+g2+p4+m4+v4"), shuffled = parse("v4+p4+w2+m4+g2");
  ck_assert_double_eq(total(&recipe), 16);
  ck_assert_double_eq(recipe.master, 4);
  ck_assert_double_eq(recipe.moments, 8);
  ck_assert_double_eq(recipe_optimizer_bytes(&shuffled), recipe_optimizer_bytes(&recipe));
  ck_assert_str_eq(recipe.name, "w2+g2+p4+m4+v4");
}

TEST(parts_may_be_left_out_or_fractional) {
  Recipe recipe = parse("w0.5625+m1");
  ck_assert_double_eq(recipe.weights, 0.5625);
  ck_assert_double_eq(recipe.gradients, 0);
  ck_assert_double_eq(total(&recipe), 1.5625);
}

TEST(anything_else_is_refused_and_leaves_the_recipe) {
  const char *bad[] = {"",     "bf16",  "w2+w2", "w2+", "+w2",    "x2", "w",     "w-2",     "w+2",
                       "winf", "wnan",  "w1e9",  "w65", "w2 +g2", "W2", "w0x10", "w2+g2+q", "w2+g2+p4+m4+v4+w2",
                       "w.",   "w2,g2", NULL};
  for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
    Recipe recipe = {.weights = 42};
    g_autoptr(GError) error = NULL;
    ck_assert_msg(!recipe_parse(bad[i], &recipe, &error), "was read: %s", bad[i]);
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    ck_assert_double_eq(recipe.weights, 42);
  }
  g_autofree char *noise = g_strnfill(10 << 20, '+');
  Recipe recipe;
  ck_assert(!recipe_parse(noise, &recipe, NULL));
}

TEST(a_misspelt_preset_suggests_the_nearest) {
  Recipe recipe;
  g_autoptr(GError) error = NULL;
  ck_assert(!recipe_parse("megatorn", &recipe, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "did you mean \"megatron\"?"));
}

TEST(precisions_have_one_name_everywhere) {
  for (int i = 0; i < N_PRECISIONS; i++) {
    Precision precision = N_PRECISIONS;
    ck_assert_str_eq(precision_names()[i], precision_info((Precision)i)->name);
    ck_assert(precision_parse(precision_names()[i], &precision, NULL));
    ck_assert_int_eq(precision, i);
  }
  ck_assert_ptr_null(precision_names()[N_PRECISIONS]);
}

/* MXFP8: one byte of scale per 32; NVFP4: one per 16 elements of half a byte. */
TEST(block_scales_count_as_bytes) {
  ck_assert_double_eq(precision_info(PRECISION_MXFP8)->linear_bytes, 33.0 / 32);
  ck_assert_double_eq(precision_info(PRECISION_NVFP4)->linear_bytes, 9.0 / 16);
  ck_assert_double_eq(precision_info(PRECISION_FP8)->element_bytes, 2);
}

TEST(an_unknown_precision_suggests_the_nearest) {
  Precision precision = PRECISION_FP16;
  g_autoptr(GError) error = NULL;
  ck_assert(!precision_parse("bf61", &precision, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "did you mean \"bf16\"?"));
  ck_assert(!precision_parse(NULL, &precision, NULL));
  ck_assert_int_eq(precision, PRECISION_FP16);
}

int main(void) {
  return run_tests();
}
