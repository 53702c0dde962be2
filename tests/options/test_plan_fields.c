/* The table of a plan's fields: texts set what they say, and say what is set. */
#include "plan_fields.h"

#include <check.h>
#include <string.h>

#include "options.h"
#include "run_suite.h"

/* For each field some values that differ from what a new plan has, and the text each is read back as. */
static const struct {
  const char *field, *text, *read_back; /* NULL: the same */
} values[] = {
    {"gpus", "16", NULL},
    {"tp", "8", NULL},
    {"pp", "4", NULL},
    {"dp", "2", NULL},
    {"cp", "2", NULL},
    {"ep", "2", NULL},
    {"expert-tp", "1", NULL},
    {"expert-load", "1.25", NULL},
    {"chunks", "3", NULL},
    {"schedule", "zb_h1", "zb-h1"},
    {"schedule", "auto: zb-v", "zb-v"},
    {"pipeline-layout", "7+8*2+6", NULL},
    {"pipeline-layout", "Et*7|t*6L", "7+6"},
    {"micro-batch-group", "8", NULL},
    {"micro-batch", "4", NULL},
    {"global-batch", "2Ki", "2048"},
    {"seq-len", "8192", NULL},
    {"memory-cap", "60GB", "60000000000B"},
    {"steps", "2", NULL},
    {"mtp-layers", "1", NULL},
    {"zero", "3", NULL},
    {"zero-ranks", "4", NULL},
    {"recompute", "FULL", "full"},
    {"recompute-modules", "mlp+core_attn", "core_attn+mlp"},
    {"sequence-parallel", "on", NULL},
    {"precision", "fp8", NULL},
    {"recipe", "w2+g4+p4+m4+v4", NULL},
    {"attention", "unfused", NULL},
    {"norm-kernel", "plain", NULL},
    {"norm-kernel", "fused", NULL},
    {"expert-dispatch", "deepep", NULL},
    {"overlap-experts", "off", NULL},
    {"cuda-graphs", "none", NULL},
    {"cp-comm", "a2a", "ulysses"},
    {"overlap-grad", "off", NULL},
    {"overlap-param", "off", NULL},
    {"overlap-p2p", "off", NULL},
    {"bucket", "1000000", NULL},
    {"prefetch", "0", NULL},
    {"grad-norm-barrier", "on", NULL},
    {"framework", "megatron-core", NULL},
    {"order", "pp-dp-ep-cp-tp", NULL},
    {"flops", "6n", NULL},
    {"offload-optimizer", "nvme", NULL},
    {"offload-weights", "host", NULL},
    {"offload-activations", "host", NULL},
    {"fold", "off", NULL},
    {"contention", "off", NULL},
    {"jitter", "0.5", NULL},
    {"seed", "7", NULL},
};

static const PlanField *field_called(const char *name) {
  const int field = plan_field_find(name);
  ck_assert_msg(field >= 0, "%s", name);
  return plan_field(field);
}

static void set(Plan *plan, const PlanField *field, const char *text) {
  g_autoptr(GError) error = NULL;
  PlanTarget target = {.plan = plan};
  ck_assert_msg(plan_field_set(field, &target, text, &error), "%s", error != NULL ? error->message : "");
}

/* What a field needs others to be. */
static Plan *plan_for(const PlanField *field) {
  Plan *plan = plan_new();
  if (strcmp(field->name, "memory-cap") == 0)
    set(plan, field_called("schedule"), "auto");
  if (strcmp(field->name, "recompute-modules") == 0)
    set(plan, field_called("recompute"), "selective");
  return plan;
}

START_TEST(a_text_that_is_set_is_read_back) {
  for (gsize i = 0; i < G_N_ELEMENTS(values); i++) {
    const PlanField *field = field_called(values[i].field);
    g_autoptr(Plan) plan = plan_for(field);
    g_autofree char *before = plan_field_text(field, plan);
    set(plan, field, values[i].text);
    g_autofree char *text = plan_field_text(field, plan);
    ck_assert_str_eq(text, values[i].read_back != NULL ? values[i].read_back : values[i].text);
    ck_assert_msg(g_strcmp0(before, text) != 0, "%s is %s in a new plan", field->name, text);
  }
}
END_TEST

/* Other fields keep their texts, but for those that a framework or a precision sets. */
START_TEST(a_field_sets_only_itself) {
  for (gsize i = 0; i < G_N_ELEMENTS(values); i++) {
    const PlanField *field = field_called(values[i].field);
    g_autoptr(Plan) left = plan_for(field), plan = plan_for(field);
    set(plan, field, values[i].text);
    for (int other = 0; other < plan_n_fields(); other++) {
      g_autofree char *before = plan_field_text(plan_field(other), left),
                      *now = plan_field_text(plan_field(other), plan);
      const gboolean may_change = plan_field(other) == field || (strcmp(plan_field(other)->name, "recipe") == 0 &&
                                                                 strcmp(field->name, "framework") == 0);
      ck_assert_msg(may_change || g_strcmp0(before, now) == 0, "%s %s sets %s", field->name, values[i].text,
                    plan_field(other)->name);
    }
  }
}
END_TEST

START_TEST(every_field_has_values_here) {
  for (int field = 0; field < plan_n_fields(); field++) {
    gboolean is_there = !plan_field_is_axis(plan_field(field)); /* slow ranks, a map of ranks: read from elsewhere */
    for (gsize i = 0; i < G_N_ELEMENTS(values); i++)
      is_there |= strcmp(values[i].field, plan_field(field)->name) == 0;
    ck_assert_msg(is_there, "%s", plan_field(field)->name);
  }
}
END_TEST

START_TEST(what_is_set_names_the_option_where_it_is_wrong) {
  static const char *const wrong[][3] = {{"tp", "x", "--tp: found \"x\""},
                                         {"chunks", "0", "--chunks: found 0, expected at least 1"},
                                         {"jitter", "2%", "--jitter: found \"2%\", expected a number"},
                                         {"fold", "yes", "--fold: found \"yes\", expected on or off"},
                                         {"attention", "flsh", "--attention: found \"flsh\""},
                                         {"memory-cap", "60GB", "found --schedule left out"}};
  for (gsize i = 0; i < G_N_ELEMENTS(wrong); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Plan) plan = plan_new();
    PlanTarget target = {.plan = plan};
    ck_assert(!plan_field_set(field_called(wrong[i][0]), &target, wrong[i][1], &error));
    ck_assert_msg(strstr(error->message, wrong[i][2]) != NULL, "%s", error->message);
  }
}
END_TEST

/* The order of typing does not matter: a recipe is what was typed, not the framework's; memory-cap knows the schedule.
 */
START_TEST(what_depends_on_other_fields_is_set_after_them) {
  PlanOptions options;
  g_autoptr(GError) error = NULL;
  plan_options_init(&options);
  plan_options_set_default(&options, "recipe", "no-master");
  plan_options_set_default(&options, "framework", "megatron-core");
  plan_options_set_default(&options, "memory-cap", "60GB");
  plan_options_set_default(&options, "schedule", "auto");
  ck_assert(plan_options_make_plan(&options, &error));
  ck_assert_str_eq(options.plan->recipe.name, "no-master");
  ck_assert(options.plan->memory_cap == 60e9);
  plan_options_clear(&options);
}
END_TEST

int main(void) {
  TCase *cases = tcase_create("plan_fields");
  tcase_add_test(cases, a_text_that_is_set_is_read_back);
  tcase_add_test(cases, a_field_sets_only_itself);
  tcase_add_test(cases, every_field_has_values_here);
  tcase_add_test(cases, what_is_set_names_the_option_where_it_is_wrong);
  tcase_add_test(cases, what_depends_on_other_fields_is_set_after_them);
  return run_case("plan_fields", cases);
}
