#include <stdio.h>
#include <string.h>

#include "command.h"
#include "data_path.h"
#include "error.h"
#include "json_file.h"
#include "options.h"
#include "result_diff.h"
#include "result_json.h"
#include "step_of_prediction.h"
#include "units.h"

static const PlanOptionSet option_set = PLAN_OPTIONS_SIMULATED | PLAN_OPTIONS_PLACED;

typedef struct {
  PlanOptions common;
  char *price;
  double dollars_per_gpu_hour; /* < 0: each cluster's own */
} DiffVerb;

static gboolean parse_options(DiffVerb *o, int *argc, char ***argv, GError **error) {
  g_autoptr(Parser) parser = parser_new(
      "A B",
      "Sets two predictions beside each other: what differs in their plans, what it costs, where the time went. Each "
      "is\n"
      "a plan, in a file as of --plan or as options in quotes, or a result that simulate --json printed. Options "
      "behind\n"
      "them go for both plans: an option in quotes goes before them, and they before a file's.",
      "Examples:\n"
      "  stepsim diff \"--tp 8 --pp 4\" \"--tp 4 --pp 8\" --model llama-3-70b --cluster dgx-h100 --gpus 64 \\\n"
      "      --global-batch 128 --seq-len 8192 --zero 1 --sequence-parallel on\n"
      "  stepsim diff plan.yaml \"--plan plan.yaml --pp 8\"\n"
      "  stepsim diff plan.yaml result.json\n\n"
      "Exit status: 0 done, 1 a plan is impossible or does not fit in memory, 2 bad usage or input.");
  const GOptionEntry entries[] = {{"price", 0, 0, G_OPTION_ARG_STRING, &o->price,
                                   "price of a GPU-hour (default: each cluster file's)", "\"2.50 $/h\""},
                                  G_OPTION_ENTRY_NULL};
  plan_options_init(&o->common);
  parser_add(parser, entries);
  plan_options_add(&o->common, PLAN_OPTIONS_JSON | option_set, parser);
  if (!parser_run(parser, argc, argv, TRUE, error))
    return FALSE;
  if (*argc != 3)
    return fail_input(error, "found %d plan%s, expected two: files, results of simulate --json, or options in quotes",
                      *argc - 1, *argc == 2 ? "" : "s");
  o->dollars_per_gpu_hour = -1;
  if (o->price == NULL || units_parse(o->price, UNIT_DOLLARS_PER_HOUR, &o->dollars_per_gpu_hour, error))
    return TRUE;
  g_prefix_error(error, "--price: ");
  return FALSE;
}

/* What was typed for both, to be completed by one side. */
static void copy_common(const PlanOptions *common, PlanOptions *own) {
  plan_options_init(own);
  own->model_file = g_strdup(common->model_file);
  own->cluster_file = g_strdup(common->cluster_file);
  own->plan_files = g_strdupv(common->plan_files);
  own->repeated = g_strdupv(common->repeated);
  for (int i = 0; i < plan_n_fields(); i++)
    own->texts[i] = g_strdup(common->texts[i]);
}

static gboolean predict_plan(const DiffVerb *o, PlanOptions *plan, const char *name, Result *result, GError **error) {
  if (!plan_options_read_text(plan, name, option_set, "stepsim diff", error) || !plan_options_finish(plan, error))
    return FALSE;
  g_autoptr(Prediction) prediction = predict(plan->model, plan->cluster, plan->plan, error);
  if (prediction == NULL)
    return FALSE;
  g_autofree int *in_flight = g_new0(int, prediction->program->n_ranks);
  const StepReport report = step_of_prediction(prediction, in_flight);
  const ResultOf of = {plan->model, plan->cluster, plan->plan, o->dollars_per_gpu_hour};
  g_autofree char *text = json_finish(json_builder_end_object(result_json_begin(prediction, &report, &of)));
  return result_take(result, name, json_from_string(text, NULL), error);
}

/* An object with a step's time is a result; what else is in a file may be a plan. */
static gboolean is_result(const char *name) {
  gsize length;
  g_autofree char *text = *name != '-' ? data_file_read(name, &length, NULL) : NULL;
  return text != NULL && text[strspn(text, " \t\r\n")] == '{' && strstr(text, "\"step_time_s\"") != NULL;
}

static gboolean make_side(const DiffVerb *o, const char *name, Result *result, GError **error) {
  if (is_result(name)) {
    g_autoptr(JsonFile) json = json_file_read(name, error);
    return json != NULL && result_take(result, name, json_node_ref(json->node), error);
  }
  PlanOptions own;
  copy_common(&o->common, &own);
  const gboolean is_made = predict_plan(o, &own, name, result, error);
  plan_options_clear(&own);
  if (!is_made)
    g_prefix_error(error, "%.80s: ", name);
  return is_made;
}

static int run(const DiffVerb *o, char **names, GError **error) {
  g_auto(Result) a = {0}, b = {0};
  if (!make_side(o, names[1], &a, error) || !make_side(o, names[2], &b, error))
    return 2;
  g_autoptr(GString) text = g_string_new(NULL);
  g_autofree char *json = o->common.json ? result_diff_json(&a, &b) : NULL;
  if (json == NULL)
    result_diff_text(text, &a, &b);
  fputs(json != NULL ? json : text->str, stdout);
  return result_fits(&a) && result_fits(&b) ? 0 : 1;
}

int command_diff(int argc, char **argv, GError **error) {
  DiffVerb options = {0};
  const int status = parse_options(&options, &argc, &argv, error) ? run(&options, argv, error) : 2;
  g_free(options.price);
  plan_options_clear(&options.common);
  return status;
}
