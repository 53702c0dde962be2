/* Kept costs make no difference to a Timing: not after other plans, not after the limit, and not where a single input
 * has changed since. */
#include "costs.h"
#include "plan_cases.h"
#include "plan_said.h"
#include "run_suite.h"
#include "timing_model.h"

#include <check.h>
#include <string.h>

static gboolean same_items(const TimedList *a, const TimedList *b) {
  gboolean same = a->n_items == b->n_items;
  for (int i = 0; same && i < a->n_items; i++) {
    const TimedItem *x = &a->items[i], *y = &b->items[i];
    same = x->name == y->name && x->duration_ns == y->duration_ns && x->launch_ns == y->launch_ns &&
           x->after == y->after && x->is_collective == y->is_collective && x->recompute == y->recompute &&
           x->axis == y->axis && x->latency_ns == y->latency_ns;
  }
  return same;
}

static gboolean same_lists(const Timing *a, const Timing *b) {
  gboolean same = TRUE;
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < N_PHASES; phase++) {
      const TimedList *x = &a->lists[piece][phase], *y = &b->lists[piece][phase];
      same = same && same_items(x, y) && memcmp(&x->time, &y->time, sizeof x->time) == 0 &&
             memcmp(&x->split, &y->split, sizeof x->split) == 0 && x->lead_ns == y->lead_ns;
    }
  return same;
}

static gboolean same_load(const WayLoad *a, const WayLoad *b) {
  return a->latency_ns == b->latency_ns && memcmp(a->share, b->share, sizeof a->share) == 0;
}

static gboolean same_transfers(const Timing *a, const Timing *b) {
  gboolean same = a->n_transfers == b->n_transfers && (a->taxes != NULL) == (b->taxes != NULL);
  for (int i = 0; same && i < a->n_transfers; i++)
    same = memcmp(&a->transfers[i], &b->transfers[i], sizeof(OpTime)) == 0 && same_load(&a->loads[i], &b->loads[i]) &&
           (a->taxes == NULL || a->taxes[i] == b->taxes[i]);
  return same;
}

static gboolean same_timing(const Timing *a, const Timing *b) {
  return same_lists(a, b) && same_transfers(a, b) && a->n_works == b->n_works &&
         memcmp(a->works, b->works, (gsize)a->n_works * sizeof(OpTime)) == 0 && same_load(&a->tp, &b->tp) &&
         memcmp(&a->host_sync, &b->host_sync, sizeof(OpTime)) == 0 && a->step_ns == b->step_ns &&
         a->n_measured == b->n_measured && a->n_interpolated == b->n_interpolated && a->n_modelled == b->n_modelled;
}

/* --- after other plans --- */

enum { N_POOL = 120, N_TIMINGS = 2000 };

/* Of any shape; half of them under a framework, on a cluster with faults or with a tax now and then. */
static Prediction *draw_prediction(guint seed) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
  g_auto(Case) drawn = random_case(seed, case_clusters(), 256);
  const int more = g_rand_int_range(rand, 0, 8);
  if (coin(rand))
    run_under(drawn.plan, draw_framework(rand));
  if (more < 2)
    add_cp(&drawn);
  else if (more < 4)
    add_experts(&drawn);
  if (g_rand_int_range(rand, 0, 4) == 0 && drawn.plan->gpus <= 16)
    drawn.cluster = shipped_cluster(CASES_FIXTURES "/faults.yaml");
  return predict(&drawn.model, drawn.cluster, drawn.plan, NULL);
}

static void assert_same_unless_met(const Prediction *of, Costs *costs) {
  g_autofree gboolean *met = NULL, *met_fresh = NULL;
  g_autoptr(Timing) timing = timing_model_unless_met(of->program, NULL, 0, of->workload, of->cluster, costs, &met);
  g_autoptr(Timing) fresh = timing_model_unless_met(of->program, NULL, 0, of->workload, of->cluster, NULL, &met_fresh);
  ck_assert_int_eq(met != NULL, met_fresh != NULL);
  ck_assert_int_eq(timing != NULL, fresh != NULL);
  ck_assert(timing == NULL || same_timing(timing, fresh));
  ck_assert(met == NULL || memcmp(met, met_fresh, of->program->transfers->len * sizeof *met) == 0);
}

TEST(costs_of_other_plans_make_no_difference) {
  g_autoptr(GPtrArray) pool = g_ptr_array_new_with_free_func((GDestroyNotify)prediction_free);
  int n_expanded = 0, n_worn = 0;
  for (guint seed = 0; pool->len < N_POOL; seed++) {
    Prediction *prediction = draw_prediction(seed);
    if (prediction == NULL)
      continue;
    n_expanded += prediction->program->expansion != EXPANSION_NONE;
    n_worn += prediction->cluster->health != NULL;
    g_ptr_array_add(pool, prediction);
  }
  ck_assert_int_gt(n_expanded, N_POOL / 10);
  ck_assert_int_gt(n_worn, 1);
  g_autoptr(Costs) costs = costs_new();
  g_autoptr(GRand) rand = g_rand_new_with_seed(1);
  for (int i = 0; i < N_TIMINGS; i++) {
    const Prediction *of = g_ptr_array_index(pool, g_rand_int_range(rand, 0, N_POOL));
    g_autoptr(Timing) timing = timing_model(of->program, of->workload, of->cluster, costs);
    g_autoptr(Timing) fresh = timing_model(of->program, of->workload, of->cluster, NULL);
    ck_assert(same_timing(timing, fresh));
    assert_same_unless_met(of, costs);
  }
}

/* --- after a change --- */

/* A plan that every number below matters to: tp inside a node, pp between nodes, experts, and the host in the way. */
static const char mixed[] = "--tp 2 --pp 2 --dp 8 --ep 8 --micro-batch 1 --global-batch 32 --seq-len 1024 "
                            "--sequence-parallel on";

typedef struct {
  Cluster cluster; /* shares what the shipped one points to */
  LinkHealth health;
  double domain[8 * 8];
  Workload *workload;
  Program *program;
  Costs *costs;
  Timing *before; /* any change */
} Changing;

static Program *lowered(const Workload *workload, const Cluster *cluster) {
  g_autoptr(Prediction) prediction = predict(workload->model, cluster, workload->plan, NULL);
  ck_assert_ptr_nonnull(prediction);
  return g_steal_pointer(&prediction->program);
}

static void changing_init(Changing *changing, const char *more) {
  *changing = (Changing){.cluster = *shipped_cluster("dgx-h100"), .health = {.scale_up = 1}, .costs = costs_new()};
  g_autoptr(Plan) plan = plan_said("%s%s", mixed, more);
  changing->workload = workload_complete(shipped_model("mixtral-8x7b"), &changing->cluster, plan, NULL);
  ck_assert_ptr_nonnull(changing->workload);
  changing->program = lowered(changing->workload, &changing->cluster);
  for (guint i = 0; i < G_N_ELEMENTS(changing->domain); i++)
    changing->domain[i] = 1;
  for (int level = 0; level < CLUSTER_MAX_LEVELS; level++)
    changing->health.levels[level] = 1;
  changing->health.domain = changing->domain;
  changing->cluster.health = &changing->health;
  changing->cluster.transfer_tax.of_link[LINK_NET] = 0.1;
  changing->before = timing_model(changing->program, changing->workload, &changing->cluster, changing->costs);
}

static void changing_clear(Changing *changing) {
  timing_free(changing->before);
  costs_free(changing->costs);
  program_free(changing->program);
  workload_free(changing->workload);
}

/* Whatever was changed at the same addresses matters, and is seen. */
static void assert_seen(const Changing *changing, const char *what) {
  g_autoptr(Timing) timing = timing_model(changing->program, changing->workload, &changing->cluster, changing->costs);
  g_autoptr(Timing) fresh = timing_model(changing->program, changing->workload, &changing->cluster, NULL);
  ck_assert_msg(!same_timing(fresh, changing->before), "%s does not matter", what);
  ck_assert_msg(same_timing(timing, fresh), "%s is not seen", what);
}

static void assert_number_is_seen(const Changing *changing, double *number, double value, const char *what) {
  const double was = *number;
  *number = value;
  assert_seen(changing, what);
  *number = was;
}

#define ASSERT_SEEN(changing, number) assert_number_is_seen(changing, &(number), 0.7 * (number), #number)

TEST(a_number_of_the_cluster_that_has_changed_is_seen) {
  Changing changing;
  changing_init(&changing, "");
  Cluster *cluster = &changing.cluster;
  ASSERT_SEEN(&changing, cluster->scale_up_Bps);
  ASSERT_SEEN(&changing, cluster->nic_Bps);
  ASSERT_SEEN(&changing, cluster->nic_latency_s);
  ASSERT_SEEN(&changing, cluster->transfer_tax.of_link[LINK_NET]);
  ASSERT_SEEN(&changing, cluster->gpu.hbm_Bps);
  ASSERT_SEEN(&changing, cluster->gpu.sustained[NUMBER_BF16]);
  ASSERT_SEEN(&changing, cluster->gpu.kernel_latency_s);
  ASSERT_SEEN(&changing, cluster->gpu.host_launch_s);
  ASSERT_SEEN(&changing, cluster->collectives.base_s[ALGORITHM_RING][PROTOCOL_SIMPLE]);
  ASSERT_SEEN(&changing, changing.health.scale_up);
  for (int i = 0; i < 8 * 8; i++) /* groups of every size and gap */
    changing.domain[i] = 0.7;
  assert_seen(&changing, "faults");
  changing_clear(&changing);
}

/* Clusters with other faults, in which every list is another: far more than the 16 MiB that are kept. */
TEST(costs_that_were_forgotten_are_computed_again) {
  enum { N_CLUSTERS = 1500, AGAIN = 50 };
  Changing changing;
  changing_init(&changing, "");
  gsize key_bytes = 0;
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < N_PHASES; phase++)
      key_bytes += (gsize)changing.workload->work[piece][phase].n_items * sizeof(WorkItem);
  ck_assert_uint_gt(N_CLUSTERS * key_bytes, 16 << 20);
  for (int i = 0; i < N_CLUSTERS + AGAIN; i++) {
    changing.health.scale_up = 1 - 0.5 * (i % N_CLUSTERS + 1) / N_CLUSTERS;
    assert_seen(&changing, "a fault");
  }
  changing_clear(&changing);
}

TEST(a_number_of_the_workload_that_has_changed_is_seen) {
  Changing changing;
  changing_init(&changing, " --framework megatron-core");
  FrameworkTime *time = &changing.workload->method->time;
  assert_number_is_seen(&changing, &time->rates[ARCHITECTURE_HOPPER].products, 0.5, "rates");
  assert_number_is_seen(&changing, &time->arrival_spread_s, 1e-5, "arrival_spread_s");
  assert_number_is_seen(&changing, &time->step_s, 1e-3, "step_s");
  changing.workload->method->splits_stage_tensors = TRUE;
  assert_seen(&changing, "sends of parts");
  ASSERT_SEEN(&changing, changing.workload->boundary_bytes);
  changing.workload->method->splits_stage_tensors = FALSE;
  for (int phase = 0; phase < PHASE_OPTIMIZER; phase++)
    for (int i = 0; i < changing.workload->work[PIECE_LAYER][phase].n_items; i++) {
      WorkItem *item = &changing.workload->work[PIECE_LAYER][phase].items[i];
      if (item->kind == ITEM_MEMORY || item->kind == ITEM_COLLECTIVE)
        ASSERT_SEEN(&changing, item->bytes);
    }
  for (guint i = 0; i < changing.program->transfers->len; i++) {
    Transfer *transfer = &g_array_index(changing.program->transfers, Transfer, i);
    assert_number_is_seen(&changing, &transfer->bytes, transfer->bytes + 1e6, "bytes of a transfer");
  }
  time->host = (FrameworkHost){.is_stated = TRUE, .ends_forward_s = 1e-3};
  assert_seen(&changing, "the host's time");
  changing.workload->method->mtp_layers++; /* the same kernels, as long */
  assert_seen(&changing, "the host's time for a further head");
  changing.workload->method->cuda_graphs = CUDA_GRAPHS_FULL;
  assert_seen(&changing, "cuda_graphs");
  changing_clear(&changing);
}

TEST(a_map_of_ranks_that_has_changed_is_seen) {
  Changing changing;
  changing_init(&changing, "");
  Layout *layout = &changing.workload->layout;
  g_autofree int *gpus = g_new(int, layout->n_ranks), *equal = g_new(int, layout->n_ranks);
  for (int rank = 0; rank < layout->n_ranks; rank++)
    gpus[rank] = rank;
  layout->gpu_of_rank = gpus;
  g_autoptr(Timing) in_order = timing_model(changing.program, changing.workload, &changing.cluster, changing.costs);
  ck_assert(same_timing(in_order, changing.before));
  gpus[1] = 8; /* a pair of tp over two nodes */
  gpus[8] = 1;
  assert_seen(&changing, "the map");
  /* one that is known, but is somewhere else now */
  g_autoptr(Program) nothing = program_new(2, 2, 1);
  gpus[2] = 9;
  gpus[9] = 2;
  g_autoptr(Timing) timing = timing_model(nothing, changing.workload, &changing.cluster, changing.costs);
  layout->gpu_of_rank = memcpy(equal, gpus, (gsize)layout->n_ranks * sizeof *gpus);
  memset(gpus, 0, (gsize)layout->n_ranks * sizeof *gpus);
  assert_seen(&changing, "the map's place");
  changing_clear(&changing);
}

int main(void) {
  return run_tests();
}
