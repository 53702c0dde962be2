#include "run_setup.h"

#include <math.h>

#include "error.h"
#include "node_topology.h"

const char *const save_how_names[] = {[SAVE_SYNC] = "sync", [SAVE_ASYNC] = "async", [SAVE_GATHERED] = "gathered", NULL};

/* Where a cluster does not state the link between a GPU and its host: PCIe 3.0 x16 (PCI Express 3.0, 2010: 16 lanes x 8
 * GT/s x 128/130 / 8), the slowest that these GPUs are plugged into; of any link, what copies reach (assumed). */
static const double least_link_Bps = 15.75e9, link_efficiency = 0.8;

static const double most_steps = 1e12;

/* --- checkpoints --- */

static double snapshot_Bps(RunSetup *setup) {
  const Host *host = &setup->cluster->host;
  const double stated_Bps = host_link_Bps(host, &setup->cluster->node, setup->cluster->gpus_per_node);
  setup->link_is_assumed = stated_Bps == 0;
  return stated_Bps > 0 ? stated_Bps
                        : least_link_Bps * (host->link_efficiency > 0 ? host->link_efficiency : link_efficiency);
}

static gboolean set_save(RunSetup *setup, GError **error) {
  TrainingRun *run = &setup->run;
  const Cluster *cluster = setup->cluster;
  const double of_gpu_bytes = setup->checkpoint_bytes / setup->plan->gpus;
  const int n_writers = setup->save == SAVE_GATHERED ? 1 : run->n_nodes;
  const double write_s = setup->checkpoint_bytes / cluster_checkpoint_Bps(cluster, n_writers, run->n_nodes);
  setup->storage_is_assumed =
      storage_is_assumed(&cluster->storage) && (cluster->failures == NULL || cluster->failures->checkpoint_Bps == 0);
  run->stall_s = setup->save == SAVE_ASYNC ? of_gpu_bytes / snapshot_Bps(setup) : write_s;
  run->write_s = setup->save == SAVE_ASYNC ? write_s : 0;
  const double held_bytes = of_gpu_bytes * MIN(cluster->gpus_per_node, setup->plan->gpus);
  return setup->save != SAVE_ASYNC || cluster->host_memory_bytes == 0 || held_bytes <= cluster->host_memory_bytes ||
         fail_impossible(error, "--save async holds %.4g GB of a checkpoint in a node's memory, which has %.4g GB",
                         1e-9 * held_bytes, 1e-9 * cluster->host_memory_bytes);
}

/* --- fewer nodes --- */

/* GPUs of a dp rank. */
static int rank_gpus(const RunSetup *setup) {
  return setup->plan->gpus / setup->plan->dp;
}

/* With a smaller dp there is none either: each GPU then holds more of the state. */
static const RunLevel no_room = {.gain = -1};

/* The batch stays what it is: some dp ranks have a micro-batch more, which all wait for. Schedules that want whole
 * rounds of micro-batches get some more. Live, every rank goes on with its own. */
static RunLevel predict_level(RunSetup *setup, int dp, GError **error) {
  const Plan *whole = setup->plan;
  const gboolean is_live = setup->run.elastic == ELASTIC_LIVE;
  const gint64 per_rank = whole->micro_batch * dp;
  const gint64 least = is_live ? whole->n_micro_batches : (whole->global_batch + per_rank - 1) / per_rank;
  const gint64 most = is_live ? least : least + whole->pp - 1;
  g_autoptr(Plan) plan = plan_copy(setup->given);
  plan->gpus = dp * rank_gpus(setup);
  plan->dp = plan->dp > 0 ? dp : 0;
  if (plan->zero_ranks == whole->dp * whole->cp)
    plan->zero_ranks = 0;
  for (gint64 n = least; n <= most; n++) {
    StepPrediction step;
    plan->global_batch = n * per_rank;
    if (predict_step(setup->predictor, setup->model, setup->cluster, plan, &step, n == most ? error : NULL)) {
      if (!step.fits)
        fail_impossible(error, "it does not fit in memory");
      return step.fits ? (RunLevel){dp, step.step_time_s, is_live ? (double)dp / whole->dp : 1} : no_room;
    }
  }
  return (RunLevel){0};
}

static RunLevel level_of(gpointer data, int n_nodes) {
  RunSetup *setup = data;
  gint64 n_gpus = (gint64)n_nodes * setup->cluster->gpus_per_node;
  for (int dp = (int)MIN(n_gpus / rank_gpus(setup), setup->plan->dp - 1); dp > 0; dp--) {
    RunLevel *level = &g_array_index(setup->levels, RunLevel, dp);
    if (level->step_s < 0)
      *level = predict_level(setup, dp, NULL);
    if (level->dp > 0)
      return *level;
    if (level->gain < 0)
      break;
  }
  return (RunLevel){0};
}

/* How many dp ranks, or groups of them, have all of the state. */
static int n_copies(const Plan *plan) {
  const int ranks = plan->dp * plan->cp;
  const int sharded = zero_shards_optimizer(plan->zero) ? (plan->zero_ranks > 0 ? plan->zero_ranks : ranks) : plan->cp;
  return ranks / MAX(sharded, plan->ep);
}

static gboolean check_elastic(RunSetup *setup, GError **error) {
  const Plan *plan = setup->plan;
  if (setup->run.elastic == ELASTIC_OFF)
    return TRUE;
  const char *name = run_elastic_names[setup->run.elastic];
  if (setup->run.n_nodes < 2 || plan->dp < 2)
    return fail_impossible(error, "--elastic %s has nothing to go on with: dp %d on %d node%s", name, plan->dp,
                           setup->run.n_nodes, setup->run.n_nodes == 1 ? "" : "s");
  if (setup->run.elastic == ELASTIC_LIVE && n_copies(plan) < 2)
    return fail_impossible(error,
                           "--elastic live needs a second copy of the state, but zero %d shards it over all of dp %d; "
                           "--zero-ranks makes several copies",
                           plan->zero, plan->dp);
  g_autoptr(GError) reason = NULL;
  if (level_of(setup, setup->run.n_nodes - 1).dp > 0)
    return TRUE;
  predict_level(setup, plan->dp - 1, &reason);
  return fail_impossible(error, "--elastic %s: there is no smaller dp that is possible; dp %d: %s", name, plan->dp - 1,
                         reason->message);
}

/* A restart with another dp reads the checkpoint anew sharded; live, ranks that join get their part from others, all at
 * once. */
static void set_reshaping(RunSetup *setup, const Failures *failures) {
  TrainingRun *run = &setup->run;
  const Cluster *cluster = setup->cluster;
  if (run->elastic == ELASTIC_OFF)
    return;
  setup->joined_bytes = setup->checkpoint_bytes;
  if (run->elastic == ELASTIC_RESTART) {
    setup->joined_s = setup->joined_bytes / storage_read_Bps(&cluster->storage, run->n_nodes);
    run->leave_s = run->join_s = setup->joined_s;
    return;
  }
  const double gpu_Bps = cluster->node_egress_gpus > 0
                             ? cluster->nic_Bps * cluster->nic_efficiency / MAX(cluster->node_egress_gpus, 1)
                             : cluster->scale_up_Bps * cluster->scale_up_efficiency;
  setup->joined_s = setup->joined_bytes * n_copies(setup->plan) / setup->plan->gpus / gpu_Bps;
  run->n_copies = n_copies(setup->plan);
  run->leave_s = MIN(failures->reconfigure_s, run->restart_s);
  run->join_s = setup->joined_s;
}

/* --- the best interval --- */

static gint64 whole_steps(const TrainingRun *run, double interval_s) {
  const double steps = round(interval_s / run->whole.step_s);
  return (gint64)CLAMP(steps, 1, MAX(run->n_steps, 1));
}

/* Daly's, with what training waits for as the cost of a checkpoint: what is written behind it does not change where the
 * optimum is, but training waits for that, too, if the next one comes before. */
static gint64 daly_steps(const TrainingRun *run) {
  if (run->mtbf_s == INFINITY)
    return whole_steps(run, INFINITY);
  const double best_s = goodput_best_interval_s(run->mtbf_s, run->stall_s);
  return whole_steps(run, MAX(best_s, run->write_s + 0.5 * run->whole.step_s));
}

/* Where few interruptions undo anything, checkpoints are rarer: as often as is best in simulated runs. */
static gint64 best_steps(TrainingRun *run, guint64 seed) {
  enum { N_TRIED_RUNS = 20 };
  gint64 best = daly_steps(run);
  double least_s = INFINITY;
  if (run->elastic != ELASTIC_LIVE)
    return best;
  for (double steps = (double)best; steps < 2 * run->n_steps; steps *= 2) {
    run->interval_steps = (gint64)MIN(steps, run->n_steps);
    g_auto(RunSummary) summary = training_run_many(run, seed, N_TRIED_RUNS);
    if (summary.mean.ends && summary.mean.total_s < least_s) {
      least_s = summary.mean.total_s;
      best = run->interval_steps;
    }
  }
  return best;
}

/* --- all of it --- */

static const Failures *failures_of(RunSetup *setup, const RunRequest *request, GError **error) {
  if (setup->cluster->failures != NULL)
    return setup->cluster->failures;
  if (request->mtbf_s == 0) {
    fail_input(error,
               "%s does not say how often a job is interrupted; add --mtbf TIME, or \"failures:\" to a file "
               "with \"base: %s\"",
               setup->cluster->file, setup->cluster->name);
    return NULL;
  }
  setup->restart_is_assumed = request->restart_s < 0;
  return setup->own = failures_new();
}

static void set_nodes(RunSetup *setup, const RunRequest *request) {
  TrainingRun *run = &setup->run;
  const int of_node = setup->cluster->gpus_per_node;
  run->n_nodes = (setup->plan->gpus + of_node - 1) / of_node;
  run->n_spares = request->n_spares != SPARES_NOT_GIVEN ? request->n_spares
                  : request->elastic == ELASTIC_RESTART ? 0
                                                        : SPARES_UNLIMITED;
  setup->n_gpus_paid = setup->plan->gpus + MAX(run->n_spares, 0) * of_node;
}

static void set_levels(RunSetup *setup, double step_time_s) {
  const RunLevel open = {.step_s = -1};
  setup->levels = g_array_sized_new(FALSE, FALSE, sizeof(RunLevel), (guint)setup->plan->dp);
  for (int dp = 0; dp < setup->plan->dp; dp++)
    g_array_append_val(setup->levels, open);
  setup->predictor = predictor_new();
  setup->run.whole = (RunLevel){setup->plan->dp, step_time_s, 1};
  setup->run.level_of = level_of;
  setup->run.data = setup;
}

static void set_interruptions(RunSetup *setup, const RunRequest *request, const Failures *failures) {
  TrainingRun *run = &setup->run;
  run->mtbf_s = request->mtbf_s > 0 ? request->mtbf_s : failures_job_mtbf_s(failures, setup->plan->gpus, run->n_nodes);
  run->kinds = (const FailureKind *)(const void *)failures->kinds->data;
  run->n_kinds = (int)failures->kinds->len;
  run->restart_s = request->restart_s >= 0 ? request->restart_s : failures->restart_s;
  setup->mean_restart_s = failures_mean_restart_s(failures, run->restart_s);
  run->maintenance_every_s = failures->maintenance_every_s > 0 ? failures->maintenance_every_s : INFINITY;
  run->maintenance_s = failures->maintenance_s >= 0 ? failures->maintenance_s : run->restart_s;
  run->repair_s = failures->repair_s;
  run->elastic = request->elastic;
}

RunSetup *run_setup_new(const RunRequest *request, const Prediction *prediction, const Model *model,
                        const Cluster *cluster, const Plan *given, GError **error) {
  g_autoptr(RunSetup) setup = g_new0(RunSetup, 1);
  setup->model = model;
  setup->cluster = cluster;
  setup->given = plan_copy(given);
  setup->plan = plan_copy(prediction->workload->plan);
  setup->save = request->save;
  setup->checkpoint_bytes = goodput_checkpoint_bytes(model, setup->plan);
  const Failures *failures = failures_of(setup, request, error);
  if (failures == NULL)
    return NULL;
  const double step_tokens = workload_tokens(prediction->workload);
  setup->run.n_steps = ceil(request->tokens / step_tokens);
  if (setup->run.n_steps > most_steps) {
    fail_input(error, "a run of %.3g steps, expected at most %g", setup->run.n_steps, most_steps);
    return NULL;
  }
  set_nodes(setup, request);
  set_levels(setup, prediction->step_time_s);
  set_interruptions(setup, request, failures);
  if (!set_save(setup, error) || !check_elastic(setup, error))
    return NULL;
  set_reshaping(setup, failures);
  setup->run.interval_steps =
      request->interval_s > 0 ? whole_steps(&setup->run, request->interval_s) : best_steps(&setup->run, given->seed);
  return g_steal_pointer(&setup);
}

void run_setup_free(RunSetup *setup) {
  if (setup == NULL)
    return;
  plan_free(setup->given);
  plan_free(setup->plan);
  failures_free(setup->own);
  predictor_free(setup->predictor);
  g_clear_pointer(&setup->levels, g_array_unref);
  g_free(setup);
}

Goodput run_goodput(const RunSetup *setup, const RunSummary *summary) {
  const TrainingRun *run = &setup->run;
  return (Goodput){.mtbf_s = run->mtbf_s,
                   .restart_s = setup->mean_restart_s,
                   .checkpoint_bytes = setup->checkpoint_bytes,
                   .checkpoint_s = run->stall_s,
                   .interval_steps = run->interval_steps,
                   .interval_s = (double)run->interval_steps * run->whole.step_s,
                   .share = summary->mean.ends ? summary->mean.part_s[RUN_KEPT] / summary->mean.total_s : 0};
}
