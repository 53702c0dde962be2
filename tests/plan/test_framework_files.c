/* Framework files: their memory keys, their base files, and what a plan takes from them. */
#include "error.h"
#include "run_suite.h"

#include <check.h>
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#include "plan.h"
#include "quirks.h"

static void assert_refused(const char *text, const char *message) {
  Framework framework = {.memory.logit_bytes = 7};
  g_autoptr(GError) error = NULL;
  g_autoptr(YamlFile) file = yaml_file_parse("test.yaml", text, strlen(text), &error);
  ck_assert(file != NULL && !quirks_read(yaml_file_root(file), "memory", &framework, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_msg(strstr(error->message, message) != NULL, "%s", error->message);
  ck_assert_double_eq(framework.memory.logit_bytes, 7); /* as it was */
}

/* A value that is not the default, and may stand beside those of all other rows: of choices the last. */
static double number_of(const Quirk *quirk) {
  return (quirk->least + 3 * quirk->most) / 4;
}

static char *value_of(const Quirk *quirk) {
  switch (quirk->kind) {
  case QUIRK_CHOICE:
    return g_strdup(quirk->choices[g_strv_length((GStrv)quirk->choices) - 1]);
  case QUIRK_RECIPE:
    return g_strdup("megatron");
  default:
    return g_strdup_printf("%.17g%s", number_of(quirk),
                           quirk->kind == QUIRK_SECONDS ? " s"
                           : quirk->kind == QUIRK_BYTES ? " B"
                                                        : "");
  }
}

static void assert_arrived(const Quirk *quirk, const Framework *framework) {
  const void *at = (const char *)framework + quirk->offset + /* of hopper, where it is of a generation */
                   (strchr(quirk->key, '*') != NULL ? ARCHITECTURE_HOPPER * sizeof(FrameworkRates) : 0);
  switch (quirk->kind) {
  case QUIRK_CHOICE:
    ck_assert_msg(*(const int *)at == (int)g_strv_length((GStrv)quirk->choices) - 1, "%s", quirk->key);
    break;
  case QUIRK_RECIPE:
    ck_assert_str_eq(at, "megatron");
    break;
  case QUIRK_MAPPING:
    ck_assert_msg(*(const gboolean *)at, "%s", quirk->key);
    break;
  default:
    ck_assert_msg(fabs(*(const double *)at / number_of(quirk) - 1) < 1e-12, "%s", quirk->key);
  }
}

/* "time.host.layer.forward" as lines, but for those that the key before it shares. */
static void append_key(GString *text, const char *before, const Quirk *quirk) {
  g_autofree char *value = value_of(quirk);
  g_auto(GStrv) parts = g_strsplit(quirk->key, ".", -1), other = g_strsplit(before, ".", -1);
  guint depth = 0;
  while (other[depth] != NULL && parts[depth] != NULL && strcmp(other[depth], parts[depth]) == 0)
    depth++;
  for (; parts[depth] != NULL; depth++) {
    const gboolean is_last = parts[depth + 1] == NULL && quirk->kind != QUIRK_MAPPING;
    g_string_append_printf(text, "%*s%s:%s%s\n", 2 * (int)depth, "",
                           strcmp(parts[depth], "*") == 0 ? "hopper" : parts[depth], is_last ? " " : "",
                           is_last ? value : "");
  }
}

TEST(every_key_arrives) {
  g_autoptr(GString) text = g_string_new(NULL);
  for (int i = 0; i < quirks_count(); i++)
    append_key(text, i > 0 ? quirk_at(i - 1)->key : "", quirk_at(i));
  Framework framework = {0};
  g_autoptr(GError) error = NULL;
  g_autoptr(YamlFile) file = yaml_file_parse("test.yaml", text->str, text->len, &error);
  ck_assert_msg(file != NULL, "%s", error != NULL ? error->message : "");
  const YamlNode root = yaml_file_root(file);
  for (int i = 0; i < 2; i++) {
    const char *part = i == 0 ? "memory" : "time";
    ck_assert_msg(quirks_read(yaml_map_value(root, part), part, &framework, &error), "%s",
                  error != NULL ? error->message : "");
  }
  for (int i = 0; i < quirks_count(); i++) {
    assert_arrived(quirk_at(i), &framework);
    for (int other = 0; other < i; other++) /* each in a field of its own */
      ck_assert_uint_ne(quirk_at(i)->offset, quirk_at(other)->offset);
  }
}

TEST(mistakes_are_refused_with_their_line) {
  assert_refused("recipe: bf16+master\nlogitz: whole\n", "test.yaml:2");
  assert_refused("logits: halved\n", "whole");
  assert_refused("recipe: megatrom\n", "megatron");
  assert_refused("norm_bytes: -1\n", "norm_bytes");
  assert_refused("activation_input_bytes: 0.1\n", "activation_input_bytes");
  assert_refused("logit_bytes: 2\n", "logit_bytes"); /* less than the fp32 softmax alone */
}

TEST(every_shipped_framework_is_read) {
  g_auto(GStrv) names = framework_names();
  ck_assert_uint_ge(g_strv_length(names), 3);
  for (char **name = names; *name != NULL; name++) {
    Framework framework;
    g_autoptr(GError) error = NULL;
    ck_assert(framework_is_described(*name));
    ck_assert_msg(framework_read(*name, &framework, &error), "%s", error != NULL ? error->message : "");
  }
  ck_assert(!framework_is_described("megatron"));
}

/* Files of frameworks by name, in a directory of their own, which is the working one until it is removed. */
static char *framework_directory(char **before) {
  *before = g_get_current_dir();
  char *directory = g_dir_make_tmp("stepsim-frameworks-XXXXXX", NULL);
  ck_assert_ptr_nonnull(directory);
  ck_assert_int_eq(g_chdir(directory), 0);
  ck_assert_int_eq(g_mkdir_with_parents("topologies/frameworks", 0700), 0);
  return directory;
}

static void write_framework(const char *name, const char *more) {
  g_autofree char *path = g_strdup_printf("topologies/frameworks/%s.yaml", name);
  g_autofree char *text = g_strdup_printf("name: %s\nsource: here\n%s", name, more);
  ck_assert(g_file_set_contents(path, text, -1, NULL));
}

static void remove_frameworks(const char *directory, const char *before, const char *const *names) {
  for (; *names != NULL; names++) {
    g_autofree char *path = g_strdup_printf("topologies/frameworks/%s.yaml", *names);
    ck_assert_int_eq(g_remove(path), 0);
  }
  g_rmdir("topologies/frameworks");
  g_rmdir("topologies");
  ck_assert_int_eq(g_chdir(before), 0);
  ck_assert_int_eq(g_rmdir(directory), 0);
}

/* What it says itself counts, what it does not say is its base's; a rate of plain kernels goes with these. */
TEST(a_framework_may_be_another_but_for_what_it_says) {
  static const char *const names[] = {"first", "second", "third", NULL};
  g_autofree char *before, *directory = framework_directory(&before);
  write_framework("first", "memory: {recipe: megatron, logit_bytes: 20}\n"
                           "time: {kernels: plain, norm_rate: 0.5, sends: synchronous}\n");
  write_framework("second", "base: first\nmemory: {logit_bytes: 8}\n");
  write_framework("third", "base: second\ntime: {kernels: fused}\n");
  Framework second, third;
  ck_assert(framework_read("second", &second, NULL) && framework_read("third", &third, NULL));
  g_auto(GStrv) files = framework_files("third", NULL);
  remove_frameworks(directory, before, names);
  ck_assert(second.memory.logit_bytes == 8 && strcmp(second.memory.recipe, "megatron") == 0);
  ck_assert(second.time.kernels == FRAMEWORK_KERNELS_PLAIN && second.time.norm_rate == 0.5);
  ck_assert(third.memory.logit_bytes == 8 && third.time.sends == SENDS_SYNCHRONOUS);
  ck_assert(third.time.kernels == FRAMEWORK_KERNELS_FUSED && third.time.norm_rate == 0);
  ck_assert_uint_eq(g_strv_length(files), 3);
}

/* As of clusters: none takes a mapping away, a mapping may state some of its keys; a key that goes with another's value
 * is dropped where that value does not stand, and refused where the file itself has it. */
TEST(a_base_is_merged_as_that_of_a_cluster) {
  static const char *const names[] = {"first", "less", "some", "wrong", NULL};
  g_autofree char *before, *directory = framework_directory(&before);
  write_framework("first", "memory: {logit_bytes: 20}\n"
                           "time:\n"
                           "  expert_host: {forward: 8 us, backward: 9 us, launch: 4 us}\n"
                           "  context: blocks\n"
                           "  context_exchanges: alone\n");
  ck_assert(g_file_set_contents("topologies/frameworks/less.yaml", /* with the source of its base */
                                "name: less\nbase: first\nmemory: none\ntime: {context: passed}\n", -1, NULL));
  write_framework("some", "base: first\ntime: {expert_host: {backward: 7 us}}\n");
  write_framework("wrong", "base: first\ntime: {norm_rate: 0.5}\n");
  Framework less, some, wrong;
  g_autoptr(GError) error = NULL;
  const gboolean are_read = framework_read("less", &less, NULL) && framework_read("some", &some, NULL);
  const gboolean is_refused = !framework_read("wrong", &wrong, &error);
  remove_frameworks(directory, before, names);
  ck_assert(are_read && is_refused);
  ck_assert(less.memory.logit_bytes == 0 && less.time.context_exchanges == CONTEXT_BESIDE);
  ck_assert_double_eq_tol(some.time.expert_host.forward_s, 8e-6, 1e-15);
  ck_assert_double_eq_tol(some.time.expert_host.backward_s, 7e-6, 1e-15);
  ck_assert(some.time.context_exchanges == CONTEXT_ALONE && some.memory.logit_bytes == 20);
  ck_assert_msg(strstr(error->message, "wrong.yaml:4: time: found norm_rate") != NULL, "%s", error->message);
}

/* third stands on second, but is a variant of nothing itself. */
TEST(a_variant_says_so_itself) {
  static const char *const names[] = {"first", "second", "third", "wrong", NULL};
  g_autofree char *before, *directory = framework_directory(&before);
  write_framework("first", "");
  write_framework("second", "base: first\nvariant_of: first\n");
  write_framework("third", "base: second\n");
  write_framework("wrong", "variant_of: frist\n");
  Framework third, wrong;
  g_autoptr(GError) error = NULL;
  const gboolean is_read = framework_read("third", &third, NULL);
  const gboolean is_refused = !framework_read("wrong", &wrong, &error);
  g_autofree char *of_first = framework_variant("first"), *of_second = framework_variant("second");
  remove_frameworks(directory, before, names);
  ck_assert_pstr_eq(of_first, "second");
  ck_assert_pstr_eq(of_second, NULL);
  ck_assert(is_read && is_refused);
  ck_assert_msg(strstr(error->message, "wrong.yaml:3: variant_of: found \"frist\"") != NULL &&
                    strstr(error->message, "did you mean \"first\"") != NULL,
                "%s", error->message);
}

TEST(a_base_that_is_none_is_named) {
  static const char *const names[] = {"loop", "other", "lost", NULL};
  g_autofree char *before, *directory = framework_directory(&before);
  write_framework("loop", "base: other\n");
  write_framework("other", "base: loop\n");
  write_framework("lost", "base: othre\n");
  Framework framework;
  g_autoptr(GError) endless = NULL, unknown = NULL;
  const gboolean is_read = framework_read("loop", &framework, &endless) || framework_read("lost", &framework, &unknown);
  remove_frameworks(directory, before, names);
  ck_assert(!is_read);
  ck_assert(g_error_matches(endless, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_msg(strstr(endless->message, "base: found \"other\", expected at most 4") != NULL, "%s", endless->message);
  ck_assert_msg(strstr(unknown->message, "lost.yaml:3: base: ") != NULL &&
                    strstr(unknown->message, "\"other\"") != NULL,
                "%s", unknown->message);
}

TEST(an_unknown_framework_suggests_the_nearest) {
  Framework framework;
  g_autoptr(GError) error = NULL;
  ck_assert(!framework_read("megatron-ln", &framework, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_msg(strstr(error->message, "\"megatron-lm\"") != NULL, "%s", error->message);
}

TEST(its_recipe_is_the_plans_but_in_fp32_and_fp16) {
  const Framework framework = {.memory = {.recipe = "megatron"}}, none = {0};
  g_autoptr(Plan) plan = plan_new();
  plan_set_framework(plan, "other", &none);
  ck_assert_str_eq(plan->recipe.name, "bf16+master");
  plan_set_framework(plan, "megatron-lm", &framework);
  ck_assert_str_eq(plan->recipe.name, "megatron");
  ck_assert_str_eq(plan->framework, "megatron-lm");
  g_autoptr(Plan) copy = plan_copy(plan);
  ck_assert_str_eq(copy->framework, "megatron-lm");
  ck_assert_str_eq(copy->memory.recipe, "megatron");
  g_autoptr(Plan) single = plan_new();
  single->precision = PRECISION_FP32;
  gboolean known = recipe_parse("fp32", &single->recipe, NULL);
  plan_set_framework(single, "megatron-lm", &framework);
  ck_assert(known);
  ck_assert_str_eq(single->recipe.name, "fp32");
  g_autoptr(Plan) half = plan_new();
  half->precision = PRECISION_FP16;
  plan_set_framework(half, "megatron-lm", &framework);
  ck_assert_str_eq(half->recipe.name, "bf16+master");
}

/* Forks of Megatron-LM on DeepSpeed sum bf16's gradients in fp32, of fp16 they hold what others do; FSDP2's copies are
 * compiled models' too. */
TEST(shipped_files_say_how_gradients_are_summed_and_copied) {
  static const struct {
    const char *name;
    double add_bytes;
    int buffers; /* FrameworkZero3Buffers */
  } cases[] = {
      {"gpt-neox", 18, ZERO3_BUFFERS_SHARED},
      {"megatron-deepspeed", 0, ZERO3_BUFFERS_SHARED},
      {"megatron-deepspeed-bf16", 18, ZERO3_BUFFERS_SHARED},
      {"nanotron-2024", 10, ZERO3_BUFFERS_SHARED},
      {"kempnerforge-compile", 0, ZERO3_BUFFERS_COPIED},
      {"nemo-automodel", 0, ZERO3_BUFFERS_COPIED},
      {"pytorch-fsdp", 0, ZERO3_BUFFERS_SHARED},
      {"megatron-core", 0, ZERO3_BUFFERS_OF_GRADIENTS},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Framework framework;
    ck_assert(framework_read(cases[i].name, &framework, NULL));
    ck_assert_msg(framework.time.gradient_add_bytes == cases[i].add_bytes, "%s", cases[i].name);
    ck_assert_msg(framework.time.zero3.buffers == cases[i].buffers, "%s", cases[i].name);
    g_autoptr(Plan) half = plan_new();
    half->precision = PRECISION_FP16;
    plan_set_framework(half, cases[i].name, &framework);
    ck_assert_str_eq(half->recipe.name, "bf16+master");
  }
}

/* Every row of the table of quirks stands in the docs as it is. */
TEST(the_docs_have_every_key) {
  static const char path[] = STEPSIM_SOURCE_DATA "/docs/frameworks.md";
  g_autofree char *page = NULL;
  ck_assert_msg(g_file_get_contents(path, &page, NULL, NULL), "%s", path);
  for (int i = 0; i < quirks_count(); i++) {
    g_autofree char *row = quirk_table_row(quirk_at(i));
    ck_assert_msg(strstr(page, row) != NULL, "%s: expected\n%s", path, row);
  }
}

int main(void) {
  return run_tests();
}
