/* What is written for Megatron-LM, DeepSpeed and torchtitan is read back as the plan it was written for. */
#include <glib/gstdio.h>
#include <string.h>

#include "error.h"
#include "launch.h"
#include "options.h"
#include "predict.h"
#include "run_suite.h"
#include "splitmix.h"

/* Options and the values they are drawn from; an empty one is left out. */
static const struct {
  const char *option, *values;
} drawn[] = {
    {"tp", "1 1 2 4"},
    {"pp", "1 1 2 4"},
    {"cp", "1 1 1 2"},
    {"cp-comm", "ring all_gather ulysses"},
    {"ep", "1 2 4"},
    {"chunks", " 1 2"},
    {"micro-batch", "1 1 2"},
    {"global-batch", "16 32 64"},
    {"seq-len", "1024 2048"},
    {"zero", "0 1 2 3"},
    {"zero-ranks", "   2 4"},
    {"recompute", "none none selective full full:2 block:1 every:2"},
    {"sequence-parallel", "on off"},
    {"precision", "bf16 bf16 fp16 fp32 fp8 mxfp8"},
    {"recipe", "   bf16+master megatron"},
    {"overlap-grad", "  off"},
    {"overlap-param", "  off"},
    {"schedule", "    zb-v"},
    {"offload-optimizer", "    host host:0.5"},
    {"offload-weights", "      host"},
    {"bucket", "   50000000"},
    {"expert-dispatch", "   deepep all_gather"},
    {"attention", "  unfused"},
    {"loss", "   fused"},
    {"order", "    tp-cp-ep-pp-dp"},
    {"pipeline-layout", "    balanced"},
};

static const char *const models[] = {"gpt2", "llama-3-8b", "qwen2.5-7b", "mixtral-8x7b", "gpt3-1.3b"};

/* The framework each file is read as. */
static const char *const frameworks[N_LAUNCHES] = {"megatron-core", "deepspeed", "torchtitan-eager"};

static void draw(PlanOptions *options, guint64 number) {
  guint64 state = splitmix(number);
  for (gsize i = 0; i < G_N_ELEMENTS(drawn); i++) {
    g_auto(GStrv) values = g_strsplit(drawn[i].values, " ", -1);
    state = splitmix(state);
    const char *value = values[state % g_strv_length(values)];
    if (*value != '\0')
      plan_options_set_default(options, drawn[i].option, value);
  }
}

/* Of these most plans are refused otherwise. */
static void draw_for(PlanOptions *options, LaunchFramework framework) {
  static const char *const of_deepspeed[][2] = {{"cp", "1"}, {"sequence-parallel", "off"}, {"overlap-param", "off"}};
  for (gsize i = 0; framework == LAUNCH_DEEPSPEED && i < G_N_ELEMENTS(of_deepspeed); i++)
    plan_options_set_default(options, of_deepspeed[i][0], of_deepspeed[i][1]);
  const char *zero = plan_options_typed(options, "zero");
  if (framework == LAUNCH_DEEPSPEED && (strcmp(zero, "0") == 0 || strcmp(zero, "3") == 0))
    plan_options_set_default(options, zero[0] == '0' ? "overlap-grad" : "overlap-param", zero[0] == '0' ? "off" : "on");
}

/* FALSE: the plan cannot be, or cannot be started there. */
static gboolean write_launch(PlanOptions *options, LaunchFramework framework, const char *path) {
  g_autoptr(Workload) workload = workload_complete(options->model, options->cluster, options->plan, NULL);
  const Plan *plan = workload != NULL ? workload->plan : NULL;
  if (plan == NULL || (plan_data_ranks(plan) == 1 && plan->zero > 0) ||
      (plan->precision == PRECISION_FP32 && plan->recipe.weights < 4) ||
      (framework == LAUNCH_TORCHTITAN && !plan->overlap_grad) ||
      (framework == LAUNCH_TORCHTITAN && plan->zero == 0 && plan->cp > 1) ||
      (framework != LAUNCH_MEGATRON && plan->order[N_AXES - 1] != AXIS_PP))
    return FALSE; /* shards of one rank, a recipe of fp32, DDP without overlap or with cp, orders are not said there */
  g_autoptr(Launch) launch = workload != NULL ? launch_new(framework, workload, 8, NULL) : NULL;
  for (guint i = 0; launch != NULL && i < launch->notices->len; i++)
    if (g_str_has_prefix(launch->notices->pdata[i], "predicted with ") &&
        strstr(launch->notices->pdata[i], "model's code must") == NULL)
      return FALSE; /* it runs something else, as it says */
  return launch != NULL && g_file_set_contents(path, launch->text, -1, NULL);
}

/* What the files do not say, from the plan they were written for. */
static void say_besides(PlanOptions *options, const PlanOptions *of, LaunchFramework framework) {
  static const char *const of_deepspeed[] = {"seq-len", "recompute", "pipeline-layout", "attention", "loss", NULL};
  static const char *const of_torchtitan[] = {"attention", "loss", "recipe", "expert-dispatch", "bucket", NULL};
  static const char *const of_megatron[] = {NULL};
  static const char *const *const said[N_LAUNCHES] = {of_megatron, of_deepspeed, of_torchtitan};
  plan_options_set_default(options, "gpus", "16");
  options->model_file = g_strdup(of->model_file);
  options->cluster_file = g_strdup(of->cluster_file);
  for (const char *const *option = said[framework]; *option != NULL; option++)
    if (plan_options_typed(of, *option) != NULL)
      plan_options_set_default(options, *option, plan_options_typed(of, *option));
}

static void check_same(const PlanOptions *a, const PlanOptions *b, const char *path, LaunchFramework framework) {
  StepPrediction x, y;
  g_autoptr(GError) error = NULL;
  if (!predict_step(NULL, a->model, a->cluster, a->plan, &x, NULL))
    return;
  g_autofree char *text = NULL;
  g_file_get_contents(path, &text, NULL, NULL);
  ck_assert_msg(predict_step(NULL, b->model, b->cluster, b->plan, &y, &error), "%s\n%s",
                error != NULL ? error->message : "", text);
  for (guint i = 0; i < b->file->notices->len; i++) {
    const PlanFileNotice *notice = &g_array_index(b->file->notices, PlanFileNotice, i);
    ck_assert_msg(strstr(notice->message, "not understood") == NULL, "%s: %s", notice->what, notice->message);
  }
  g_autoptr(GString) typed = g_string_new(NULL);
  for (int i = 0; i < plan_n_fields(); i++)
    if (a->texts[i] != NULL || b->texts[i] != NULL)
      g_string_append_printf(typed, "%s %s / %s\n", plan_field(i)->name, a->texts[i], b->texts[i]);
  ck_assert_msg(x.step_time_s == y.step_time_s && x.peak_bytes == y.peak_bytes, "%s: %.9g s %.9g, %.9g s %.9g\n%s%s",
                launch_names()[framework], x.step_time_s, x.peak_bytes, y.step_time_s, y.peak_bytes, typed->str, text);
}

/* Whether it was one that can be started. */
static gboolean check_plan(guint64 number, LaunchFramework framework, const char *path) {
  PlanOptions of, read;
  plan_options_init(&of);
  plan_options_init(&read);
  draw(&of, number);
  of.model_file = g_strdup(models[number % G_N_ELEMENTS(models)]);
  of.cluster_file = g_strdup("dgx-h100");
  plan_options_set_default(&of, "gpus", "16");
  plan_options_set_default(&of, "framework", frameworks[framework]);
  draw_for(&of, framework);
  const gboolean is_written = plan_options_finish(&of, NULL) && write_launch(&of, framework, path);
  if (is_written) {
    g_autoptr(GError) error = NULL;
    say_besides(&read, &of, framework);
    read.plan_files = g_strdupv((char *[]){(char *)path, NULL});
    const gboolean is_read = plan_options_take_file(&read, "test", &error) && plan_options_finish(&read, &error);
    ck_assert_msg(is_read, "%s", error != NULL ? error->message : "");
    check_same(&of, &read, path, framework);
  }
  plan_options_clear(&of);
  plan_options_clear(&read);
  return is_written;
}

static void check_many(LaunchFramework framework) {
  g_autofree char *folder = g_dir_make_tmp("import-XXXXXX", NULL);
  g_autofree char *path = g_build_filename(folder, "plan", NULL);
  int n = 0;
  for (guint64 number = 0; number < 40000 && n < 40; number++)
    n += check_plan(number, framework, path);
  g_remove(path);
  g_rmdir(folder);
  ck_assert_int_ge(n, 40);
}

TEST(what_megatron_is_told_is_read_back) {
  check_many(LAUNCH_MEGATRON);
}

TEST(what_deepspeed_is_told_is_read_back) {
  check_many(LAUNCH_DEEPSPEED);
}

TEST(what_torchtitan_is_told_is_read_back) {
  check_many(LAUNCH_TORCHTITAN);
}

int main(void) {
  return run_tests();
}
