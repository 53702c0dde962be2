/* Decisions that depend on the whole plan are made for all micro-batches, also where only few are run: whether tp's
 * collectives meet other transfers enough (timing_model.h), and whether the run would be too large. */
#include "plan_run.h"

#include "binding.h"
#include "error.h"
#include "few_micro_batches.h"
#include "link_health.h"
#include "mixed_gpus.h"
#include "passes.h"
#include "steady.h"
#include "timing_model.h"
#include "units.h"

/* Forwards and backwards of a layer (some 10 ops and 700 bytes each) that a folded program may expand into pieces. */
static const double MAX_LAYER_PASSES = 16e6;
/* A run keeps three int64 per recorded rank and op; beyond this limit it would exhaust the machine instead of
 * answering. */
static const double MAX_RECORD_BYTES = 16.0 * 1024 * 1024 * 1024;

/* The part of a step that a run leaves out: so many groups of micro-batches of the order's repeats. */
typedef struct {
  gint64 group; /* micro-batches in each */
  gint64 n_groups;
} LeftOut;
static const LeftOut nothing = {0};

static Program *lower_plan(const Workload *workload, const Cluster *cluster, const char *dump_after, char **dump,
                           GError **error) {
  const Method *method = workload->method;
  g_autoptr(Order) order =
      method_is_auto(method) ? auto_plan_order(workload, cluster, error) : method_order(method, error);
  if (order == NULL)
    return NULL;
  const Lowering lowering = {.order = order, .workload = workload, .n_steps = method->steps};
  return lower(&lowering, dump_after, dump, error);
}

/* A run in the making. */
typedef struct {
  Predictor *predictor; /* NULL: nothing is remembered */
  const Workload *workload;
  const Cluster *cluster;
  LeftOut left_out;
  Program *program;     /* as lowered; taken over */
  Structure *structure; /* of the prediction's program; NULL: it is not kept */
  Program *whole;       /* where ranks of dp differ: what is expanded; a reference */
} Making;

/* Ranks of dp whose micro-batches are not alike, or 1. */
static int n_variants(const Workload *workload) {
  const gboolean differ = workload->micro_batches != NULL && !batch_ranks_are_alike(workload->batch);
  return differ ? workload->method->dp : 1;
}

static Costs *costs_of(const Making *making) {
  return making->predictor != NULL ? making->predictor->costs : NULL;
}

/* Sets program and structure. FALSE as plan_run(). */
static gboolean lower_kept(Making *making, GError **error) {
  Structures *structures = making->predictor != NULL ? making->predictor->structures : NULL;
  Structure *found = structures != NULL ? structures_find(structures, making->workload) : NULL;
  if (found != NULL && (making->program = structure_program(found, making->workload)) != NULL) {
    making->structure = found;
    return TRUE;
  }
  making->program = lower_plan(making->workload, making->cluster, NULL, NULL, error);
  if (making->program != NULL && structures != NULL && found == NULL)
    making->structure = structures_keep(structures, making->program);
  if (making->structure != NULL)
    making->program = program_copy(making->program);
  return making->program != NULL;
}

/* --- expansion --- */

/* Whether the host waits inside such pieces: only an op made of single items has that wait. */
static gboolean makes_host_wait(const Workload *workload, int first, int last) {
  for (int piece = first; piece <= last; piece++)
    for (int phase = 0; phase < N_PHASES; phase++) {
      const WorkList *list = &workload->work[piece][phase];
      for (int i = 0; i < list->n_items; i++)
        if (list->items[i].host_waits)
          return TRUE;
    }
  return FALSE;
}

/* Whether programs are expanded whatever their transfers are. An op of a whole piece does not say when a kernel or
 * collective inside it runs, so it suffices only where that makes no difference. Collectives of cp may cross nodes
 * and share NICs there with sends and gradients. */
static gboolean is_always_expanded(const Workload *workload, const Cluster *cluster) {
  const Method *method = workload->method;
  return !method->fold || timing_model_has_taxes(method, cluster) || method->cp > 1 || method->ep > 1 ||
         n_variants(workload) > 1 || (method->has_expert_operations && makes_host_wait(workload, 0, N_PIECES - 1)) ||
         makes_host_wait(workload, PIECE_HEAD, PIECE_HEAD);
}

/* Whether all micro-batches are few enough to be expanded wherever tp's collectives meet other transfers. */
static gboolean may_expand(const Workload *workload, LeftOut left_out) {
  const Method *method = workload->method;
  const gint64 all = method->n_micro_batches + left_out.n_groups * left_out.group;
  return 2.0 * (double)workload->model->n_layers * (double)all * method->steps <= MAX_LAYER_PASSES;
}

/* The program, taken over, expanded everywhere (`beside` NULL) or beside some transfers. */
static Program *expanded(Program *program, const Workload *workload, const OpsBeside *beside) {
  g_autoptr(Program) whole = program;
  if (beside == NULL || beside->n_pieces > 0)
    return program_expand_beside(whole, workload, beside);
  whole->expansion = EXPANSION_BESIDE;
  return g_steal_pointer(&whole);
}

/* Expands the prediction's program where transfers of `met` (timing_model.h) may be under way; NULL: everywhere. */
static gboolean expand_beside(Making *making, Prediction *prediction, const gboolean *met, GError **error) {
  const Workload *workload = making->workload;
  const gint64 eager_bytes = prediction->cluster->eager_bytes;
  Structure *whole = making->structure, *found = NULL;
  if (whole != NULL)
    found = structure_expanded(making->predictor->structures, whole, prediction->program, workload, met, eager_bytes);
  Program *known = found != NULL ? structure_expanded_program(found, prediction->program, workload) : NULL;
  making->structure = known != NULL ? found : NULL;
  if (known != NULL) {
    program_free(prediction->program);
    prediction->program = known;
    return TRUE;
  }
  g_autoptr(OpsBeside) beside = met != NULL ? ops_beside_new(prediction->program, met, eager_bytes) : NULL;
  if (beside != NULL && beside->n_pieces > MAX_LAYER_PASSES)
    return fail_impossible(
        error,
        "collectives of tp %d share links with other transfers, and of %" G_GINT64_FORMAT " layers × %" G_GINT64_FORMAT
        " micro-batches × steps %d more run beside these than the %.0f that are followed one by one; use "
        "fewer micro-batches or steps, or --contention off",
        workload->method->tp, workload->model->n_layers, workload->method->n_micro_batches, workload->method->steps,
        MAX_LAYER_PASSES);
  const gboolean is_cut = beside == NULL || beside->n_pieces > 0;
  if (n_variants(workload) > 1)
    making->whole = program_ref(prediction->program);
  prediction->program = expanded(prediction->program, workload, beside);
  if (whole == NULL || found != NULL || !is_cut)
    return TRUE;
  making->structure = structure_keep_expanded(making->predictor->structures, whole, prediction->program);
  prediction->program = program_copy(prediction->program);
  return TRUE;
}

/* FALSE without an error: how the program repeats what is left out is unknown. */
static gboolean find_repeats(const Making *making, Prediction *prediction) {
  const int group = (int)making->left_out.group;
  g_clear_pointer(&prediction->repeats, program_repeats_free);
  if (making->left_out.n_groups == 0)
    return TRUE;
  prediction->repeats = making->structure != NULL ? structure_repeats(making->structure, prediction->program, group)
                                                  : program_repeats_new(prediction->program, group);
  return prediction->repeats != NULL;
}

/* Expands the program as that of all micro-batches is. A Timing made on the way is kept. FALSE as plan_run(), or
 * without an error as above. */
static gboolean expand(Making *making, Prediction *prediction, GError **error) {
  const Cluster *cluster = prediction->cluster;
  const Workload *workload = making->workload;
  if (!find_repeats(making, prediction))
    return FALSE;
  if (prediction->program->expansion == EXPANSION_ALL)
    return TRUE;
  if (is_always_expanded(workload, cluster))
    return expand_beside(making, prediction, NULL, error) && find_repeats(making, prediction);
  g_autofree gboolean *met = NULL;
  prediction->timing =
      timing_model_unless_met(prediction->program, prediction->repeats, (double)making->left_out.n_groups, workload,
                              cluster, costs_of(making), &met);
  if (met == NULL)
    return TRUE;
  if (making->left_out.n_groups > 0 && !may_expand(workload, making->left_out))
    return FALSE;
  return expand_beside(making, prediction, met, error) && find_repeats(making, prediction);
}

/* --- a run --- */

/* The ops of all micro-batches, over all lists. */
static double count_ops(const Prediction *prediction, LeftOut left_out) {
  const Program *program = prediction->program;
  double n_ops = 0;
  for (int rank = 0; rank < program->n_ranks; rank++) {
    n_ops += program->ranks[rank].n_ops;
    for (int step = 0; left_out.n_groups > 0 && step < program->n_steps; step++)
      n_ops += (double)left_out.n_groups * program_repeats_of(prediction->repeats, rank, step)->n_ops;
  }
  return n_ops;
}

/* Where each rank of dp is simulated, one stands for those of tp and cp, which do what it does, unless experts are
 * shared among several. */
static int n_simulated(const Prediction *prediction, const Workload *workload) {
  const Method *method = workload->method;
  if (n_variants(workload) == 1 || !method->fold)
    return method->fold ? prediction->program->n_ranks : workload->layout.n_ranks;
  return method->ep > 1 ? workload->layout.n_ranks : method->dp * method->pp;
}

/* Whether the records of a run of all micro-batches fit in memory with room to spare. */
static gboolean check_records(const Prediction *prediction, const Workload *workload, LeftOut left_out,
                              GError **error) {
  const Program *program = prediction->program;
  const gboolean fold = workload->method->fold && n_variants(workload) == 1;
  const double n_ops = count_ops(prediction, left_out), n_ranks = n_simulated(prediction, workload);
  const double bytes = n_ops / program->n_ranks * n_ranks * 3 * sizeof(gint64);
  if (bytes <= MAX_RECORD_BYTES)
    return TRUE;
  g_autofree char *needed = units_format(bytes, UNIT_BYTES);
  return fail_impossible(error,
                         "%s run of %.0f ranks with %.0f ops each needs %s of records; %suse fewer GPUs, "
                         "micro-batches or steps",
                         fold                       ? "a"
                         : n_variants(workload) > 1 ? "an unfolded (--seq-lengths)"
                                                    : "an unfolded (--fold off, --jitter or --slow-rank)",
                         n_ranks, n_ops / program->n_ranks, needed, fold ? "" : "fold it, or ");
}

double *plan_run_speeds(const Workload *workload, const Cluster *cluster) {
  const GArray *slow = workload->method->slow_ranks;
  guint n_slow = slow != NULL ? slow->len : 0;
  if (n_slow == 0 && mixed_gpus_is_uniform(workload, cluster))
    return NULL;
  double *speed = g_new(double, workload->layout.n_ranks);
  for (int rank = 0; rank < workload->layout.n_ranks; rank++)
    speed[rank] = 1;
  mixed_gpus_scale(workload, cluster, speed);
  for (guint i = 0; i < n_slow; i++)
    speed[g_array_index(slow, SlowRank, i).rank] *= g_array_index(slow, SlowRank, i).factor;
  return speed;
}

/* Whether all times fit in int64 nanoseconds. */
static gboolean can_be_counted(const Omitted *omitted, gint64 end_ns) {
  double sum_ns = (double)end_ns;
  for (int step = 0; step < omitted->n_steps; step++)
    sum_ns += (double)omitted->n_groups * (double)omitted_period_ns(&omitted->periods[step]);
  return sum_ns < (double)G_MAXINT64;
}

/* The plan's layout with one rank of tp and of cp. */
static Layout data_layout(const Layout *whole) {
  Layout layout = *whole;
  layout.size[AXIS_TP] = layout.size[AXIS_CP] = 1;
  layout.n_ranks = whole->size[AXIS_DP] * whole->size[AXIS_PP];
  const gboolean dp_is_inside = whole->stride[AXIS_DP] < whole->stride[AXIS_PP];
  layout.stride[AXIS_DP] = dp_is_inside ? 1 : whole->size[AXIS_PP];
  layout.stride[AXIS_PP] = dp_is_inside ? whole->size[AXIS_DP] : 1;
  layout.stride[AXIS_TP] = layout.stride[AXIS_CP] = layout.stride[AXIS_EP] = 1;
  layout.n_shards = layout.n_expert_shards = layout.dp_shard;
  layout.takes_tp = FALSE;
  layout.gpu_of_rank = NULL;
  return layout;
}

/* Programs and times of the other ranks of dp. */
static gboolean add_variants(const Making *making, Prediction *prediction, GError **error) {
  const Workload *workload = making->workload;
  const int n = n_variants(workload);
  if (n == 1)
    return TRUE;
  if (making->whole == NULL)
    return fail_impossible(error, "a program of one rank of dp is not run where ranks have sequences of other lengths: "
                                  "expected --batching padded, or --dp 1");
  prediction->programs = g_new0(Program *, n);
  prediction->programs[0] = prediction->program;
  prediction->n_programs = n;
  for (int dp = 1; dp < n; dp++) {
    Workload view;
    workload_view_init(&view, workload, dp);
    g_autoptr(Program) whole = program_copy(making->whole);
    Program *program = prediction->programs[dp] = program_copy(prediction->program);
    const gboolean is_bound = program_bind(whole, &view) && program_bind_expanded(program, whole, &view);
    g_assert(is_bound); /* entries of micro-batches are never merged */
    g_autoptr(Timing) timing = timing_model(program, &view, making->cluster, costs_of(making));
    timing_append(prediction->timing, timing);
    workload_view_clear(&view);
  }
  return TRUE;
}

/* FALSE: what is left out does not follow from the run. */
static gboolean simulate(const Making *making, Prediction *prediction) {
  const Workload *workload = making->workload;
  const LeftOut left_out = making->left_out;
  const Method *method = workload->method;
  const Cluster *cluster = prediction->cluster;
  g_autofree double *speed = plan_run_speeds(workload, cluster);
  g_autofree gint16 *early_ticks = left_out.n_groups > 0 ? g_new0(gint16, (gsize)count_ops(prediction, nothing)) : NULL;
  const gboolean has_variants = prediction->programs != NULL, is_cut = has_variants && method->fold && method->ep == 1;
  const Layout data = data_layout(&workload->layout);
  const Simulation simulation = {.program = prediction->program,
                                 .programs = prediction->programs,
                                 .timing = prediction->timing,
                                 .layout = is_cut ? &data : &workload->layout,
                                 .whole = is_cut ? &workload->layout : NULL,
                                 .folded = method->fold && !has_variants,
                                 .eager_bytes = cluster->eager_bytes,
                                 .speed = speed,
                                 .jitter = method->jitter,
                                 .seed = method->seed,
                                 .contended = method->contention,
                                 .early_ticks = early_ticks};
  const gint64 before_us = g_get_monotonic_time();
  prediction->trace = engine_run(&simulation, &prediction->engine);
  prediction->wall_s = (double)(g_get_monotonic_time() - before_us) * 1e-6;
  if (left_out.n_groups == 0)
    return TRUE;
  prediction->omitted = steady_omitted(prediction->repeats, left_out.n_groups, prediction->trace, early_ticks);
  return prediction->omitted != NULL && can_be_counted(prediction->omitted, trace_end(prediction->trace)) &&
         engine_add_omitted(&simulation, prediction->trace, prediction->omitted, &prediction->engine);
}

/* Of a program that is there. NULL without an error: what is left out is unknown. */
static Prediction *run(Making *making, GError **error) {
  const Workload *workload = making->workload;
  const LeftOut left_out = making->left_out;
  g_autoptr(Prediction) prediction = g_new0(Prediction, 1);
  prediction->cluster = making->cluster;
  prediction->program = g_steal_pointer(&making->program);
  if (!expand(making, prediction, error) || !check_records(prediction, workload, left_out, error))
    return NULL;
  if (prediction->timing == NULL)
    prediction->timing = timing_model_beyond(prediction->program, prediction->repeats, (double)left_out.n_groups,
                                             workload, making->cluster, costs_of(making));
  if (!add_variants(making, prediction, error))
    return NULL;
  return simulate(making, prediction) ? g_steal_pointer(&prediction) : NULL;
}

/* --- with few micro-batches --- */

/* Whether the run is folded, its ranks are alike and its transfers have no taxes: then what repeats takes the same
 * time each time. */
static gboolean is_folded_plainly(const Workload *workload, const Cluster *cluster) {
  const Method *method = workload->method;
  return method->fold && method->jitter == 0 && (method->slow_ranks == NULL || method->slow_ranks->len == 0) &&
         !timing_model_has_taxes(method, cluster) && mixed_gpus_is_uniform(workload, cluster);
}

/* NULL: more micro-batches are needed. */
static Prediction *run_without(Predictor *predictor, Workload *workload, const Cluster *cluster, LeftOut left_out,
                               RunDetail detail) {
  Method *method = workload->method;
  const gint64 n_left_out = left_out.n_groups * left_out.group;
  const double share = (double)(method->n_micro_batches - n_left_out) / (double)method->n_micro_batches;
  method_set_micro_batches(method, method->n_micro_batches - n_left_out);
  Making making = {predictor, workload, cluster, left_out};
  g_autoptr(Prediction) prediction = NULL;
  const gboolean is_lowered = lower_kept(&making, NULL);
  Structure *structure = making.structure;
  if (is_lowered && (structure == NULL || structure_is_worth_trying(structure, share))) {
    prediction = run(&making, NULL);
    if (prediction != NULL && detail != RUN_STEP &&
        (prediction->metrics = metrics_new_with(prediction->trace, prediction->omitted)) == NULL)
      g_clear_pointer(&prediction, prediction_free);
    if (structure != NULL)
      structure_note_try(structure, prediction != NULL);
  }
  program_free(making.program);
  method_set_micro_batches(method, method->n_micro_batches + n_left_out);
  return g_steal_pointer(&prediction);
}

/* Tries the fewest first. NULL: all of them must be run. */
static Prediction *run_few(Predictor *predictor, Workload *workload, const Cluster *cluster, RunDetail detail) {
  const gint64 all = workload->plan->n_micro_batches, group = method_group(workload->method);
  if (group == 0 || !is_folded_plainly(workload, cluster) || workload->method->data.sample_bytes > 0 ||
      workload->method->islands > 1 || servers_are_used(&workload->method->servers) || workload->micro_batches != NULL)
    return NULL;
  FewMicroBatches tries[MOST_TRIES_WITH_FEW];
  const int n_tries = few_micro_batches_to_try(group, workload, tries);
  for (int i = 0; i < n_tries; i++) {
    const LeftOut left_out = {group, (all - tries[i].n) / group};
    if ((double)(left_out.n_groups * group) < tries[i].least_spared * (double)all) /* would not save enough */
      return NULL;
    Prediction *prediction = run_without(predictor, workload, cluster, left_out, detail);
    if (prediction != NULL)
      return prediction;
  }
  return NULL;
}

/* --- numbers --- */

Metrics *plan_run_metrics(const Method *method, const Trace *trace) {
  return method->islands > 1        ? metrics_new_of_period(trace, method->outer_period, method->outer_window)
         : method->servers.is_async ? metrics_new_of_workers(trace)
                                    : metrics_new(trace);
}

static void fill_speed(Prediction *prediction) {
  const Workload *workload = prediction->workload;
  const Method *method = workload->method;
  if (prediction->metrics == NULL)
    prediction->metrics = plan_run_metrics(method, prediction->trace);
  double step_s = prediction->metrics->step_ns * 1e-9;
  prediction->step_time_s = step_s;
  prediction->tokens_per_s = workload_tokens(workload) / step_s;
  prediction->tokens_per_s_per_gpu = prediction->tokens_per_s / method->gpus;
  double per_gpu = workload_model_flops(workload) / step_s / method->gpus;
  prediction->tflops_per_gpu = per_gpu * 1e-12;
  prediction->mfu = per_gpu / prediction->peak_flops;
  prediction->hfu = workload_hardware_flops(workload) / step_s / method->gpus / prediction->peak_flops;
}

static void fill_servers(Prediction *prediction) {
  prediction->servers = server_use(prediction->workload, prediction->cluster, prediction->step_time_s);
  prediction->fits &= prediction->servers.fits;
}

static void fill_memory(Prediction *prediction) {
  const Workload *workload = prediction->workload;
  prediction->memory = memory_profile_new(prediction->trace);
  prediction->fits = prediction->memory->peak_bytes <= mixed_gpus_room_bytes(workload, prediction->cluster);
  tier_memory_of(prediction->trace, workload, prediction->cluster, prediction->tiers);
  for (int tier = 0; tier < N_TIERS; tier++)
    prediction->fits &= prediction->tiers[tier].fits;
}

/* Fills in everything that follows from the run. Takes over `workload`. */
static Prediction *with_numbers(Prediction *prediction, Workload *workload, RunDetail detail) {
  prediction->workload = workload;
  prediction->peak_flops = mixed_gpus_peak_flops(workload, prediction->cluster);
  prediction->gpu_names = mixed_gpus_names(workload, prediction->cluster);
  fill_memory(prediction);
  if (detail != RUN_STEP)
    fill_speed(prediction);
  fill_servers(prediction);
  return prediction;
}

Prediction *plan_run(Predictor *predictor, Workload *owned, const Cluster *cluster, RunDetail detail, GError **error) {
  g_autoptr(Workload) workload = owned;
  workload_add_lists(workload);
  Prediction *prediction = detail != RUN_RECORDS ? run_few(predictor, workload, cluster, detail) : NULL;
  if (prediction == NULL) {
    Making making = {predictor, workload, cluster, nothing};
    prediction = lower_kept(&making, error) ? run(&making, error) : NULL;
    program_free(making.whole);
  }
  return prediction != NULL ? with_numbers(prediction, g_steal_pointer(&workload), detail) : NULL;
}

Prediction *plan_run_program(Workload *owned, const Cluster *cluster, Program *program, GError **error) {
  g_autoptr(Program) given = program;
  g_autoptr(Workload) workload = owned;
  if (!program_belongs(given, workload, error))
    return NULL;
  Making making = {NULL, workload, cluster, nothing, g_steal_pointer(&given)};
  Prediction *prediction = run(&making, error);
  return prediction != NULL ? with_numbers(prediction, g_steal_pointer(&workload), RUN_RECORDS) : NULL;
}

char *plan_run_dump(const Workload *workload, const Cluster *cluster, const char *after_pass, GError **error) {
  g_autofree char *dump = NULL;
  g_autoptr(Prediction) prediction = g_new0(Prediction, 1);
  Making making = {NULL, workload, cluster, nothing};
  prediction->cluster = cluster;
  prediction->program = lower_plan(workload, cluster, after_pass, &dump, error);
  return prediction->program != NULL && expand(&making, prediction, error) ? g_steal_pointer(&dump) : NULL;
}

void prediction_free(Prediction *prediction) {
  if (prediction == NULL)
    return;
  omitted_free(prediction->omitted);
  program_repeats_free(prediction->repeats);
  memory_profile_free(prediction->memory);
  metrics_free(prediction->metrics);
  trace_free(prediction->trace);
  timing_free(prediction->timing);
  for (int dp = 1; dp < prediction->n_programs; dp++)
    program_free(prediction->programs[dp]);
  g_free(prediction->programs);
  program_free(prediction->program);
  workload_free(prediction->workload);
  link_health_cluster_free(prediction->worn);
  g_free(prediction->gpu_names);
  g_free(prediction);
}
