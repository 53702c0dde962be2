/* From typed options to a Plan: each option is read by its kind, then clashing ones are refused. */
#include "options.h"

#include <string.h>

#include "error.h"
#include "number_range.h"
#include "pipeline_layout.h"
#include "plan_order.h"
#include "rank_map.h"
#include "units.h"

void plan_options_init(PlanOptions *options) {
  memset(options, 0, sizeof *options);
  options->tp = options->cp = options->ep = options->pp = 1;
  options->chunks = options->group = options->steps = OPTION_NOT_GIVEN;
  options->gpus = options->dp = options->zero_ranks = options->prefetch = OPTION_NOT_GIVEN;
  options->micro_batch = options->global_batch = options->seq_len = options->bucket_parameters = OPTION_NOT_GIVEN;
  options->seed = 1;
  options->expert_load = 1;
}

void plan_options_clear(PlanOptions *options) {
  char **strings[] = {&options->model_file,
                      &options->cluster_file,
                      &options->schedule,
                      &options->pipeline_layout,
                      &options->recompute,
                      &options->sequence_parallel,
                      &options->precision,
                      &options->recipe,
                      &options->attention,
                      &options->cp_comm,
                      &options->expert_dispatch,
                      &options->overlap_experts,
                      &options->cuda_graphs,
                      &options->overlap_grad,
                      &options->overlap_param,
                      &options->order,
                      &options->rank_map,
                      &options->memory_cap,
                      &options->fold,
                      &options->flops,
                      &options->overlap_p2p,
                      &options->framework,
                      &options->contention,
                      &options->grad_norm_barrier,
                      &options->norm_kernel,
                      &options->recompute_modules,
                      &options->offload_optimizer,
                      &options->offload_weights,
                      &options->offload_activations};
  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_clear_pointer(strings[i], g_free);
  g_clear_pointer(&options->slow_ranks, g_strfreev);
  g_clear_pointer(&options->model, model_free);
  g_clear_pointer(&options->cluster, cluster_free);
  g_clear_pointer(&options->plan, plan_free);
}

static gboolean parse_named(const char *option, const char *text, const char *const *names, guint *value,
                            GError **error) {
  if (text == NULL)
    return TRUE;
  int index = parse_choice(option, text, names, error);
  if (index < 0)
    return FALSE;
  *value = index;
  return TRUE;
}

static gboolean parse_cp_comm(const char *text, guint *value, GError **error) {
  const int index = text != NULL ? cp_comm_parse("--cp-comm", text, error) : (int)*value;
  *value = MAX(index, 0);
  return index >= 0;
}

static gboolean parse_offload(const PlanOptions *o, Offload *offload, GError **error) {
  guint optimizer = offload->optimizer, weights = offload->weights, activations = offload->activations;
  if (!parse_named("--offload-optimizer", o->offload_optimizer, offload_names(), &optimizer, error) ||
      !parse_named("--offload-weights", o->offload_weights, offload_names(), &weights, error) ||
      !parse_named("--offload-activations", o->offload_activations, offload_activations_names(), &activations, error))
    return FALSE;
  *offload = (Offload){optimizer, weights, activations};
  return TRUE;
}

/* Comes first because the framework has defaults for other options. */
static gboolean parse_framework(const PlanOptions *o, Plan *plan, GError **error) {
  if (o->framework == NULL)
    return TRUE;
  const Framework *known = o->frameworks != NULL ? g_hash_table_lookup(o->frameworks, o->framework) : NULL;
  Framework framework;
  if (known == NULL && !framework_read(o->framework, &framework, error)) {
    g_prefix_error(error, "--framework: ");
    return FALSE;
  }
  plan_set_framework(plan, o->framework, known != NULL ? known : &framework);
  if (known == NULL && o->frameworks != NULL)
    g_hash_table_insert(o->frameworks, g_strdup(o->framework), g_memdup2(&framework, sizeof framework));
  return TRUE;
}

static gboolean parse_choices(const PlanOptions *o, Plan *plan, GError **error) {
  guint recompute = plan->recompute, attention = plan->attention, flops = plan->flops, cp_comm = plan->cp_comm;
  guint cuda_graphs = (guint)plan->cuda_graphs;
  guint norm_kernel = (guint)plan->norm_kernel, expert_dispatch = (guint)plan->expert_dispatch;
  if (!parse_named("--recompute", o->recompute, recompute_names(), &recompute, error) ||
      !parse_named("--attention", o->attention, attention_names(), &attention, error) ||
      !parse_named("--norm-kernel", o->norm_kernel, norm_kernel_names(), &norm_kernel, error) ||
      !parse_named("--expert-dispatch", o->expert_dispatch, expert_dispatch_names(), &expert_dispatch, error) ||
      !parse_named("--cuda-graphs", o->cuda_graphs, cuda_graphs_names(), &cuda_graphs, error) ||
      !parse_cp_comm(o->cp_comm, &cp_comm, error) ||
      !parse_named("--flops", o->flops, flops_convention_names(), &flops, error))
    return FALSE;
  plan->recompute = recompute;
  plan->attention = attention;
  plan->norm_kernel = (int)norm_kernel;
  plan->expert_dispatch = (int)expert_dispatch;
  plan->cuda_graphs = (int)cuda_graphs;
  plan->cp_comm = cp_comm;
  plan->flops = flops;
  if (o->precision != NULL && !precision_parse(o->precision, &plan->precision, error))
    return FALSE;
  if (!parse_framework(o, plan, error))
    return FALSE;
  if (o->recompute_modules != NULL &&
      !recompute_modules_parse("--recompute-modules", o->recompute_modules, &plan->recompute_modules, error))
    return FALSE;
  const char *recipe = o->recipe != NULL ? o->recipe : plan->precision == PRECISION_FP32 ? "fp32" : NULL;
  if (recipe != NULL && !recipe_parse(recipe, &plan->recipe, error))
    return FALSE;
  return o->order == NULL || plan_parse_order(plan, o->order, error);
}

static gboolean parse_switches(const PlanOptions *o, Plan *plan, GError **error) {
  return parse_switch("--sequence-parallel", o->sequence_parallel, &plan->sequence_parallel, error) &&
         parse_switch("--overlap-grad", o->overlap_grad, &plan->overlap_grad, error) &&
         parse_switch("--overlap-param", o->overlap_param, &plan->overlap_param, error) &&
         parse_switch("--overlap-experts", o->overlap_experts, &plan->overlap_experts, error) &&
         parse_switch("--overlap-p2p", o->overlap_p2p, &plan->overlap_p2p, error) &&
         parse_switch("--grad-norm-barrier", o->grad_norm_barrier, &plan->grad_norm_barrier, error) &&
         parse_switch("--contention", o->contention, &plan->contention, error) &&
         parse_switch("--fold", o->fold, &plan->fold, error);
}

static gboolean check_overlap(const PlanOptions *o, const Plan *plan, GError **error) {
  if (plan->time.data_parallel != DP_ALONE)
    return TRUE;
  const char *asked = g_strcmp0(o->overlap_grad, "on") == 0    ? "--overlap-grad on"
                      : g_strcmp0(o->overlap_param, "on") == 0 ? "--overlap-param on"
                                                               : NULL;
  return asked == NULL ||
         fail_impossible(error, "%s and --framework %s clash: it runs collectives of dp beside nothing", asked,
                         plan->framework);
}

enum { MOST_SLOW_RANKS = 1 << 20 }; /* ranks in ranges are below this */

/* "5", "0..7" or "0..63+8". */
static gboolean parse_ranks(const char *text, NumberRange *ranks) {
  if (strstr(text, "..") != NULL)
    return number_range_parse(text, 0, ranks) && ranks->last < MOST_SLOW_RANKS;
  guint64 rank;
  if (!g_ascii_string_to_unsigned(text, 10, 0, G_MAXINT, &rank, NULL))
    return FALSE;
  *ranks = (NumberRange){.first = (gint64)rank, .last = (gint64)rank, .step = 1};
  return TRUE;
}

static gboolean parse_slow_ranks(const PlanOptions *o, Plan *plan, GError **error) {
  for (char **text = o->slow_ranks; text != NULL && *text != NULL; text++) {
    g_auto(GStrv) parts = g_strsplit(*text, "=", 2);
    NumberRange ranks;
    char *end = NULL;
    double factor = parts[0] != NULL && parts[1] != NULL ? g_ascii_strtod(parts[1], &end) : 0;
    if (end == NULL || end == parts[1] || *end != '\0' || !parse_ranks(parts[0], &ranks))
      return fail_input(
          error,
          "--slow-rank: found \"%.80s\", expected RANK=FACTOR or FIRST..LAST=FACTOR, the first rank below "
          "the last and that below %d, e.g. 5=1.4 or 0..7=1.4",
          *text, MOST_SLOW_RANKS);
    gint64 rank = ranks.first;
    do {
      SlowRank slow = {(int)rank, factor};
      g_array_append_val(plan->slow_ranks, slow);
    } while (number_range_next(&ranks, &rank));
  }
  return TRUE;
}

/* Numbers with an open default. */
static gboolean copy_open_numbers(const PlanOptions *o, Plan *plan, GError **error) {
  const struct {
    const char *option;
    gint64 given;
    int *target;
    gint64 *wide_target;
    gint64 least; /* 0 leaves it open, too */
  } numbers[] = {
      {"--gpus", o->gpus, &plan->gpus, NULL, 1},
      {"--dp", o->dp, &plan->dp, NULL, 1},
      {"--zero-ranks", o->zero_ranks, &plan->zero_ranks, NULL, 0},
      {"--micro-batch", o->micro_batch, NULL, &plan->micro_batch, 1},
      {"--global-batch", o->global_batch, NULL, &plan->global_batch, 1},
      {"--seq-len", o->seq_len, NULL, &plan->seq_len, 1},
      {"--chunks", o->chunks, &plan->chunks, NULL, 1},
      {"--micro-batch-group", o->group, &plan->group, NULL, 1},
      {"--steps", o->steps, &plan->steps, NULL, 1},
      {"--bucket", o->bucket_parameters, NULL, &plan->bucket_parameters, 1},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++) {
    if (numbers[i].given == OPTION_NOT_GIVEN)
      continue;
    if (numbers[i].given < numbers[i].least)
      return fail_input(error, "%s: found %" G_GINT64_FORMAT ", expected at least %" G_GINT64_FORMAT, numbers[i].option,
                        numbers[i].given, numbers[i].least);
    if (numbers[i].target != NULL)
      *numbers[i].target = (int)numbers[i].given;
    else
      *numbers[i].wide_target = numbers[i].given;
  }
  return TRUE;
}

/* Runs record the result of auto as "auto: zb-v". */
static gboolean is_auto_schedule(const char *text) {
  return text != NULL && (strcmp(plan_order_spelling(text), "auto") == 0 || g_str_has_prefix(text, "auto: "));
}

static void copy_numbers(const PlanOptions *o, Plan *plan) {
  plan->tp = o->tp;
  plan->cp = o->cp;
  plan->ep = o->ep;
  plan->expert_tp = o->expert_tp;
  plan->expert_load = o->expert_load;
  plan->mtp_layers = o->mtp_layers;
  plan->pp = o->pp;
  plan->zero = o->zero;
  plan->seed = o->seed;
  plan->jitter = o->jitter;
  if (o->prefetch != OPTION_NOT_GIVEN)
    plan->prefetch = o->prefetch;
  if (o->schedule != NULL) {
    g_free(plan->schedule);
    plan->schedule = g_strdup(is_auto_schedule(o->schedule) ? "auto" : plan_order_spelling(o->schedule));
  }
}

/* A layout in letters also states the number of multi-token-prediction heads; both must agree. */
static gboolean copy_layout(const PlanOptions *o, Plan *plan, GError **error) {
  const char *text = o->pipeline_layout;
  int n_mtp = o->mtp_layers;
  if (text == NULL || strcmp(text, "auto") == 0)
    return TRUE;
  if (pipeline_layout_is_letters(text))
    plan->pipeline_layout = pipeline_layout_of_letters(text, &n_mtp, error);
  else if (pipeline_layout_check(text, error))
    plan->pipeline_layout = g_strdup(text);
  if (plan->pipeline_layout == NULL) {
    g_prefix_error(error, "--pipeline-layout: ");
    return FALSE;
  }
  return n_mtp == o->mtp_layers ||
         fail_impossible(error, "--pipeline-layout %.80s has %d m, --mtp-layers is %d", text, n_mtp, o->mtp_layers);
}

/* Folding is dropped silently only if nobody asked for it. */
static gboolean check_fold(const PlanOptions *o, GError **error) {
  if (g_strcmp0(o->fold, "on") != 0 || (o->jitter == 0 && o->slow_ranks == NULL))
    return TRUE;
  return fail_input(error, "--fold on and %s clash: ranks that differ cannot be stood for by one of them",
                    o->slow_ranks != NULL ? "--slow-rank" : "--jitter");
}

static gboolean set_memory_cap(const PlanOptions *o, Plan *plan, GError **error) {
  if (o->memory_cap == NULL)
    return TRUE;
  if (!is_auto_schedule(o->schedule))
    return fail_input(error, "--memory-cap limits the order that --schedule auto makes; found --schedule %s",
                      o->schedule != NULL ? o->schedule : "left out");
  if (!units_parse(o->memory_cap, UNIT_BYTES, &plan->memory_cap, error)) {
    g_prefix_error(error, "--memory-cap: ");
    return FALSE;
  }
  return plan->memory_cap >= 1 ||
         fail_input(error, "--memory-cap: found \"%.80s\", expected at least one byte", o->memory_cap);
}

gboolean plan_options_make_plan(PlanOptions *options, GError **error) {
  options->plan = plan_new();
  copy_numbers(options, options->plan);
  return copy_open_numbers(options, options->plan, error) && parse_choices(options, options->plan, error) &&
         parse_switches(options, options->plan, error) && parse_offload(options, &options->plan->offload, error) &&
         check_overlap(options, options->plan, error) && parse_slow_ranks(options, options->plan, error) &&
         set_memory_cap(options, options->plan, error) && copy_layout(options, options->plan, error) &&
         check_fold(options, error);
}

static gboolean read_rank_map(PlanOptions *o, GError **error) {
  if (o->rank_map == NULL)
    return TRUE;
  o->plan->rank_map = rank_map_read(o->rank_map, o->cluster, error);
  if (o->plan->rank_map == NULL)
    return FALSE;
  if (o->gpus == OPTION_NOT_GIVEN && o->dp == OPTION_NOT_GIVEN)
    o->plan->gpus = (int)o->plan->rank_map->len;
  return TRUE;
}

gboolean plan_options_finish(PlanOptions *options, GError **error) {
  if (options->model_file == NULL)
    return fail_input(error, "--model is missing: a Hugging Face config.json, or a name in models/ such as llama-3-8b");
  if (options->cluster_file == NULL)
    return fail_input(error, "--cluster is missing: a cluster YAML, or a name in topologies/ such as dgx-h100");
  if (!plan_options_make_plan(options, error))
    return FALSE;
  options->model = model_read(options->model_file, error);
  if (options->model == NULL || !plan_options_check_model(options->plan, options->model, error))
    return FALSE;
  options->cluster = cluster_read(options->cluster_file, error);
  return options->cluster != NULL && plan_options_check_cluster(options, options->cluster, error) &&
         read_rank_map(options, error);
}
