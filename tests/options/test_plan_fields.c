/* The table of a plan's fields: texts set what they say, and say what is set. */
#include "plan_fields.h"

#include <check.h>
#include <string.h>

#include "options.h"
#include "plan.h"
#include "run_suite.h"

/* Texts that rows do not tell, other than a new plan's, and what each is read back as. */
static const struct {
  const char *field, *text, *read_back; /* NULL: the same */
} texts[] = {
    {"schedule", "zb_h1", "zb-h1"},
    {"schedule", "auto: zb-v", "zb-v"},
    {"pipeline-layout", "7+8*2+6", NULL},
    {"pipeline-layout", "Et*7|t*6L", "7+6"},
    {"global-batch", "2Ki", "2048"},
    {"memory-cap", "60GB", "60000000000B"},
    {"recompute", "FULL", "full"},
    {"recompute-modules", "mlp+core_attn", "core_attn+mlp"},
    {"recipe", "w2+g4+p4+m4+v4", NULL},
    {"cp-comm", "a2a", "ulysses"},
    {"framework", "megatron-core", NULL},
    {"order", "pp-dp-ep-cp-tp", NULL},
    {"data", "1.5MB+time=3ms", "1500000B+readers=2+time=0.003s"},
    {"compress-grad", "TopK:0.010", "topk:0.01"},
    {"compress-grad", "onebit", NULL},
    {"compress-grad", "powersgd:4", NULL},
    {"outer", "mean+bytes=0.5+delay=2", NULL},
    {"outer", "nesterov+momentum=0.9+lr=1+fragments=3", "nesterov+lr=1+fragments=3"},
    {"parameter-servers", "4", NULL},
    {"parameter-servers", "workers+sync", "workers"},
    {"parameter-servers", "2+local=8+async=3+nic=100Gb/s", "2+async=3+local=8+nic=12500000000B/s"},
    {"seq-lengths", "lognormal:1200+1.1", NULL},
    {"train", "lora:16", NULL},
    {"train", "LoRA:8:v_proj+q_proj", "lora:8:q_proj+v_proj"},
    {"freeze", "embedding", NULL},
    {"freeze", "head+layers:3", "layers:3+head"},
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

typedef struct {
  const PlanField *field;
  const char *text, *read_back;
} Value;

static void add_value(GArray *values, const PlanField *field, const char *text, const char *read_back) {
  if (g_strcmp0(text, field->by_default) == 0)
    return;
  const Value value = {field, g_intern_string(text), g_intern_string(read_back != NULL ? read_back : text)};
  g_array_append_val(values, value);
}

/* Every name of a choice, both of a switch, numbers at both ends of the range. */
static void add_values_of_row(GArray *values, const PlanField *field) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  const double ends[] = {field->most > 0 ? field->least : 2, field->most > 0 ? field->most : 1 << 20};
  if (field->kind == PLAN_SWITCH) {
    add_value(values, field, "on", NULL);
    add_value(values, field, "off", NULL);
  }
  for (int i = 0; field->kind == PLAN_CHOICE && field->names()[i] != NULL; i++)
    add_value(values, field, field->names()[i], NULL);
  for (gsize i = 0; field->kind <= PLAN_RATIO && i < G_N_ELEMENTS(ends); i++)
    if (!field->is_open_at_0 || ends[i] != 0)
      add_value(values, field, g_ascii_formatd(text, sizeof text, "%.17g", ends[i]), NULL);
}

static GArray *all_values(void) {
  GArray *values = g_array_new(FALSE, FALSE, sizeof(Value));
  for (int i = 0; i < plan_n_fields(); i++)
    add_values_of_row(values, plan_field(i));
  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++)
    add_value(values, field_called(texts[i].field), texts[i].text, texts[i].read_back);
  return values;
}

TEST(a_text_that_is_set_is_read_back) {
  g_autoptr(GArray) values = all_values();
  for (guint i = 0; i < values->len; i++) {
    const Value *value = &g_array_index(values, Value, i);
    g_autoptr(Plan) plan = plan_for(value->field);
    g_autofree char *before = plan_field_text(value->field, plan);
    set(plan, value->field, value->text);
    g_autofree char *text = plan_field_text(value->field, plan);
    ck_assert_msg(g_strcmp0(text, value->read_back) == 0, "%s %s is read back as %s", value->field->name, value->text,
                  text);
    ck_assert_msg(g_strcmp0(before, text) != 0, "%s is %s in a new plan", value->field->name, text);
  }
}

/* What is read of the second may change with the first. */
static gboolean follows(const PlanField *first, const PlanField *second) {
  static const char *const pairs[][2] = {
      {"framework", "recipe"}, {"precision", "recipe"}, {"recompute", "recompute-modules"}};
  for (gsize i = 0; i < G_N_ELEMENTS(pairs); i++)
    if (strcmp(pairs[i][0], first->name) == 0 && strcmp(pairs[i][1], second->name) == 0)
      return TRUE;
  return FALSE;
}

TEST(a_field_sets_only_itself) {
  g_autoptr(GArray) values = all_values();
  for (guint i = 0; i < values->len; i++) {
    const Value *value = &g_array_index(values, Value, i);
    g_autoptr(Plan) left = plan_for(value->field), plan = plan_for(value->field);
    set(plan, value->field, value->text);
    for (int other = 0; other < plan_n_fields(); other++) {
      g_autofree char *before = plan_field_text(plan_field(other), left),
                      *now = plan_field_text(plan_field(other), plan);
      const gboolean may_change = plan_field(other) == value->field || follows(value->field, plan_field(other));
      ck_assert_msg(may_change || g_strcmp0(before, now) == 0, "%s %s sets %s", value->field->name, value->text,
                    plan_field(other)->name);
    }
  }
}

TEST(every_field_has_values_here) {
  g_autoptr(GArray) values = all_values();
  for (int field = 0; field < plan_n_fields(); field++) {
    gboolean is_there = !plan_field_is_axis(plan_field(field)); /* slow ranks, a map of ranks: read from elsewhere */
    for (guint i = 0; i < values->len; i++)
      is_there |= g_array_index(values, Value, i).field == plan_field(field);
    ck_assert_msg(is_there, "%s", plan_field(field)->name);
  }
}

TEST(a_new_plan_has_the_defaults_and_a_number_has_its_range) {
  for (int i = 0; i < plan_n_fields(); i++) {
    const PlanField *field = plan_field(i);
    g_autoptr(Plan) plan = plan_new();
    g_autoptr(GError) error = NULL;
    g_autofree char *text = plan_field_text(field, plan);
    ck_assert_msg(field->by_default == NULL || g_strcmp0(text, field->by_default) == 0, "%s is %s", field->name, text);
    ck_assert(plan_fields_check_ranges(plan, NULL));
    if (field->most == 0 && field->least == 0)
      continue;
    g_autofree char *beyond = g_strdup_printf("%.17g", field->most + 1);
    set(plan, field, beyond);
    ck_assert_msg(!plan_fields_check_ranges(plan, &error), "%s %s", field->name, beyond);
    ck_assert_msg(strstr(error->message, field->name) == error->message, "%s", error->message);
  }
}

TEST(help_has_every_name_of_a_choice_and_the_default) {
  for (int i = 0; i < plan_n_fields(); i++) {
    const PlanField *field = plan_field(i);
    const char *help = plan_field_help(field);
    for (int n = 0; field->kind == PLAN_CHOICE && field->names()[n] != NULL; n++)
      ck_assert_msg(strstr(help, field->names()[n]) != NULL, "%s: %s", field->name, field->names()[n]);
    ck_assert_msg(field->by_default == NULL || strstr(help, " (default ") != NULL, "%s", help);
  }
}

TEST(what_is_set_names_the_option_where_it_is_wrong) {
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

/* The order of typing does not matter: a recipe is what was typed, not the framework's; memory-cap knows the schedule.
 */
TEST(what_depends_on_other_fields_is_set_after_them) {
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

int main(void) {
  return run_tests();
}
