#include "options.h"

#include <string.h>

#include "error.h"
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

static void add_files(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"model", 0, 0, G_OPTION_ARG_FILENAME, &o->model_file, "Hugging Face config.json, or a name in models/", "FILE"},
      {"cluster", 0, 0, G_OPTION_ARG_FILENAME, &o->cluster_file, "cluster YAML, or a name in topologies/", "FILE"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_json(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {{"json", 0, 0, G_OPTION_ARG_NONE, &o->json, "print one JSON object", NULL},
                                  G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

const char *options_schedule_help(void) {
  g_autofree char *names = g_strjoinv(", ", (char **)plan_order_names());
  g_autofree char *help = g_strdup_printf("%s, or file:orders.csv (default 1f1b; interleaved with chunks)", names);
  return g_intern_string(help);
}

static void add_sizes(Parser *parser, PlanOptions *o) {
  g_autofree char *given = o->steps != OPTION_NOT_GIVEN ? g_strdup_printf("%d", o->steps) : NULL;
  g_autofree char *steps = g_strdup_printf("steps chained; more than 1 gives the steady state (default %s)",
                                           given != NULL ? given : "1; 3 in a pipeline without --grad-norm-barrier");
  const char *schedules = options_schedule_help();
  const GOptionEntry entries[] = {
      {"gpus", 0, 0, G_OPTION_ARG_INT, &o->gpus, "GPUs in all (default: tp × cp × pp × dp)", "N"},
      {"tp", 0, 0, G_OPTION_ARG_INT, &o->tp, "tensor parallel ranks (default 1)", "N"},
      {"pp", 0, 0, G_OPTION_ARG_INT, &o->pp, "pipeline parallel ranks (default 1)", "N"},
      {"dp", 0, 0, G_OPTION_ARG_INT, &o->dp, "data parallel ranks (default: what is left of --gpus)", "N"},
      {"cp", 0, 0, G_OPTION_ARG_INT, &o->cp, "context parallel ranks, which cut every sequence (default 1)", "N"},
      {"ep", 0, 0, G_OPTION_ARG_INT, &o->ep,
       "ranks that deal out the experts: of cp and dp, with --expert-tp 1 of tp too (default 1)", "N"},
      {"expert-tp", 0, 0, G_OPTION_ARG_INT, &o->expert_tp,
       "tensor parallel ranks of the experts: 1 or that of --tp (default)", "N"},
      {"expert-load", 0, 0, G_OPTION_ARG_DOUBLE, &o->expert_load,
       "rows that come to the fullest rank of --ep, over their mean: 1.2 (default 1: all get as many)", "RATIO"},
      {"chunks", 0, 0, G_OPTION_ARG_INT, &o->chunks,
       "model chunks per pipeline rank (default: what the schedule needs; 2 of interleaved and looped-bfs)", "N"},
      {"schedule", 0, 0, G_OPTION_ARG_STRING, &o->schedule, schedules, "NAME"},
      {"pipeline-layout", 0, 0, G_OPTION_ARG_STRING, &o->pipeline_layout,
       "layers of each stage, parted by +: 7+8*14+6, or 7+even+6; or as Megatron-LM has it: Et*7|(t*8|)*14t*6L; "
       "balanced: by FLOPs; embedding, loss or embedding+loss: these count as a layer (default auto: alike where that "
       "goes)",
       "LAYERS"},
      {"micro-batch-group", 0, 0, G_OPTION_ARG_INT, &o->group,
       "interleaved: micro-batches that pass a chunk in a row (default: about as many as pipeline ranks)", "N"},
      {"micro-batch", 0, 0, G_OPTION_ARG_INT64, &o->micro_batch, "sequences per micro-batch (default 1)", "N"},
      {"global-batch", 0, 0, G_OPTION_ARG_INT64, &o->global_batch,
       "sequences per step (default: micro-batch × dp × 4·pp, or × 1 without a pipeline)", "N"},
      {"seq-len", 0, 0, G_OPTION_ARG_INT64, &o->seq_len,
       "tokens per sequence (default: the model's positions, at most 4096)", "N"},
      {"memory-cap", 0, 0, G_OPTION_ARG_STRING, &o->memory_cap,
       "schedule auto: what a GPU may hold in all, as 60GB (default: what it has)", "BYTES"},
      {"steps", 0, 0, G_OPTION_ARG_INT, &o->steps, g_intern_string(steps), "N"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_methods(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"mtp-layers", 0, 0, G_OPTION_ARG_INT, &o->mtp_layers,
       "heads trained that predict a token further, of those the model has (multi-token prediction; default 0)", "N"},
      {"zero", 0, 0, G_OPTION_ARG_INT, &o->zero, "ZeRO stage 0 to 3 (default 0)", "N"},
      {"zero-ranks", 0, 0, G_OPTION_ARG_INT, &o->zero_ranks,
       "ranks one set of shards spans, those of cp among them (default: all of dp × cp)", "N"},
      {"recompute", 0, 0, G_OPTION_ARG_STRING, &o->recompute, "none, selective or full (default none)", "WHAT"},
      {"recompute-modules", 0, 0, G_OPTION_ARG_STRING, &o->recompute_modules,
       "what --recompute selective makes again, parted by +: core_attn, layernorm, mla_up_proj, moe_act, "
       "shared_experts, mlp, moe (default core_attn, or as the framework has it)",
       "MODULES"},
      {"sequence-parallel", 0, 0, G_OPTION_ARG_STRING, &o->sequence_parallel, "on or off (default off)", "SWITCH"},
      {"precision", 0, 0, G_OPTION_ARG_STRING, &o->precision, "bf16, fp16, fp32, fp8, mxfp8 or nvfp4 (default bf16)",
       "NAME"},
      {"recipe", 0, 0, G_OPTION_ARG_STRING, &o->recipe,
       "bytes per parameter: bf16+master, megatron, no-master, fp32-grads, fp32, fp8+master, megatron-fp8, "
       "deepseek-v3, or like w2+g4+p4+m4+v4: weights, gradients, master copy, moments (default bf16+master; fp32 "
       "with --precision fp32)",
       "NAME"},
      {"attention", 0, 0, G_OPTION_ARG_STRING, &o->attention, "flash or unfused (default flash)", "KIND"},
      {"norm-kernel", 0, 0, G_OPTION_ARG_STRING, &o->norm_kernel,
       "how RMSNorm runs where the model has it: fused, one kernel, or plain, an operation of PyTorch at a time "
       "(default fused, or as the framework has it)",
       "KIND"},
      {"expert-dispatch", 0, 0, G_OPTION_ARG_STRING, &o->expert_dispatch,
       "how tokens reach the experts of other ranks: all_to_all (once for each expert) or deepep (DeepEP, HybridEP: "
       "once to each node that has some of a token's experts, and there to each rank) (default all_to_all, or as the "
       "framework has it)",
       "HOW"},
      {"overlap-experts", 0, 0, G_OPTION_ARG_STRING, &o->overlap_experts,
       "a forward and a backward hide each other's exchanges with experts, in rounds of the interleaved schedule and "
       "without a pipeline: on or off (default off, or as the framework has it; always on in dualpipe*)",
       "on|off"},
      {"cuda-graphs", 0, 0, G_OPTION_ARG_STRING, &o->cuda_graphs,
       "what is replayed in place of being issued kernel by kernel: none, of layers with experts router or attention "
       "(and the router), or full, the whole step (default none)",
       "WHAT"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_communication(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"cp-comm", 0, 0, G_OPTION_ARG_STRING, &o->cp_comm,
       "how attention reaches the tokens of other cp ranks: ring (keys and values pass round beside it; Transformer "
       "Engine's p2p), all_gather (of keys and values before it) or ulysses (a2a: heads for tokens) (default ring)",
       "HOW"},
      {"overlap-grad", 0, 0, G_OPTION_ARG_STRING, &o->overlap_grad,
       "gradient collectives beside backward: on or off (default on, but off where the framework has it so)", "SWITCH"},
      {"overlap-param", 0, 0, G_OPTION_ARG_STRING, &o->overlap_param,
       "parameter gathers beside computing: on or off (default on, but off where the framework has it so)", "SWITCH"},
      {"overlap-p2p", 0, 0, G_OPTION_ARG_STRING, &o->overlap_p2p,
       "a stage computes on while it sends to the next: on or off (default off, as Megatron-LM runs 1f1b; on with "
       "zb-*, v-*, dualpipe* and auto, and where the framework has it so)",
       "SWITCH"},
      {"bucket", 0, 0, G_OPTION_ARG_INT64, &o->bucket_parameters,
       "least parameters in a gradient bucket (default max(40000000, 1000000·dp·cp))", "N"},
      {"prefetch", 0, 0, G_OPTION_ARG_INT, &o->prefetch, "ZeRO-3: pieces gathered ahead of their use (default 1)", "N"},
      {"grad-norm-barrier", 0, 0, G_OPTION_ARG_STRING, &o->grad_norm_barrier,
       "the optimizer waits for the norm over all ranks: on or off (default on; off with zb-*, v-* and auto, whose "
       "stages run on into the next step)",
       "SWITCH"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_conventions(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"framework", 0, 0, G_OPTION_ARG_STRING, &o->framework,
       "what runs the step, a file or a name in topologies/frameworks/: its time and memory are counted, and its "
       "recipe is the default (default: none)",
       "NAME"},
      {"order", 0, 0, G_OPTION_ARG_STRING, &o->order, "rank order, innermost first (default tp-cp-ep-dp-pp)", "AXES"},
      {"flops", 0, 0, G_OPTION_ARG_STRING, &o->flops,
       "FLOPs counted in MFU: causal, megatron (attention in full) or 6n (default causal)", "HOW"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_offload(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"offload-optimizer", 0, 0, G_OPTION_ARG_STRING, &o->offload_optimizer,
       "where master copy, moments and reduced gradients are and the node's processors update: none (the GPU), host "
       "(memory) or nvme (default none)",
       "WHERE"},
      {"offload-weights", 0, 0, G_OPTION_ARG_STRING, &o->offload_weights,
       "where ZeRO-3's shards of the weights are, fetched before each gather: none (the GPU), host or nvme (default "
       "none)",
       "WHERE"},
      {"offload-activations", 0, 0, G_OPTION_ARG_STRING, &o->offload_activations,
       "where what layers save for backward is until then: none (the GPU) or host (default none)", "WHERE"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_simulated(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"fold", 0, 0, G_OPTION_ARG_STRING, &o->fold,
       "one representative per pipeline rank: on or off (default on; off with jitter or slow ranks)", "SWITCH"},
      {"contention", 0, 0, G_OPTION_ARG_STRING, &o->contention,
       "transfers of a GPU that share its links slow each other: on or off (default on)", "SWITCH"},
      {"jitter", 0, 0, G_OPTION_ARG_DOUBLE, &o->jitter,
       "standard deviation of compute times as a share, e.g. 0.02 (default 0)", "SHARE"},
      {"seed", 0, 0, G_OPTION_ARG_INT64, &o->seed, "of the jitter (default 1)", "N"},
      {"slow-rank", 0, 0, G_OPTION_ARG_STRING_ARRAY, &o->slow_ranks,
       "global rank R computes F times as long; may be given again", "R=F"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_placement(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"rank-map", 0, 0, G_OPTION_ARG_FILENAME, &o->rank_map,
       "which GPU each rank is on: a line of GPUs, a table rank,node,gpu or hosts (default: rank r on GPU r)", "FILE"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

void plan_options_add(PlanOptions *options, PlanOptionSet set, Parser *parser) {
  add_files(parser, options);
  if (set & PLAN_OPTIONS_JSON)
    add_json(parser, options);
  add_sizes(parser, options);
  add_methods(parser, options);
  add_communication(parser, options);
  add_conventions(parser, options);
  add_offload(parser, options);
  if (set & PLAN_OPTIONS_SIMULATED)
    add_simulated(parser, options);
  if (set & PLAN_OPTIONS_PLACED)
    add_placement(parser, options);
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

/* Before what it has a default for. */
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
  guint cuda_graphs = plan->cuda_graphs;
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
  plan->cuda_graphs = cuda_graphs;
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

static gboolean parse_slow_ranks(const PlanOptions *o, Plan *plan, GError **error) {
  for (char **text = o->slow_ranks; text != NULL && *text != NULL; text++) {
    g_auto(GStrv) parts = g_strsplit(*text, "=", 2);
    guint64 rank;
    char *end = NULL;
    double factor = parts[0] != NULL && parts[1] != NULL ? g_ascii_strtod(parts[1], &end) : 0;
    if (end == NULL || end == parts[1] || *end != '\0' ||
        !g_ascii_string_to_unsigned(parts[0], 10, 0, G_MAXINT, &rank, NULL))
      return fail_input(error, "--slow-rank: found \"%.80s\", expected RANK=FACTOR, e.g. 5=1.4", *text);
    SlowRank slow = {rank, factor};
    g_array_append_val(plan->slow_ranks, slow);
  }
  return TRUE;
}

/* Numbers that may be left open. */
static gboolean copy_open_numbers(const PlanOptions *o, Plan *plan, GError **error) {
  const struct {
    const char *option;
    gint64 given;
    int *target;
    gint64 *wide_target;
  } numbers[] = {
      {"--gpus", o->gpus, &plan->gpus, NULL},
      {"--dp", o->dp, &plan->dp, NULL},
      {"--zero-ranks", o->zero_ranks, &plan->zero_ranks, NULL},
      {"--micro-batch", o->micro_batch, NULL, &plan->micro_batch},
      {"--global-batch", o->global_batch, NULL, &plan->global_batch},
      {"--seq-len", o->seq_len, NULL, &plan->seq_len},
      {"--chunks", o->chunks, &plan->chunks, NULL},
      {"--micro-batch-group", o->group, &plan->group, NULL},
      {"--steps", o->steps, &plan->steps, NULL},
      {"--bucket", o->bucket_parameters, NULL, &plan->bucket_parameters},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++) {
    if (numbers[i].given == OPTION_NOT_GIVEN)
      continue;
    if (numbers[i].given < 1)
      return fail_input(error, "%s: found %" G_GINT64_FORMAT ", expected at least 1", numbers[i].option,
                        numbers[i].given);
    if (numbers[i].target != NULL)
      *numbers[i].target = (int)numbers[i].given;
    else
      *numbers[i].wide_target = numbers[i].given;
  }
  return TRUE;
}

/* "auto: zb-v" is how a run says what auto came to. */
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

/* In letters, heads that predict a token further are said twice. */
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

/* Folding is given up silently only where nobody asked for it. */
static gboolean check_fold(const PlanOptions *o, GError **error) {
  if (g_strcmp0(o->fold, "on") != 0 || (o->jitter == 0 && o->slow_ranks == NULL))
    return TRUE;
  return fail_input(error, "--fold on and %s clash: ranks that differ cannot be stood for by one of them",
                    o->slow_ranks != NULL ? "--slow-rank" : "--jitter");
}

static gboolean parse_memory_cap(const PlanOptions *o, Plan *plan, GError **error) {
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
         parse_memory_cap(options, options->plan, error) && copy_layout(options, options->plan, error) &&
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
