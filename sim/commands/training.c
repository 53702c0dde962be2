#include "training.h"

#include <string.h>

#include "error.h"
#include "suggest.h"
#include "units.h"

static const struct {
  const char *name, *help, *value;
  int flags;
} options_table[N_TRAINING_OPTIONS] = {
    [TRAINING_TOKENS] = {"tokens", "tokens to train on, e.g. 15.6T: prints days, GPU-hours, dollars and energy", "N"},
    [TRAINING_GPU_HOURS] = {"gpu-hours", "GPU-hour budget, e.g. 30.84M: prints the tokens it buys", "N"},
    [TRAINING_PRICE] = {"price", "price of a GPU-hour, with --tokens or --gpu-hours (default: the cluster file's)",
                        "\"2.50 $/h\""},
    [TRAINING_MTBF] = {"mtbf",
                       "with --tokens: mean time between interruptions of the job (default: the cluster file's "
                       "failures)",
                       "TIME"},
    [TRAINING_EVERY] = {"checkpoint-every", "with --tokens: time between checkpoints (default best)", "TIME|best"},
    [TRAINING_RESTART] = {"restart",
                          "with --tokens: time from an interruption until training goes on (default: the cluster "
                          "file's, or 10 min)",
                          "TIME"},
    [TRAINING_CHECKPOINT] = {"checkpoint",
                             "with --tokens: sync (every GPU writes its part, default), async (behind training) or "
                             "gathered (one node writes all)",
                             "HOW"},
    [TRAINING_SPARES] = {"spares",
                         "with --tokens: nodes that stand by and are paid for (default: another is always at hand)",
                         "N"},
    [TRAINING_ELASTIC] = {"elastic",
                          "with --tokens, when nodes are lost: off (wait for others, default), restart (with a smaller "
                          "dp) or live (other dp ranks go on)",
                          "HOW"},
    [TRAINING_PLOT] = {"run-plot", "with --tokens: draw a run over its days: progress, dp, interruptions",
                       "FILE.svg|png|pdf", OPTION_WRITES},
};

void training_options_add(TrainingOptions *options, Parser *parser) {
  for (int i = 0; i < N_TRAINING_OPTIONS; i++) {
    const GOptionEntry entry[] = {
        {options_table[i].name, 0, options_table[i].flags,
         options_table[i].flags == OPTION_WRITES ? G_OPTION_ARG_FILENAME : G_OPTION_ARG_STRING, &options->texts[i],
         options_table[i].help, options_table[i].value},
        G_OPTION_ENTRY_NULL};
    parser_add(parser, entry);
  }
}

void training_options_clear(TrainingOptions *options) {
  for (int i = 0; i < N_TRAINING_OPTIONS; i++)
    g_clear_pointer(&options->texts[i], g_free);
}

/* --- values --- */

static gboolean prefixed(TrainingOption option, gboolean ok, GError **error) {
  if (!ok)
    g_prefix_error(error, "--%s: ", options_table[option].name);
  return ok;
}

static gboolean parse_count(const TrainingOptions *o, TrainingOption option, double *value, GError **error) {
  return o->texts[option] == NULL || prefixed(option, units_parse_count(o->texts[option], value, error), error);
}

static gboolean parse_quantity(const TrainingOptions *o, TrainingOption option, UnitKind unit, double *value,
                               GError **error) {
  return o->texts[option] == NULL || prefixed(option, units_parse(o->texts[option], unit, value, error), error);
}

static gboolean parse_time(const TrainingOptions *o, TrainingOption option, double least_s, double *seconds,
                           GError **error) {
  return parse_quantity(o, option, UNIT_SECONDS, seconds, error) &&
         (o->texts[option] == NULL || *seconds >= least_s ||
          fail_input(error, "--%s: found \"%.80s\", expected at least %g s", options_table[option].name,
                     o->texts[option], least_s));
}

static gboolean parse_how(const TrainingOptions *o, TrainingOption option, const char *const *names, int *value,
                          GError **error) {
  g_autofree char *name = g_strconcat("--", options_table[option].name, NULL);
  if (o->texts[option] != NULL)
    *value = parse_choice(name, o->texts[option], names, error);
  return *value >= 0;
}

static gboolean parse_spares(TrainingOptions *o, GError **error) {
  const char *text = o->texts[TRAINING_SPARES];
  gint64 n_spares = SPARES_NOT_GIVEN;
  if (text != NULL && !prefixed(TRAINING_SPARES, units_parse_whole(text, 0, 1000 * 1000, &n_spares, error), error))
    return FALSE;
  o->request.n_spares = (int)n_spares;
  return TRUE;
}

static gboolean has_interruptions(const TrainingOptions *o) {
  for (int i = TRAINING_MTBF; i < N_TRAINING_OPTIONS; i++)
    if (o->texts[i] != NULL)
      return TRUE;
  return FALSE;
}

static gboolean check_length(const TrainingOptions *o, GError **error) {
  const char *tokens = o->texts[TRAINING_TOKENS], *gpu_hours = o->texts[TRAINING_GPU_HOURS];
  if (tokens != NULL && gpu_hours != NULL)
    return fail_input(error, "--tokens %.80s and --gpu-hours %.80s clash: one follows from the other", tokens,
                      gpu_hours);
  for (int i = TRAINING_PRICE; i < N_TRAINING_OPTIONS && tokens == NULL && gpu_hours == NULL; i++)
    if (o->texts[i] != NULL)
      return fail_input(error, "--%s needs --tokens or --gpu-hours", options_table[i].name);
  return TRUE;
}

gboolean training_options_finish(TrainingOptions *o, GError **error) {
  int save = SAVE_SYNC, elastic = ELASTIC_OFF;
  o->price = -1;
  o->request = (RunRequest){.restart_s = -1};
  const gboolean is_best = g_strcmp0(o->texts[TRAINING_EVERY], "best") == 0;
  if (!check_length(o, error) || !parse_quantity(o, TRAINING_PRICE, UNIT_DOLLARS_PER_HOUR, &o->price, error) ||
      !parse_count(o, TRAINING_TOKENS, &o->request.tokens, error) ||
      !parse_count(o, TRAINING_GPU_HOURS, &o->gpu_hours, error) ||
      !parse_time(o, TRAINING_MTBF, 1, &o->request.mtbf_s, error) ||
      !(is_best || parse_time(o, TRAINING_EVERY, 1e-3, &o->request.interval_s, error)) ||
      !parse_time(o, TRAINING_RESTART, 0, &o->request.restart_s, error) || !parse_spares(o, error) ||
      !parse_how(o, TRAINING_CHECKPOINT, save_how_names, &save, error) ||
      !parse_how(o, TRAINING_ELASTIC, run_elastic_names, &elastic, error))
    return FALSE;
  o->request.save = (SaveHow)save;
  o->request.elastic = (RunElastic)elastic;
  return o->texts[TRAINING_PLOT] == NULL || picture_check_file(o->texts[TRAINING_PLOT], error);
}

/* --- the run --- */

static void set_cost(Training *training, const TrainingOptions *o, const Cluster *cluster, const Prediction *prediction,
                     double tokens) {
  const Plan *plan = prediction->workload->plan;
  const RunSetup *setup = training->setup;
  const Goodput goodput = setup != NULL ? run_goodput(setup, &training->summary) : (Goodput){0};
  training->cost = training_cost_of(tokens, prediction->tokens_per_s, plan->gpus,
                                    o->price < 0 ? cluster->dollars_per_gpu_hour : o->price,
                                    plan_gpu_power_W(plan, cluster), setup != NULL ? &goodput : NULL);
  if (setup == NULL)
    return;
  training->cost.expected_gpu_hours *= (double)setup->n_gpus_paid / plan->gpus;
  training->cost.expected_dollars *= (double)setup->n_gpus_paid / plan->gpus;
}

gboolean training_make(Training *training, const TrainingOptions *o, const PlanOptions *plan,
                       const Prediction *prediction, GError **error) {
  enum { N_RUNS = 200 };
  RunRequest request = o->request;
  if (request.tokens == 0)
    request.tokens = o->gpu_hours * prediction->tokens_per_s_per_gpu * 3600;
  if (request.tokens == 0)
    return TRUE;
  if (has_interruptions(o) || plan->cluster->failures != NULL) {
    training->setup = run_setup_new(&request, prediction, plan->model, plan->cluster, plan->plan, error);
    if (training->setup == NULL)
      return FALSE;
    training->summary = training_run_many(&training->setup->run, plan->plan->seed, N_RUNS);
  }
  set_cost(training, o, plan->cluster, prediction, request.tokens);
  return TRUE;
}

void training_clear(Training *training) {
  g_clear_pointer(&training->setup, run_setup_free);
  run_summary_clear(&training->summary);
}

void training_text(const Training *training, const TrainingOptions *o, GString *out) {
  static const char indent[] = "              ";
  if (training->cost.tokens == 0)
    return;
  g_string_append_c(out, '\n');
  training_cost_text(&training->cost, "Training run  ", "Failures      ", out);
  if (training->setup == NULL)
    return;
  run_text(training->setup, &training->summary, &training->cost, indent, out);
  if (o->gpu_hours > 0) {
    g_autofree char *hours = units_format_count(o->gpu_hours),
                    *trained = units_format_count(training->cost.tokens * training->cost.goodput.share);
    g_string_append_printf(out, "%s%s GPU-hours then train on %s tokens\n", indent, hours, trained);
  }
}

void training_json(const Training *training, JsonBuilder *builder) {
  if (training->cost.tokens == 0)
    return;
  training_cost_json(&training->cost, builder);
  if (training->setup != NULL)
    run_json(training->setup, &training->summary, &training->cost, builder);
  json_builder_end_object(builder);
}

gboolean training_plot(const Training *training, const TrainingOptions *o, const PlanOptions *plan, const char *where,
                       GError **error) {
  const char *file = o->texts[TRAINING_PLOT];
  if (file == NULL)
    return TRUE;
  g_autofree char *tokens = units_format_count(training->cost.tokens);
  g_autofree char *title = g_strdup_printf("%s tokens: %s", tokens, where);
  return picture_take(run_picture(training->setup, plan->plan->seed, title, error), file, error);
}
