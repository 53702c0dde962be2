#include "predict_parts.h"

#include "auto_plan.h"
#include "error.h"
#include "link_health.h"
#include "lowering.h"
#include "mixed_gpus.h"
#include "passes.h"
#include "plan_order.h"
#include "timing_model.h"
#include "transfer_tax.h"
#include "units.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* A run keeps three int64 per recorded rank and op; beyond this it would take the machine down instead of answering.
 */
static const double MAX_RECORD_BYTES = 16.0 * 1024 * 1024 * 1024;

enum { MOST_GPUS_WITH_FAULTS = 1 << 18 }; /* all of which send at once */

/* Forwards and backwards of a layer (some 10 ops and 700 bytes each) that a folded program may have in pieces. */
static const double MAX_LAYER_PASSES = 16e6;

gboolean predict_may_expand(const Workload *workload) {
  const Plan *plan = workload->plan;
  return 2.0 * (double)workload->model->n_layers * (double)plan->n_micro_batches * plan->steps <= MAX_LAYER_PASSES;
}

gboolean predict_is_apart(const Workload *workload, const Cluster *cluster) {
  const Plan *plan = workload->plan;
  return !plan->fold || transfer_tax_is_stated(cluster, plan) || plan->cp > 1 || plan->ep > 1;
}

Program *predict_expand_beside(Program *program, const Workload *workload, const Cluster *cluster, const gboolean *met,
                               GError **error) {
  g_autoptr(Program) whole = program;
  g_autoptr(OpsBeside) beside = ops_beside_new(whole, met, cluster->eager_bytes);
  const Plan *plan = workload->plan;
  if (beside->n_pieces > MAX_LAYER_PASSES) {
    fail_impossible(error,
                    "collectives of tp %d share links with other transfers, and of %" G_GINT64_FORMAT
                    " layers × %" G_GINT64_FORMAT
                    " micro-batches × steps %d more run beside these than the %.0f that are followed one by one; use "
                    "fewer micro-batches or steps, or --contention off",
                    plan->tp, workload->model->n_layers, plan->n_micro_batches, plan->steps, MAX_LAYER_PASSES);
    return NULL;
  }
  if (beside->n_pieces > 0)
    return program_expand_beside(whole, workload, beside);
  whole->expansion = EXPANSION_BESIDE;
  return g_steal_pointer(&whole);
}

/* Ops of whole pieces are enough where that makes no difference. Takes over `program`. */
static Program *expand_if_needed(Program *program, const Workload *workload, const Cluster *cluster, GError **error) {
  g_autoptr(Program) whole = program;
  if (whole->expansion == EXPANSION_ALL)
    return g_steal_pointer(&whole);
  if (predict_is_apart(workload, cluster))
    return program_expand(whole, workload);
  g_autofree gboolean *met = workload->plan->contention ? timing_model_met_by_tp(whole, workload, cluster) : NULL;
  return met != NULL ? predict_expand_beside(g_steal_pointer(&whole), workload, cluster, met, error)
                     : g_steal_pointer(&whole);
}

/* Of about 140 bytes each: 36 MB in the least scratch, of which 64 stay below 2.5 GB, 150 MB in the largest. GPT-3 175B
 * at pp 16, m 64 under 1f1b has 6,314. */
enum { LEAST_OPS_KEPT = 1 << 18, MOST_OPS_KEPT = 1 << 20, OPS_KEPT_IN_ALL = 1 << 24 };

struct PredictScratch {
  ProgramCache *programs;
};

/* What a prediction gives back, some MiB, the next one takes: it stays with the process, up to so much of each arena
 * of the allocator. Otherwise the kernel takes it back and clears it again, page by page, for every prediction. */
static void keep_freed_memory(void) {
#ifdef __GLIBC__
  enum { MOST_BYTES_KEPT = 64 << 20, MOST_BYTES_OF_BLOCK = 32 << 20 };
  static gsize is_done;
  if (!g_once_init_enter(&is_done))
    return;
  mallopt(M_TRIM_THRESHOLD, MOST_BYTES_KEPT);
  mallopt(M_MMAP_THRESHOLD, MOST_BYTES_OF_BLOCK);
  g_once_init_leave(&is_done, 1);
#endif
}

PredictScratch *predict_scratch_new_among(int n_scratches) {
  keep_freed_memory();
  const int n_ops = CLAMP(OPS_KEPT_IN_ALL / MAX(n_scratches, 1), LEAST_OPS_KEPT, MOST_OPS_KEPT);
  PredictScratch *scratch = g_new(PredictScratch, 1);
  *scratch = (PredictScratch){.programs = program_cache_new((gsize)n_ops)};
  return scratch;
}

PredictScratch *predict_scratch_new(void) {
  return predict_scratch_new_among(1);
}

void predict_scratch_free(PredictScratch *scratch) {
  if (scratch == NULL)
    return;
  program_cache_free(scratch->programs);
  g_free(scratch);
}

ProgramCacheStats predict_scratch_programs(const PredictScratch *scratch) {
  return program_cache_stats(scratch->programs);
}

static Program *lower_anew(const Workload *workload, PlanOrder *choice, const Cluster *cluster, const char *dump_after,
                           char **dump, GError **error) {
  const Plan *plan = workload->plan;
  g_autoptr(Order) order =
      plan_order_is_auto(choice) ? auto_plan_order(workload, cluster, error) : plan_order_make(choice, plan, error);
  if (order == NULL)
    return NULL;
  Lowering lowering = {.order = order, .workload = workload, .n_steps = plan->steps};
  return lower(&lowering, dump_after, dump, error);
}

Program *predict_lower(PredictScratch *scratch, const Workload *workload, PlanOrder *choice, const Cluster *cluster,
                       GError **error) {
  const gboolean is_kept = scratch != NULL && choice->info != NULL && !offload_is_any(&workload->plan->offload);
  return is_kept ? program_cache_lower(scratch->programs, choice, workload, error)
                 : lower_anew(workload, choice, cluster, NULL, NULL, error);
}

static Program *lower_plan(PredictScratch *scratch, const Workload *workload, PlanOrder *choice, const Cluster *cluster,
                           GError **error) {
  Program *program = predict_lower(scratch, workload, choice, cluster, error);
  return program != NULL ? expand_if_needed(program, workload, cluster, error) : NULL;
}

/* Of a run of lists that have so many ops in all. */
static double record_bytes(const Program *program, const Workload *workload, double n_ops) {
  const double n_ranks = workload->plan->fold ? program->n_ranks : workload->layout.n_ranks;
  return n_ops / program->n_ranks * n_ranks * 3 * sizeof(gint64);
}

gboolean predict_may_record(const Program *program, const Workload *workload, double n_ops) {
  return record_bytes(program, workload, n_ops) <= MAX_RECORD_BYTES;
}

static gboolean check_record_count(const Program *program, const Workload *workload, GError **error) {
  gboolean fold = workload->plan->fold;
  double n_ops = 0, n_ranks = fold ? program->n_ranks : workload->layout.n_ranks;
  for (int rank = 0; rank < program->n_ranks; rank++)
    n_ops += program->ranks[rank].n_ops;
  if (predict_may_record(program, workload, n_ops))
    return TRUE;
  const double bytes = record_bytes(program, workload, n_ops);
  g_autofree char *needed = units_format(bytes, UNIT_BYTES);
  return fail_impossible(error,
                         "%s run of %.0f ranks with %.0f ops each needs %s of records; %suse fewer GPUs, "
                         "micro-batches or steps",
                         fold ? "a" : "an unfolded (--fold off, --jitter or --slow-rank)", n_ranks,
                         n_ops / program->n_ranks, needed, fold ? "" : "fold it, or ");
}

static double *speed_factors(const Workload *workload, const Cluster *cluster) {
  const GArray *slow = workload->plan->slow_ranks;
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

static void run(Prediction *prediction) {
  const Plan *plan = prediction->workload->plan;
  g_autofree double *speed = speed_factors(prediction->workload, prediction->cluster);
  Simulation simulation = {.program = prediction->program,
                           .timing = prediction->timing,
                           .layout = &prediction->workload->layout,
                           .folded = plan->fold,
                           .eager_bytes = prediction->cluster->eager_bytes,
                           .speed = speed,
                           .jitter = plan->jitter,
                           .seed = plan->seed,
                           .contended = plan->contention};
  gint64 before_us = g_get_monotonic_time();
  prediction->trace = engine_run(&simulation, &prediction->engine);
  prediction->wall_s = (g_get_monotonic_time() - before_us) * 1e-6;
}

static void derive(Prediction *prediction) {
  const Workload *workload = prediction->workload;
  const Plan *plan = workload->plan;
  if (prediction->metrics == NULL)
    prediction->metrics = metrics_new(prediction->trace);
  prediction->memory = memory_profile_new(prediction->trace);
  double step_s = prediction->metrics->step_ns * 1e-9;
  prediction->step_time_s = step_s;
  prediction->tokens_per_s = (double)plan->global_batch * plan->seq_len / step_s;
  prediction->tokens_per_s_per_gpu = prediction->tokens_per_s / plan->gpus;
  prediction->peak_flops = mixed_gpus_peak_flops(workload, prediction->cluster);
  double per_gpu = workload_model_flops(workload) / step_s / plan->gpus;
  prediction->tflops_per_gpu = per_gpu * 1e-12;
  prediction->mfu = per_gpu / prediction->peak_flops;
  prediction->hfu = workload_hardware_flops(workload) / step_s / plan->gpus / prediction->peak_flops;
  prediction->gpu_names = mixed_gpus_names(workload, prediction->cluster);
  prediction->fits = prediction->memory->peak_bytes <= mixed_gpus_room_bytes(workload, prediction->cluster);
  tier_memory_of(prediction->trace, workload, prediction->cluster, prediction->tiers);
  for (int tier = 0; tier < N_TIERS; tier++)
    prediction->fits &= prediction->tiers[tier].fits;
}

Workload *predict_workload(const Model *model, const Cluster *cluster, const Plan *plan, PlanOrder *choice,
                           GError **error) {
  g_autoptr(Plan) completed = plan_copy(plan);
  return plan_order_workload(choice, model, cluster, completed, error);
}

/* All but derive(). Takes over `workload` and `program`. */
static Prediction *predict_trace(const Cluster *cluster, Workload *workload, Program *program, GError **error) {
  g_autoptr(Prediction) prediction = g_new0(Prediction, 1);
  prediction->cluster = cluster;
  prediction->workload = workload;
  prediction->program = program;
  if (!check_record_count(program, workload, error))
    return NULL;
  prediction->timing = timing_model(program, workload, cluster);
  run(prediction);
  return g_steal_pointer(&prediction);
}

static Prediction *derived(Prediction *prediction) {
  if (prediction != NULL)
    derive(prediction);
  return prediction;
}

Prediction *predict_records(PredictScratch *scratch, Workload *workload, PlanOrder *choice, const Cluster *cluster,
                            GError **error) {
  g_autoptr(Workload) owned = workload;
  Program *program = lower_plan(scratch, owned, choice, cluster, error);
  return program != NULL ? predict_trace(cluster, g_steal_pointer(&owned), program, error) : NULL;
}

static Prediction *predict_as_named(PredictScratch *scratch, const Model *model, const Cluster *cluster,
                                    const Plan *plan, GError **error) {
  g_auto(PlanOrder) choice = {0};
  Workload *workload = predict_workload(model, cluster, plan, &choice, error);
  return workload != NULL ? derived(predict_records(scratch, workload, &choice, cluster, error)) : NULL;
}

/* The same in numbers. */
static Prediction *numbers_as_named(PredictScratch *scratch, const Model *model, const Cluster *cluster,
                                    const Plan *plan, GError **error) {
  g_auto(PlanOrder) choice = {0};
  g_autoptr(Workload) workload = predict_workload(model, cluster, plan, &choice, error);
  if (workload == NULL)
    return NULL;
  Prediction *fewer = predict_fewer(scratch, workload, &choice, cluster, TRUE);
  if (fewer == NULL)
    return derived(predict_records(scratch, g_steal_pointer(&workload), &choice, cluster, error));
  fewer->workload = g_steal_pointer(&workload);
  return derived(fewer);
}

/* --- auto --- */

enum { MOST_TRIES = 6 }; /* of making its order under a cap */

/* Bytes a GPU may hold in all. */
static double most_bytes(const Plan *plan, const Cluster *cluster) {
  return plan->memory_cap > 0 ? plan->memory_cap : gpu_room_bytes(&cluster->gpu);
}

static gboolean holds(const Prediction *prediction, double bytes) {
  return prediction->memory->peak_bytes <= bytes;
}

/* Without what makes ranks differ, which no order is made for. */
static Plan *plan_of_equal_ranks(const Plan *plan) {
  Plan *equal = plan_copy(plan);
  equal->fold = TRUE;
  equal->jitter = 0;
  g_array_set_size(equal->slow_ranks, 0);
  return equal;
}

/* auto's order, predicted. It is made for what is known of memory before it is lowered; what it then holds too much is
 * taken off what it may hold, in plan->memory_cap, and it is made again. NULL when none found holds at most `bytes`. */
static Prediction *predict_made(PredictScratch *scratch, const Model *model, const Cluster *cluster, Plan *plan,
                                double bytes, GError **error) {
  for (int i = 0; i < MOST_TRIES; i++) {
    g_autoptr(Prediction) prediction = predict_as_named(scratch, model, cluster, plan, error);
    if (prediction == NULL || holds(prediction, bytes))
      return g_steal_pointer(&prediction);
    plan->memory_cap = most_bytes(plan, cluster) - (prediction->memory->peak_bytes - bytes);
    if (plan->memory_cap < 1)
      break;
  }
  g_autofree char *text = units_format(bytes, UNIT_BYTES);
  fail_impossible(error, "schedule auto: no order found that holds at most %s", text);
  return NULL;
}

/* The fastest schedule of the table that fits, where it is faster than `made`, auto's order (NULL: there is none);
 * NULL: none. An order made for F, I and W knows neither what a whole backward hides that I alone does not, nor another
 * placement of its chunks. `opened`: what the plan leaves open is as auto has it. */
static const char *faster_of_table(PredictScratch *scratch, const Model *model, const Cluster *cluster,
                                   const Plan *opened, const Prediction *made) {
  const char *best = NULL;
  const double bytes = most_bytes(opened, cluster);
  gint64 least_ns = made != NULL ? made->metrics->step_ns : G_MAXINT64;
  for (const char *const *name = schedule_names(); *name != NULL; name++) {
    const ScheduleInfo *info = schedule_find(*name, NULL);
    if (info->placement == PLACEMENT_BIDIRECTIONAL || !schedule_check_chunks(info, opened->chunks, NULL))
      continue;
    g_autoptr(Plan) plan = plan_of_equal_ranks(opened);
    g_free(plan->schedule);
    plan->schedule = g_strdup(*name);
    g_autoptr(Prediction) prediction = numbers_as_named(scratch, model, cluster, plan, NULL);
    if (prediction == NULL || !holds(prediction, bytes) || prediction->metrics->step_ns >= least_ns)
      continue;
    least_ns = prediction->metrics->step_ns;
    best = *name;
  }
  return best;
}

Plan *predict_settled(PredictScratch *scratch, const Model *model, const Cluster *cluster, const Plan *plan,
                      GError **error) {
  g_auto(PlanOrder) choice = {0};
  g_autoptr(Plan) opened = plan_copy(plan);
  if (!plan_order_open(&choice, opened, error))
    return NULL;
  if (!plan_order_is_auto(&choice))
    return plan_copy(plan);
  g_autoptr(Plan) equal = plan_of_equal_ranks(opened);
  g_autoptr(GError) reason = NULL;
  g_autoptr(Prediction) made = predict_made(scratch, model, cluster, equal, most_bytes(opened, cluster), &reason);
  const char *faster = faster_of_table(scratch, model, cluster, opened, made);
  if (made == NULL && faster == NULL) {
    g_propagate_error(error, g_steal_pointer(&reason));
    return NULL;
  }
  opened->memory_cap = equal->memory_cap;
  if (faster != NULL) {
    g_free(opened->schedule);
    opened->schedule = g_strdup(faster);
  }
  return g_steal_pointer(&opened);
}

typedef Prediction *(*AsNamed)(PredictScratch *scratch, const Model *model, const Cluster *cluster, const Plan *plan,
                               GError **error);

/* The plan on the cluster as its GPUs have it. */
static Prediction *predict_in_use(PredictScratch *scratch, const Model *model, const Cluster *cluster, const Plan *plan,
                                  AsNamed as_named, GError **error) {
  g_autoptr(Plan) settled = predict_settled(scratch, model, cluster, plan, error);
  Prediction *prediction = settled != NULL ? as_named(scratch, model, cluster, settled, error) : NULL;
  if (prediction == NULL || g_strcmp0(plan->schedule, settled->schedule) == 0 || plan->schedule == NULL)
    return prediction;
  Plan *run = prediction->workload->plan; /* auto, and what it stands for */
  g_free(run->schedule);
  run->schedule = g_strdup_printf("%s: %s", plan->schedule, settled->schedule);
  return prediction;
}

/* --- façade --- */

/* GPUs of the plan, which may not be complete. */
static double count_gpus(const Plan *plan) {
  const double n_cut = (double)plan->tp * plan->cp * plan->pp * MAX(plan->dp, 1);
  return plan->rank_map != NULL ? plan->rank_map->len : MAX(plan->gpus, n_cut);
}

const Cluster *predict_cluster(const Cluster *cluster, const Plan *plan, Cluster **worn, GError **error) {
  *worn = NULL;
  if (cluster->health != NULL)
    return cluster;
  const double n = count_gpus(plan);
  if (cluster->faults == NULL) {
    if (plan->rank_map != NULL || cluster_job_domain(cluster, (gint64)n) == cluster->domain_gpus)
      return cluster;
    *worn = g_memdup2(cluster, sizeof *cluster);
    cluster_place_job(*worn, (gint64)n);
    return *worn;
  }
  if (n < 1 || n > MOST_GPUS_WITH_FAULTS) {
    fail_impossible(error, "%s lists faults: what they leave is worked out for 1 to %d GPUs, the plan has %.0f",
                    cluster->file, MOST_GPUS_WITH_FAULTS, n);
    return NULL;
  }
  const int *gpus = plan->rank_map != NULL ? (const int *)(const void *)plan->rank_map->data : NULL;
  return *worn = link_health_cluster(cluster, gpus, (int)n, error);
}

static Prediction *predict_by(PredictScratch *scratch, const Model *model, const Cluster *cluster, const Plan *plan,
                              AsNamed as_named, GError **error) {
  Cluster *worn;
  const Cluster *used = predict_cluster(cluster, plan, &worn, error);
  Prediction *prediction = used != NULL ? predict_in_use(scratch, model, used, plan, as_named, error) : NULL;
  if (prediction != NULL)
    prediction->worn = worn;
  else
    link_health_cluster_free(worn);
  return prediction;
}

Prediction *predict_with(PredictScratch *scratch, const Model *model, const Cluster *cluster, const Plan *plan,
                         GError **error) {
  return predict_by(scratch, model, cluster, plan, predict_as_named, error);
}

Prediction *predict_numbers(PredictScratch *scratch, const Model *model, const Cluster *cluster, const Plan *plan,
                            GError **error) {
  return predict_by(scratch, model, cluster, plan, numbers_as_named, error);
}

Prediction *predict(const Model *model, const Cluster *cluster, const Plan *plan, GError **error) {
  return predict_with(NULL, model, cluster, plan, error);
}

static Prediction *predict_given(const Model *model, const Cluster *cluster, const Plan *plan, Program *program,
                                 GError **error) {
  g_autoptr(Program) owned = program;
  g_auto(PlanOrder) choice = {0};
  g_autoptr(Workload) workload = predict_workload(model, cluster, plan, &choice, error);
  if (workload == NULL || !predict_check_belongs(owned, workload, error))
    return NULL;
  Program *ready = expand_if_needed(g_steal_pointer(&owned), workload, cluster, error);
  return ready != NULL ? derived(predict_trace(cluster, g_steal_pointer(&workload), ready, error)) : NULL;
}

Prediction *predict_program(const Model *model, const Cluster *cluster, const Plan *plan, Program *program,
                            GError **error) {
  Cluster *worn;
  const Cluster *used = predict_cluster(cluster, plan, &worn, error);
  if (used == NULL) {
    program_free(program);
    return NULL;
  }
  Prediction *prediction = predict_given(model, used, plan, program, error);
  if (prediction != NULL)
    prediction->worn = worn;
  else
    link_health_cluster_free(worn);
  return prediction;
}

char *predict_dump(const Model *model, const Cluster *cluster, const Plan *plan, const char *after_pass,
                   GError **error) {
  Cluster *worn;
  const Cluster *used = predict_cluster(cluster, plan, &worn, error);
  g_auto(PlanOrder) choice = {0};
  g_autoptr(Plan) settled = used != NULL ? predict_settled(NULL, model, used, plan, error) : NULL;
  g_autoptr(Workload) workload = settled != NULL ? predict_workload(model, used, settled, &choice, error) : NULL;
  char *dump = NULL;
  g_autoptr(Program) program = workload != NULL ? lower_anew(workload, &choice, used, after_pass, &dump, error) : NULL;
  g_autoptr(Program) ready =
      program != NULL ? expand_if_needed(g_steal_pointer(&program), workload, used, error) : NULL;
  if (ready == NULL)
    g_clear_pointer(&dump, g_free);
  link_health_cluster_free(worn);
  return dump;
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
  program_free(prediction->program);
  workload_free(prediction->workload);
  link_health_cluster_free(prediction->worn);
  g_free(prediction->gpu_names);
  g_free(prediction);
}
