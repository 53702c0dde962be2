#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "error.h"
#include "output.h"
#include "parallel.h"
#include "plan_family.h"
#include "plan_space.h"
#include "plan_ties.h"
#include "planner_report.h"
#include "progress_line.h"
#include "units.h"

typedef struct {
  Space *space;
  char *objective, *tokens, *deadline, *price, *margin, *emit, *emit_to, *save_plan;
  gint top, jobs;
  gboolean json, implies_framework;
  double n_tokens; /* 0: not given */
  GStrv compared;  /* axes that were given several values */
  PlannerRequest request;
} PlanVerb;

static void clear(PlanVerb *o) {
  char *strings[] = {o->objective, o->tokens, o->deadline, o->price, o->margin, o->emit, o->emit_to, o->save_plan};
  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_free(strings[i]);
  g_strfreev(o->compared);
  space_free(o->space);
}

static gboolean prefixed(const char *option, gboolean ok, GError **error) {
  if (!ok)
    g_prefix_error(error, "%s: ", option);
  return ok;
}

static gboolean parse_money_and_time(PlanVerb *o, GError **error) {
  double deadline_s = 0;
  if (o->tokens != NULL && !prefixed("--tokens", units_parse_count(o->tokens, &o->n_tokens, error), error))
    return FALSE;
  if (o->deadline != NULL && !prefixed("--deadline", units_parse(o->deadline, UNIT_SECONDS, &deadline_s, error), error))
    return FALSE;
  if (o->deadline != NULL && o->tokens == NULL)
    return fail_input(error, "--deadline needs --tokens: how many are to be trained on by then");
  if (o->deadline != NULL && !(deadline_s > 0))
    return fail_input(error, "--deadline: found \"%.80s\", expected a time above zero, such as 60d", o->deadline);
  o->request.least_tokens_per_s = deadline_s > 0 ? o->n_tokens / deadline_s : 0;
  o->request.scoring.dollars_per_gpu_hour = -1;
  return o->price == NULL ||
         prefixed("--price",
                  units_parse(o->price, UNIT_DOLLARS_PER_HOUR, &o->request.scoring.dollars_per_gpu_hour, error), error);
}

static gboolean parse_margin(PlanVerb *o, GError **error) {
  MemoryMargin margin = {0};
  if (o->margin != NULL && !prefixed("--memory-margin", memory_margin_parse(o->margin, &margin, error), error))
    return FALSE;
  space_set_memory_margin(o->space, &margin);
  return TRUE;
}

static gboolean parse_request(PlanVerb *o, GError **error) {
  int objective = o->objective != NULL ? parse_choice("--objective", o->objective, objective_names(), error)
                                       : OBJECTIVE_TOKENS_PER_S;
  int framework = o->emit != NULL && objective >= 0 ? parse_choice("--emit", o->emit, launch_names(), error)
                                                    : PLANNER_ANY_FRAMEWORK;
  if (objective < 0 || (o->emit != NULL && framework < 0))
    return FALSE;
  if (o->emit_to != NULL && o->emit == NULL)
    return fail_input(error, "--emit-to %.80s needs --emit megatron, deepspeed or torchtitan", o->emit_to);
  if (o->top < 1 || o->top > 1000)
    return fail_input(error, "--top: found %d, expected 1 to 1000", o->top);
  if (o->jobs < 1 || o->jobs > 1024)
    return fail_input(error, "--jobs: found %d, expected 1 to 1024", o->jobs);
  o->request.scoring.objective = (Objective)objective;
  o->request.framework = framework;
  o->request.zero_is_given = space_given(o->space, "zero") != NULL;
  o->request.seeks_shards = space_given(o->space, "zero-ranks") == NULL;
  o->request.n_kept = o->top;
  o->request.n_threads = o->jobs;
  o->request.space = o->space;
  return parse_margin(o, error) && parse_money_and_time(o, error);
}

/* Dollars on one cluster cannot be compared with hours on another. */
static gboolean check_prices(const PlanVerb *o, GError **error) {
  const int n = space_n_clusters(o->space);
  const Cluster *without = NULL;
  int n_priced = 0;
  for (int i = 0; i < n; i++) {
    const Cluster *cluster = space_cluster(o->space, i);
    n_priced += cluster->dollars_per_gpu_hour > 0;
    without = cluster->dollars_per_gpu_hour > 0 ? without : cluster;
  }
  if (o->request.scoring.objective != OBJECTIVE_COST || o->price != NULL || n_priced == 0 || n_priced == n)
    return TRUE;
  return fail_input(error,
                    "--objective cost compares clusters by price: %s has none; add --price \"2.50 $/h\" for all, "
                    "or name a file that has its own: base: %s and price: 2.50 $/h",
                    without->file, without->name);
}

static gboolean fill_space(PlanVerb *o, GError **error) {
  const int framework = o->request.framework;
  o->compared = plan_family_compared(o->space);
  o->request.compared = (const char *const *)o->compared;
  o->implies_framework = o->emit != NULL && space_given(o->space, "framework") == NULL;
  return (framework == PLANNER_ANY_FRAMEWORK || plan_space_fill_for(o->space, (LaunchFramework)framework, error)) &&
         plan_space_fill(o->space, error) && space_finish(o->space, error);
}

static gboolean parse_options(PlanVerb *o, int *argc, char ***argv, GError **error) {
  g_autoptr(Parser) parser = parser_new(
      NULL,
      "Finds the best plan for a model, a cluster and a batch. Sizes, micro-batch, schedule, ZeRO and recomputation "
      "that\n"
      "you leave out are searched; an option you give is a value, a list or a range (1,2,4 or 1..8 or 1..16*2). What\n"
      "cannot win is ruled out by bounds, the rest is simulated.",
      "Example:\n"
      "  stepsim plan --model llama-3.1-405b --cluster llama3-h100 --gpus 16384 --global-batch 2048 --seq-len 8192 \\\n"
      "      --tokens 15.6T --emit megatron --emit-to llama.sh\n\n"
      "Exit status: 0 done, 1 no plan that is possible fits and meets the deadline, 2 bad usage or input, 130 "
      "interrupted.");
  const GOptionEntry entries[] = {
      {"objective", 0, 0, G_OPTION_ARG_STRING, &o->objective,
       "tokens_per_s, cost ($ per token, with failures if the cluster describes them) or mfu (default tokens_per_s)",
       "WHAT"},
      {"top", 0, 0, G_OPTION_ARG_INT, &o->top, "plans shown: the best and its runners-up (default 5)", "N"},
      {"tokens", 0, 0, G_OPTION_ARG_STRING, &o->tokens,
       "tokens to train on, e.g. 15.6T: prints days, GPU-hours, dollars and energy", "N"},
      {"deadline", 0, 0, G_OPTION_ARG_STRING, &o->deadline, "with --tokens: rule out plans that take longer", "60d"},
      {"price", 0, 0, G_OPTION_ARG_STRING, &o->price, "price of a GPU-hour (default: the cluster file's)",
       "\"2.50 $/h\""},
      {"memory-margin", 0, 0, G_OPTION_ARG_STRING, &o->margin,
       "leave this much of each GPU's memory free (default 0; context and libraries are counted already)",
       "5%|\"4 GB\""},
      {"emit", 0, 0, G_OPTION_ARG_STRING, &o->emit,
       "consider only plans this framework can run, and print its settings for the recommended one: megatron "
       "(arguments), "
       "deepspeed (JSON) or torchtitan (TOML), for the release of --framework (default: the newest known)",
       "FRAMEWORK"},
      {"emit-to", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->emit_to,
       "write these settings to a file (- is standard output, without a report)", "FILE"},
      {"save-plan", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->save_plan,
       "write the recommended plan to a file for --plan (- is standard output, without a "
       "report)",
       "FILE.yaml"},
      {"jobs", 0, 0, G_OPTION_ARG_INT, &o->jobs, "threads (default: one per processor)", "N"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &o->json, "print one JSON object", NULL},
      G_OPTION_ENTRY_NULL};
  o->top = 5;
  o->jobs = parallel_threads();
  o->space = space_new();
  parser_add(parser, entries);
  plan_space_describe(o->space);
  space_add_options(o->space, parser);
  return parser_run(parser, argc, argv, FALSE, error) && space_take_plan(o->space, "stepsim plan", error) &&
         parse_request(o, error) && fill_space(o, error) && check_prices(o, error);
}

static Launch *make_launch(const PlanVerb *o, const PlanOutcome *plan, GError **error) {
  g_autoptr(Workload) workload = workload_complete(plan->model, plan->cluster, plan->plan, error);
  return workload != NULL
             ? launch_new((LaunchFramework)o->request.framework, workload, plan->cluster->gpus_per_node, error)
             : NULL;
}

/* Write the launch text to its own file, with notices about what it does not contain on standard error. */
static gboolean write_launch(const PlanVerb *o, const Launch *launch, GError **error) {
  if (launch->text[0] == '{') /* its own comments say it elsewhere */
    fprintf(stderr, "stepsim plan: notice: written for %s\n", launch->release);
  for (guint i = 0; i < launch->notices->len; i++)
    fprintf(stderr, "stepsim plan: notice: %s\n", (const char *)launch->notices->pdata[i]);
  return output_text(o->emit_to, launch->text, error);
}

/* The name that a model or a cluster was given. */
static const char *name_of(const Space *space, const char *axis, gpointer thing, gpointer (*nth)(const Space *, int)) {
  for (int a = 0; a < space_n_axes(space); a++)
    for (int i = 0; strcmp(space_axis_name(space, a), axis) == 0 && i < space_axis_n_values(space, a); i++)
      if (nth(space, i) == thing)
        return space_axis_nth(space, a, i);
  g_assert_not_reached();
}

static gpointer nth_model(const Space *space, int i) {
  return (gpointer)space_model(space, i);
}

static gpointer nth_cluster(const Space *space, int i) {
  return (gpointer)space_cluster(space, i);
}

/* How many ranks dp has follows from the others, for whoever takes the plan to more GPUs. */
static gboolean save_plan(const PlanVerb *o, const PlanOutcome *plan, GError **error) {
  g_autoptr(PlanFile) file = plan_file_new(o->save_plan), options = plan_outcome_file(plan, NULL);
  plan_file_add(file, "model", name_of(o->space, "model", (gpointer)plan->model, nth_model), 0);
  plan_file_add(file, "cluster", name_of(o->space, "cluster", (gpointer)plan->cluster, nth_cluster), 0);
  for (guint i = 0; i < options->entries->len; i++) {
    const PlanFileEntry *entry = &g_array_index(options->entries, PlanFileEntry, i);
    if (strcmp(entry->option, "dp") != 0)
      plan_file_add(file, entry->option, entry->text, 0);
  }
  return output_plan(file, error);
}

static void print(const PlanVerb *o, const PlannerReport *report) {
  if (o->json) {
    g_autofree char *json = planner_json(report);
    fputs(json, stdout);
    return;
  }
  g_autoptr(GString) text = g_string_new(NULL);
  planner_text(text, report);
  fputs(text->str, stdout);
}

static gboolean report_best(const PlanVerb *o, const PlannerResult *result, GError **error) {
  const PlanOutcome *best = result->kept->pdata[0];
  g_auto(PlanTie) tie = plan_tie_of(result->kept, result->neighbours, o->request.compared);
  g_autoptr(Launch) launch = o->emit != NULL ? make_launch(o, tie.plan, error) : NULL;
  if (o->emit != NULL && launch == NULL)
    return FALSE;
  if (o->emit_to != NULL && !write_launch(o, launch, error))
    return FALSE;
  if (o->save_plan != NULL && !save_plan(o, tie.plan, error))
    return FALSE;
  if (g_strcmp0(o->emit_to, "-") == 0 || g_strcmp0(o->save_plan, "-") == 0)
    return TRUE;
  g_autoptr(GArray) sensitivity = sensitivity_new(best, &o->request);
  TrainingCost cost =
      training_cost_of(o->n_tokens, best->tokens_per_s, best->completed->gpus, best->dollars_per_gpu_hour,
                       plan_gpu_power_W(best->completed, best->cluster), best->has_goodput ? &best->goodput : NULL);
  const PlannerReport report = {.request = &o->request,
                                .result = result,
                                .sensitivity = sensitivity,
                                .cost = o->tokens != NULL ? &cost : NULL,
                                .launch = o->emit_to == NULL ? launch : NULL,
                                .framework = o->emit,
                                .implies_framework = o->implies_framework};
  print(o, &report);
  return TRUE;
}

static int run(const PlanVerb *o, GError **error) {
  const Printed printed[] = {
      {"--json", .given = o->json}, {"--emit-to", .file = o->emit_to}, {"--save-plan", .file = o->save_plan}, {NULL}};
  gboolean replaced;
  if (!output_check_printed(printed, &replaced, error))
    return 2;
  g_auto(Interrupt) interrupt;
  interrupt_init(&interrupt); /* before any thread starts */
  g_autoptr(PlannerResult) result = planner_search(&o->request, &interrupt, error);
  interrupt_clear(&interrupt); /* from here on a signal ends the process as usual */
  if (result != NULL && result->signal != 0) {
    g_autofree char *n = progress_thousands(result->n_configurations);
    g_printerr("stepsim plan: interrupted after simulating %" G_GINT64_FORMAT " plan%s of a space of %s\n",
               result->n_simulated, result->n_simulated == 1 ? "" : "s", n);
    return INTERRUPT_STATUS + result->signal;
  }
  return result != NULL && report_best(o, result, error) ? 0 : 2;
}

int command_plan(int argc, char **argv, GError **error) {
  PlanVerb options = {0};
  int status = parse_options(&options, &argc, &argv, error) ? run(&options, error) : 2;
  clear(&options);
  return status;
}
