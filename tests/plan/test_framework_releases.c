/* Frameworks by product and release. */
#include "framework_releases.h"

#include <string.h>

#include "error.h"
#include "framework.h"
#include "plan.h"
#include "plan_fields.h"
#include "run_suite.h"

static FrameworkReleases *read_releases(void) {
  g_autoptr(GError) error = NULL;
  FrameworkReleases *releases = framework_releases_read(&error);
  ck_assert_msg(releases != NULL, "%s", error != NULL ? error->message : "");
  return releases;
}

static const FrameworkRelease *nth(const FrameworkProduct *product, guint i) {
  return &g_array_index(product->releases, FrameworkRelease, i);
}

/* Files that are there, months in order and none after the last that was read, numbers in order. */
TEST(rows_are_in_order_and_name_files) {
  g_autoptr(FrameworkReleases) releases = read_releases();
  for (guint i = 0; i < releases->products->len; i++) {
    const FrameworkProduct *product = releases->products->pdata[i];
    const char *since = "", *release = "0";
    for (guint k = 0; k < product->releases->len; k++) {
      const FrameworkRelease *row = nth(product, k);
      ck_assert_msg(strcmp(since, row->since) < 0 && strcmp(row->since, releases->read) <= 0, "%s", product->name);
      ck_assert_msg(row->release == NULL || framework_release_compare(release, row->release) < 0, "%s", product->name);
      ck_assert_msg(row->as == NULL || framework_product_find(releases, row->as) != NULL, "%s", product->name);
      Framework framework;
      ck_assert_msg(row->file == NULL || framework_read(row->file, &framework, NULL), "%s", row->file);
      since = row->since;
      release = row->release != NULL ? row->release : release;
    }
  }
}

TEST(a_name_means_a_file) {
  static const struct {
    const char *name, *file, *product, *release, *emit;
  } cases[] = {
      {"torchtitan", "torchtitan-compiled-loss", "torchtitan", "0.2", "torchtitan"},
      {"torchtitan@2024-12", "torchtitan-compile", "torchtitan", NULL, "torchtitan"},
      {"torchtitan@2025", "torchtitan-compiled-loss", "torchtitan", "0.2", "torchtitan"},
      {"torchtitan@0.1", "torchtitan-compiled-loss", "torchtitan", "0.1", "torchtitan"},
      {"torchtitan-eager", "torchtitan", "torchtitan-eager", "0.2", "torchtitan"},
      {"torchtitan.yaml", "torchtitan", "torchtitan-eager", "0.2", "torchtitan"},
      {"torchtitan-compile", "torchtitan-compile", "torchtitan", NULL, "torchtitan"},
      {"megatron-core", "megatron-core", "megatron-core", "0.19", "megatron"},
      {"megatron-core@0.9", "megatron-core-2024", "megatron-core", "0.9", "megatron"},
      {"megatron-core@0.14.2", "megatron-core", "megatron-core", "0.14.2", "megatron"},
      {"megatron-core@0.19.1", "megatron-core", "megatron-core", "0.19.1", "megatron"},
      {"megatron-core@2025-11", "megatron-core", "megatron-core", "0.14", "megatron"},
      {"megatron-core-2024", "megatron-core-2024", "megatron-core", "0.10", "megatron"},
      {"megatron-lm", "megatron-core", "megatron-core", "0.19", "megatron"},
      {"megatron-lm@0.15", "megatron-core", "megatron-core", "0.15", "megatron"},
      {"megatron-lm@2021-06", "megatron-lm-2021", "megatron-lm", NULL, "megatron"},
      {"megatron-lm-2022", "megatron-lm", "megatron-lm-2022", NULL, "megatron"},
      {"megatron-kwai", "megatron-kwai", NULL, NULL, NULL},
      {"deepspeed", "deepspeed-transformers", "deepspeed", "0.19", "deepspeed"},
      {"deepspeed@0.5.4", "deepspeed", "deepspeed", "0.5.4", "deepspeed"},
      {"deepspeed@0.12.3", "deepspeed-transformers-2023", "deepspeed", "0.12.3", "deepspeed"},
      {"deepspeed-2021", "deepspeed", "deepspeed-2021", "0.3.13", "deepspeed"},
      {"accelerate", "pytorch-fsdp-transformers", "transformers", "4.46", NULL},
      {"accelerate@2023-12", "pytorch-fsdp-transformers-2023", "transformers", "4.34", NULL},
      {"nemo@24.07", "nemo-launcher", "nemo", "24.07", "megatron"},
      {"some/path.yaml", "some/path.yaml", NULL, NULL, NULL},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    g_auto(FrameworkChoice) choice = {0};
    ck_assert_msg(framework_choose(cases[i].name, &choice, &error), "%s", error != NULL ? error->message : "");
    ck_assert_pstr_eq(choice.file, cases[i].file);
    ck_assert_pstr_eq(choice.product, cases[i].product);
    ck_assert_pstr_eq(choice.release, cases[i].release);
    ck_assert_pstr_eq(choice.emit, cases[i].emit);
  }
}

TEST(what_is_not_known_is_an_error_that_says_what_is) {
  static const struct {
    const char *name, *said;
  } cases[] = {
      {"megatron-core@0.20", "0.18 (2026-06), 0.19 (2026-08)"},
      {"megatron-core@0.3", "expected a release or a month (YYYY-MM) of megatron-core"},
      {"megatron-core@2026-09", "known to 2026-08"},
      {"megatron-core@2022", "0.4 (2023-12)"},
      {"megatron-core@", "found megatron-core@, expected"},
      {"megatron-core@new", "found megatron-core@new, expected"},
      {"accelerate@1.0", "of accelerate, known to 2026-08: 4.34 (2023-10), 4.46 (2024-10) to 4.57"},
      {"transformers@4.58", "to 4.57"},
      {"megatron-cor@0.14", "did you mean \"megatron-core\"? products are megatron-core, megatron-lm"},
      {"nobody", "products are megatron-core, megatron-lm"},
      {"", "found an empty name"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    g_auto(FrameworkChoice) choice = {0};
    Framework framework;
    ck_assert(!framework_choose(cases[i].name, &choice, &error) || !framework_read(choice.file, &framework, &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    ck_assert_msg(strstr(error->message, cases[i].said) != NULL, "%s", error->message);
  }
}

TEST(releases_are_compared_number_by_number) {
  static const char *const ascending[] = {"0.3.13", "0.4", "0.9", "0.10", "0.10.1", "0.14", "1", "24.09"};
  for (gsize i = 0; i < G_N_ELEMENTS(ascending); i++)
    for (gsize k = 0; k < G_N_ELEMENTS(ascending); k++)
      ck_assert_int_eq(framework_release_compare(ascending[i], ascending[k]), (i > k) - (i < k));
}

/* Every file has a name that means it, and every name without a release means a file. */
TEST(every_file_can_be_named) {
  g_auto(GStrv) files = framework_names(), names = framework_choices();
  for (char **file = files; *file != NULL; file++) {
    g_autofree char *name = framework_name_of_file(*file);
    g_auto(FrameworkChoice) choice = {0};
    ck_assert(framework_choose(name, &choice, NULL));
    ck_assert_str_eq(choice.file, *file);
  }
  for (char **name = names; *name != NULL; name++) {
    g_auto(FrameworkChoice) choice = {0};
    ck_assert(framework_choose(*name, &choice, NULL));
    ck_assert(framework_is_described(choice.file));
  }
}

/* The plan runs as the file says, is called as the user said, and a second read gives the same. */
TEST(a_plan_is_called_as_it_was_named) {
  g_autoptr(GHashTable) frameworks = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  const PlanField *field = plan_field(plan_field_find("framework"));
  for (int again = 0; again < 2; again++) {
    g_autoptr(Plan) plan = plan_new();
    PlanTarget target = {.plan = plan, .frameworks = frameworks};
    ck_assert(field->set(&target, "--framework", "megatron-core@0.14", NULL));
    g_autoptr(Plan) copy = plan_copy(plan);
    ck_assert_str_eq(copy->framework, "megatron-core@0.14");
    ck_assert_str_eq(copy->framework_file, "megatron-core");
    ck_assert_str_eq(copy->framework_product, "megatron-core");
    ck_assert_str_eq(copy->framework_release, "0.14");
    g_autofree char *text = plan_field_text(field, copy);
    ck_assert_str_eq(text, "megatron-core@0.14");
  }
}

/* One row for each file that a product's releases follow one another by. */
static void append_rows(GString *out, const FrameworkProduct *product) {
  for (guint i = 0, next; i < product->releases->len; i = next) {
    const FrameworkRelease *row = nth(product, i);
    for (next = i + 1;
         next < product->releases->len && row->file != NULL && g_strcmp0(nth(product, next)->file, row->file) == 0;)
      next++;
    const gboolean is_today = next == product->releases->len;
    g_string_append_printf(out, "| `%s", product->name);
    if (!is_today)
      g_string_append_printf(out, "@%s` | %s |", row->release != NULL ? row->release : row->since, row->since);
    else
      g_string_append_printf(out, "` | %s%s%s |", row->release != NULL ? row->release : "",
                             row->release != NULL ? ", " : "", row->since);
    g_string_append_printf(out, " %s%s |\n", row->as != NULL ? "as " : "", row->as != NULL ? row->as : row->file);
  }
}

TEST(the_docs_have_the_table) {
  static const char path[] = STEPSIM_SOURCE_DATA "/docs/frameworks.md";
  g_autoptr(FrameworkReleases) releases = read_releases();
  g_autoptr(GString) table = g_string_new("| `--framework` | from release, month | file |\n| --- | --- | --- |\n");
  for (guint i = 0; i < releases->products->len; i++)
    append_rows(table, releases->products->pdata[i]);
  g_string_append_c(table, '\n');
  g_autofree char *page = NULL;
  ck_assert_msg(g_file_get_contents(path, &page, NULL, NULL), "%s", path);
  ck_assert_msg(strstr(page, table->str) != NULL, "%s: expected\n%s", path, table->str);
}

int main(void) {
  return run_tests();
}
