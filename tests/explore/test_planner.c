/* The search for the best plan against trying every configuration. */
#include "planner_fixture.h"
#include "run_suite.h"

#include "plan.h"
#include "plan_bound.h"
#include "plan_family.h"
#include "plan_screen.h"
#include "plan_shards.h"
#include "sweep_try.h"
#include "training_cost.h"

/* Small enough to try all, with plans that do not fit: 8 and 16 GPUs. */
static const struct {
  const char *model, *cluster, *gpus, *batch;
} cases[] = {
    {"llama-3-8b", "dgx-h100", "8", "16"},    {"llama-3-8b", "a100-pcie", "4", "8"},
    {"llama-3-8b", "selene", "16", "16"},     {"megatron-3.6b", "dgx-h100", "8", "16"},
    {"megatron-3.6b", "a100-pcie", "8", "8"}, {"megatron-3.6b", "selene", "8", "32"},
    {"gpt2", "dgx-h100", "8", "32"},          {"gpt2", "a100-pcie", "8", "32"},
    {"gpt2", "selene", "16", "32"},           {"gpt2", STEPSIM_SOURCE_DATA "/tests/data/faults.yaml", "16", "32"},
};

static Space *space_of_case(gsize i) {
  g_autofree char *given =
      g_strdup_printf("model=%s cluster=%s gpus=%s global-batch=%s seq-len=1024 cp=%s micro-batch=%s "
                      "schedule=1f1b,interleaved,zb-h1 chunks=1,2 zero=%s recompute=%s",
                      cases[i].model, cases[i].cluster, cases[i].gpus, cases[i].batch, i == 2 ? "1,2" : "1",
                      i > 0 && i % 4 == 0 ? "1,4" : "2", i % 3 == 0 && i > 0 ? "0,1,3" : "0,3",
                      i == 0   ? "none,selective,full"
                      : i == 2 ? "none"
                               : "none,full");
  return space_of(given);
}

/* --- the exhaustive way --- */

typedef struct {
  gint64 n_impossible, n_out_of_memory, n_same;
  gint64 least_same_ns;
  GArray *steps_ns; /* of what fits, ascending */
} Exhaustive;

static int by_ns(gconstpointer a, gconstpointer b) {
  gint64 x = *(const gint64 *)a, y = *(const gint64 *)b;
  return (x > y) - (x < y);
}

/* The bound may not be above what the simulation says. */
static void check_bound(const Prediction *prediction) {
  const Workload *workload = prediction->workload;
  gint64 bound_ns = plan_bound_step_ns(workload, prediction->cluster, FALSE, NULL);
  if (bound_ns <= 0 || bound_ns > prediction->metrics->step_ns)
    ck_abort_msg("bound %g s, step %g s", 1e-9 * (double)bound_ns, prediction->step_time_s);
}

/* The space has sequence parallelism off, ZeRO 0, no recomputation and 1f1b too. */
static gboolean is_same(const Plan *plan) {
  return (plan->tp == 1 && plan->sequence_parallel) || (plan_data_ranks(plan) == 1 && plan->zero > 0) ||
         plan->recompute == RECOMPUTE_SELECTIVE || /* with flash attention, the default */
         (plan->chunks == 1 && strcmp(plan->schedule, "interleaved") == 0);
}

/* … and layers dealt out as by auto. */
static gboolean is_same_layout(const SpacePoint *point, const Workload *balanced) {
  if (point->plan->pipeline_layout == NULL)
    return FALSE;
  g_autoptr(Plan) plan = plan_copy(balanced->plan);
  g_clear_pointer(&plan->pipeline_layout, g_free);
  g_autoptr(Workload) as_auto = workload_new(point->model, plan, balanced->placement);
  for (int stage = 0; stage < as_auto->n_stages; stage++)
    if (as_auto->stages[stage].layers.n_layers != balanced->stages[stage].layers.n_layers)
      return FALSE;
  return TRUE;
}

static Exhaustive try_all(const Space *space) {
  Exhaustive all = {.steps_ns = g_array_new(FALSE, FALSE, sizeof(gint64)), .least_same_ns = G_MAXINT64};
  g_autoptr(SpaceReader) reader = space_reader_new(space);
  for (gint64 i = 0; i < space_count(space); i++) {
    SpacePoint point;
    ck_assert(space_reader_read(reader, i, &point, NULL));
    if (point.plan->chunks > 1 && strcmp(point.plan->schedule, "1f1b") == 0) {
      all.n_same++; /* as interleaved of so many */
      continue;
    }
    if (point.plan->pp == 1 && point.plan->pipeline_layout != NULL) {
      all.n_same++; /* one stage has all layers */
      continue;
    }
    g_autoptr(Prediction) prediction = predict(point.model, point.cluster, point.plan, NULL);
    all.n_impossible += prediction == NULL;
    if (prediction == NULL)
      continue;
    check_bound(prediction);
    if (is_same(prediction->workload->plan) || is_same_layout(&point, prediction->workload)) {
      all.n_same++;
      all.least_same_ns = prediction->fits ? MIN(all.least_same_ns, prediction->metrics->step_ns) : all.least_same_ns;
      continue;
    }
    all.n_out_of_memory += !prediction->fits;
    if (prediction->fits)
      g_array_append_val(all.steps_ns, prediction->metrics->step_ns);
  }
  g_array_sort(all.steps_ns, by_ns);
  return all;
}

TEST(the_search_keeps_what_trying_everything_would_keep) {
  gint64 n_left_out = 0, n_out_of_memory = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Space) space = space_of_case(i);
    Exhaustive all = try_all(space);
    PlannerRequest request = request_of(space);
    g_autoptr(PlannerResult) result = search(&request);
    ck_assert_uint_eq(result->kept->len, 5);
    for (guint k = 0; k < result->kept->len; k++) {
      const PlanOutcome *kept = g_ptr_array_index(result->kept, k);
      ck_assert_int_eq(llround(kept->step_time_s * 1e9), g_array_index(all.steps_ns, gint64, k));
    }
    ck_assert_int_eq(result->n_configurations, space_count(space));
    /* what the bound left out may have been impossible to lay out, or out of memory */
    ck_assert_int_le(result->n_impossible, all.n_impossible);
    ck_assert_int_le(result->n_out_of_memory, all.n_out_of_memory);
    ck_assert_int_eq(result->n_same, all.n_same);
    ck_assert_int_ge(all.least_same_ns, g_array_index(all.steps_ns, gint64, 0));
    ck_assert_int_eq(result->n_configurations, result->n_same + result->n_impossible + result->n_out_of_memory +
                                                   result->n_late + result->n_beaten_by_bound + result->n_slower +
                                                   result->kept->len);
    n_left_out += result->n_beaten_by_bound;
    n_out_of_memory += result->n_out_of_memory;
    g_array_unref(all.steps_ns);
  }
  ck_assert_int_gt(n_left_out, 0); /* or the bound does nothing */
  ck_assert_int_gt(n_out_of_memory, 0);
}

/* Of each axis a drawn space has one of these values, or a few. */
static const struct {
  const char *name, *text;
} drawn_axes[] = {{"model", "gpt2,gpt2,megatron-1.7b,megatron-1.7b,mixtral-8x7b"},
                  {"cluster", "dgx-h100,selene,h800"},
                  {"gpus", "8,16"},
                  {"global-batch", "16,32,48"},
                  {"seq-len", "256,1024"},
                  {"tp", "1,1,2,4"},
                  {"pp", "1,2,2,4"},
                  {"cp", "1,1,1,2"},
                  {"ep", "1,1,1,2"},
                  {"expert-tp", "0,0,0,1"},
                  {"chunks", "1,1,2,3"},
                  {"schedule", "1f1b,1f1b,interleaved,interleaved,looped-bfs,zb-h1,zb-v,dualpipe,auto,auto"},
                  {"pipeline-layout", "auto,balanced"},
                  {"micro-batch", "1,2"},
                  {"zero", "0,1,2,3"},
                  {"recompute", "none,selective,full"},
                  {"sequence-parallel", "on,off"},
                  {"overlap-p2p", "on,off"},
                  {"steps", "1,3"},
                  {"grad-norm-barrier", "on,off"}};
enum { N_DRAWN = 40, MOST_OF_A_SPACE = 16 };

static Space *draw_space(guint seed) {
  g_autoptr(GRand) random = g_rand_new_with_seed(seed);
  Space *space = space_new();
  int n_points = 1;
  for (gsize i = 0; i < G_N_ELEMENTS(drawn_axes); i++) {
    g_auto(GStrv) values = g_strsplit(drawn_axes[i].text, ",", -1);
    const int n_values = (int)g_strv_length(values), first = g_rand_int_range(random, 0, n_values);
    g_autoptr(GString) text = g_string_new(values[first]);
    const char *second = values[(first + g_rand_int_range(random, 1, n_values)) % n_values];
    if (i >= 5 && 2 * n_points <= MOST_OF_A_SPACE && g_rand_boolean(random) && strcmp(second, values[first]) != 0) {
      g_string_append_printf(text, ",%s", second);
      n_points *= 2;
    }
    ck_assert(space_set(space, drawn_axes[i].name, text->str, NULL));
  }
  const MemoryMargin margin = {.share = seed % 2 * g_rand_double_range(random, 0.9, 0.97)}; /* or not all would fit */
  space_set_memory_margin(space, &margin);
  ck_assert(space_finish(space, NULL));
  return space;
}

typedef struct {
  const Space *space;
  SpaceReader *reader;
  SweepWorker *worker;
  SweepTable *table;
  ShortOrder *order;
  PlanScreen screen;
} Drawn;

/* The step of a configuration if it fits, else G_MAXINT64: by itself, in a sweep and as its screen sees it. */
static gint64 step_of_point(const Drawn *drawn, gint64 index) {
  SpacePoint point;
  if (!space_reader_read(drawn->reader, index, &point, NULL))
    return G_MAXINT64;
  const gboolean is_auto = strcmp(point.plan->schedule, "auto") == 0; /* impossible if no order of it fits */
  g_autoptr(Prediction) prediction = predict_numbers(NULL, point.model, point.cluster, point.plan, NULL);
  const gboolean fits = prediction != NULL && prediction->fits;
  double number = 0;
  const PlanScreener screener = {drawn->reader, drawn->order};
  const Screened screened = plan_screen(&drawn->screen, &screener, index, &number, NULL);
  SweepRow row;
  sweep_worker_try(drawn->worker, index, &row);
  const gint64 step_ns = fits ? prediction->metrics->step_ns : G_MAXINT64;
  const double score =
      fits ? plan_score(&drawn->screen.request->scoring, prediction->workload, point.cluster, step_ns, 1) : 0;
  if ((row.status == SWEEP_RAN) != fits || (!is_auto && (row.status == SWEEP_IMPOSSIBLE) != (prediction == NULL)) ||
      (screened == SCREENED_IMPOSSIBLE && prediction != NULL) || (screened == SCREENED_TOO_LARGE && fits) ||
      (screened == SCREENED_CANDIDATE && fits && number > score * (1 + 1e-12)))
    ck_abort_msg("configuration %d: fits %d, in a sweep %d, screened %d (%g of %g): %s", (int)index, fits, row.status,
                 screened, number, score, space_text(drawn->space));
  if (fits)
    ck_assert_double_eq(prediction->step_time_s, row.cells[sweep_table_find(drawn->table, "step_time_s")].real);
  sweep_row_clear(&row);
  return step_ns;
}

/* The best of a space, by trying it all; G_MAXINT64: nothing fits. */
static gint64 least_step(const Space *space, const PlannerRequest *request) {
  g_autoptr(SweepTable) table = sweep_table_new();
  const SweepSetup setup = {.space = (Space *)space, .price = -1, .prune = TRUE}; /* borrowed */
  g_autoptr(SpaceReader) reader = space_reader_new(space);
  g_autoptr(SweepWorker) worker = sweep_worker_new(&setup, table);
  g_autoptr(ShortOrder) order = short_order_new();
  const Drawn drawn = {space, reader, worker, table, order, plan_screen_of(request)};
  gint64 least_ns = G_MAXINT64;
  for (gint64 i = 0; i < space_count(space); i++)
    least_ns = MIN(least_ns, step_of_point(&drawn, i));
  return least_ns;
}

TEST(simulate_sweep_and_plan_agree_on_drawn_spaces) {
  int n_found = 0;
  for (guint seed = 0; seed < N_DRAWN; seed++) {
    g_autoptr(Space) space = draw_space(seed);
    PlannerRequest request = request_of(space);
    request.n_kept = 1;
    const gint64 least_ns = least_step(space, &request);
    g_autoptr(PlannerResult) result = planner_search(&request, NULL, NULL);
    const PlanOutcome *best = result != NULL ? result->kept->pdata[0] : NULL;
    if ((best != NULL ? llround(best->step_time_s * 1e9) : G_MAXINT64) != least_ns)
      ck_abort_msg("space %u: plan %g s, of all %g s\n%s", seed, best != NULL ? best->step_time_s : INFINITY,
                   1e-9 * (double)least_ns, space_text(space));
    n_found += best != NULL;
  }
  ck_assert_int_gt(n_found, N_DRAWN / 3);
}

/* The best of a configuration with shards over all ranks or fewer; INFINITY: none fits. */
static double least_score(const SpacePoint *point, const PlannerRequest *request) {
  g_autoptr(PlanOutcome) whole =
      plan_outcome_new(NULL, point->model, point->cluster, point->plan, &request->scoring, NULL);
  if (whole == NULL || !whole->fits)
    return INFINITY;
  double least = whole->score;
  g_autoptr(GArray) narrower = plan_shards_narrower(whole->completed, point->cluster);
  for (guint i = 0; i < narrower->len && zero_shards_weights(point->plan->zero); i++) {
    g_autoptr(Plan) plan = plan_copy(point->plan);
    plan->zero_ranks = g_array_index(narrower, int, i);
    g_autoptr(PlanOutcome) outcome =
        plan_outcome_new(NULL, point->model, point->cluster, plan, &request->scoring, NULL);
    if (outcome != NULL && outcome->fits)
      least = fmin(least, outcome->score);
  }
  return least;
}

static int by_score(gconstpointer a, gconstpointer b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* On 64 nodes gathers of 512 ranks for every micro-batch take longer than kernels, those of fewer ranks do not: what
 * rules out the former must not rule out the latter. */
TEST(plans_that_win_with_shards_over_fewer_ranks_are_kept) {
  static const char given[] = "model=llama-3-8b cluster=dgx-h100 gpus=512 global-batch=2048 seq-len=1024 tp=1,2 pp=1,2 "
                              "chunks=1 schedule=1f1b pipeline-layout=auto micro-batch=1,2 zero=2,3 "
                              "recompute=none,full sequence-parallel=off";
  g_autoptr(Space) space = space_of(given);
  PlannerRequest request = request_of(space);
  request.seeks_shards = TRUE;
  g_autoptr(SpaceReader) reader = space_reader_new(space);
  g_autoptr(GArray) scores = g_array_new(FALSE, FALSE, sizeof(double));
  for (gint64 i = 0; i < space_count(space); i++) {
    SpacePoint point;
    if (!space_reader_read(reader, i, &point, NULL))
      continue;
    const double score = least_score(&point, &request);
    g_array_append_val(scores, score);
  }
  g_array_sort(scores, by_score);
  int n_narrower = 0;
  for (request.n_kept = 1; request.n_kept < 12; request.n_kept++) {
    g_autoptr(PlannerResult) result = search(&request);
    for (guint k = 0; k < result->kept->len; k++) {
      const PlanOutcome *kept = result->kept->pdata[k];
      ck_assert_double_eq(kept->score, g_array_index(scores, double, k));
      n_narrower += kept->plan->zero_ranks > 0;
    }
  }
  ck_assert_int_gt(n_narrower, 0);
}

TEST(threads_change_nothing) {
  g_autoptr(Space) space = space_of_case(0);
  PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) one = search(&request);
  request.n_threads = 3;
  g_autoptr(PlannerResult) three = search(&request);
  ck_assert_int_eq(one->n_simulated, three->n_simulated);
  ck_assert_int_eq(one->n_impossible, three->n_impossible);
  ck_assert_mem_eq(one->n_slower_by, three->n_slower_by, sizeof one->n_slower_by);
  ck_assert_uint_eq(one->reasons->len, three->reasons->len);
  for (guint k = 0; k < one->kept->len; k++)
    ck_assert_int_eq(((PlanOutcome *)one->kept->pdata[k])->index, ((PlanOutcome *)three->kept->pdata[k])->index);
}

static char *family_of(const PlanOutcome *outcome, const char *const *compared) {
  return plan_family_key(outcome->model, outcome->cluster, outcome->plan, compared);
}

/* Of all plans that fit, by score, the first of each family, on any number of threads. Where micro-batches are compared
 * they set families apart. */
TEST(the_best_of_each_family_is_kept) {
  static const char *const none[] = {NULL}, *const batches[] = {"micro-batch", NULL};
  static const char *const *const cases_compared[] = {none, batches};
  static const char given[] = "model=llama-3-8b cluster=dgx-h100 gpus=16 global-batch=32 seq-len=2048 "
                              "chunks=1,2,4 micro-batch=1,2 zero=1,3 recompute=none,full";
  for (gsize i = 0; i < G_N_ELEMENTS(cases_compared); i++) {
    const char *const *compared = cases_compared[i];
    g_autoptr(Space) space = space_of(given);
    PlannerRequest request = request_of(space);
    request.n_kept = 100000;
    g_autoptr(PlannerResult) all = search(&request);
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GArray) expected = g_array_new(FALSE, FALSE, sizeof(gint64));
    for (guint k = 0; k < all->kept->len; k++)
      if (g_hash_table_add(seen, family_of(all->kept->pdata[k], compared)))
        g_array_append_val(expected, ((PlanOutcome *)all->kept->pdata[k])->index);
    ck_assert_uint_gt(expected->len, 6);
    ck_assert_uint_lt(expected->len, all->kept->len);
    request.n_kept = 6;
    request.compared = compared;
    g_autoptr(PlannerResult) one = search(&request);
    request.n_threads = 3;
    g_autoptr(PlannerResult) three = search(&request);
    ck_assert_uint_eq(one->kept->len, 6);
    for (guint k = 0; k < one->kept->len; k++) {
      ck_assert_int_eq(((PlanOutcome *)one->kept->pdata[k])->index, g_array_index(expected, gint64, k));
      ck_assert_int_eq(((PlanOutcome *)three->kept->pdata[k])->index, g_array_index(expected, gint64, k));
    }
    ck_assert_int_eq(one->n_simulated, three->n_simulated);
    ck_assert_uint_eq(one->neighbours->len, three->neighbours->len);
    ck_assert_int_lt(one->n_simulated, all->n_simulated);
    ck_assert_int_eq(one->n_configurations, one->kept->len + one->n_same + one->n_impossible + one->n_out_of_memory +
                                                one->n_late + one->n_beaten_by_bound + one->n_slower);
  }
}

/* What is given as a list is compared; ranges are lists, a value is not. */
TEST(axes_that_were_given_several_values_are_compared) {
  g_autoptr(Space) space = space_new();
  ck_assert(space_set_text(space, "tp=1,2\npp=4\nmicro-batch=1..8*2\nmodel=gpt2\n", NULL));
  g_auto(GStrv) compared = plan_family_compared(space);
  ck_assert_uint_eq(g_strv_length(compared), 2);
  ck_assert_str_eq(compared[0], "tp");
  ck_assert_str_eq(compared[1], "micro-batch");
}

/* torchtitan's selective recompute keeps every other product: less memory than none, less time than full. */
TEST(selective_recompute_of_products_is_a_plan_of_its_own) {
  static const char given[] =
      "model=llama-3-8b cluster=torchtitan-h100 framework=torchtitan-eager gpus=8 global-batch=16 "
      "seq-len=8192 tp=1 pp=1 micro-batch=2 zero=3";
  g_autoptr(Space) space = space_of(given);
  PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) result = search(&request);
  ck_assert_int_eq(((PlanOutcome *)result->kept->pdata[0])->completed->recompute, RECOMPUTE_SELECTIVE);
}

/* --- objectives and limits --- */

/* More GPUs train faster and cost more: strong scaling never gains more than the GPUs it adds. */
TEST(speed_takes_all_gpus_and_cost_the_fewest) {
  static const char given[] =
      "model=llama-3-8b cluster=dgx-h100 gpus=16,32,64 pp=1 global-batch=64 micro-batch=1 zero=1,3";
  g_autoptr(Space) space = space_of(given);
  PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) fast = search(&request);
  request.scoring.objective = OBJECTIVE_COST;
  g_autoptr(PlannerResult) cheap = search(&request);
  request.scoring.objective = OBJECTIVE_MFU;
  g_autoptr(PlannerResult) efficient = search(&request);
  ck_assert_int_eq(((PlanOutcome *)fast->kept->pdata[0])->completed->gpus, 64);
  ck_assert_int_eq(((PlanOutcome *)cheap->kept->pdata[0])->completed->gpus, 16);
  const PlanOutcome *best = efficient->kept->pdata[0];
  ck_assert_double_eq_tol(1 / best->score, best->mfu, 1e-9);
}

/* Where 8 GPUs are interrupted every hour and 64 eight times as often. Step by step, 64 GPUs without recomputation are
 * a quarter cheaper than 8 with it, which is all that fits there; with what is done twice they are dearer. */
TEST(cost_counts_what_failures_take) {
  g_autofree char *given =
      g_strdup_printf("model=llama-3-8b cluster=%s gpus=8,64 tp=1 pp=1 global-batch=128 seq-len=8192 micro-batch=1 "
                      "zero=1 recompute=none,full",
                      STEPSIM_SOURCE_DATA "/tests/data/failing.yaml");
  g_autoptr(Space) space = space_of(given);
  PlannerRequest request = request_of(space);
  request.scoring.objective = OBJECTIVE_COST;
  g_autoptr(PlannerResult) all = search(&request);
  ck_assert_uint_eq(all->kept->len, 3); /* 8 GPUs do not hold all activations */
  for (guint i = 0; i < 3; i++) {
    const PlanOutcome *kept = all->kept->pdata[i];
    ck_assert_int_eq(kept->completed->gpus, i == 0 ? 8 : 64);
    ck_assert_double_eq_tol(1e6 * kept->score / plan_outcome_dollars_per_million_tokens(kept), 1, 1e-12);
    const TrainingCost cost =
        training_cost_of(1e6, kept->tokens_per_s, kept->completed->gpus, kept->dollars_per_gpu_hour, 0, &kept->goodput);
    ck_assert_double_eq_tol(cost.expected_dollars * 1e-6 / kept->score, 1, 1e-12);
  }
  const PlanOutcome *few = all->kept->pdata[0], *many = all->kept->pdata[1];
  ck_assert_double_gt(few->score * few->goodput.share, many->score * many->goodput.share);
  request.n_kept = 1;
  g_autoptr(PlannerResult) one = search(&request); /* the bound leaves out none that is better */
  ck_assert_int_eq(((PlanOutcome *)one->kept->pdata[0])->index, few->index);
}

TEST(slower_plans_than_asked_for_are_late) {
  g_autoptr(Space) space = space_of_case(8);
  PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) any = search(&request);
  const PlanOutcome *best = any->kept->pdata[0], *last = any->kept->pdata[4];
  ck_assert_double_gt(best->tokens_per_s, last->tokens_per_s);
  request.least_tokens_per_s = (best->tokens_per_s + last->tokens_per_s) / 2;
  g_autoptr(PlannerResult) in_time = search(&request);
  ck_assert_uint_lt(in_time->kept->len, 5);
  ck_assert_int_eq(((PlanOutcome *)in_time->kept->pdata[0])->index, best->index);
  ck_assert_int_gt(in_time->n_late, 0);
  request.least_tokens_per_s = 2 * best->tokens_per_s;
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(planner_search(&request, NULL, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  ck_assert_msg(strstr(error->message, "deadline") != NULL, "%s", error->message);
}

/* gpt2's 12 layers: chunks of 6 kinds go with pp 2, 3 or 4, so 7 pairs of schedule and chunks are left when 1f1b of
 * chunks counts as interleaved; ZeRO has 4 stages, recomputation 3, sequence parallelism 2, layouts 2: 336 for each pp.
 * Of 7 sequences dp 4 and dp 2 have no equal parts, of 8 GPUs there are no 3. */
TEST(without_a_plan_the_most_frequent_reasons_are_told) {
  static const struct {
    const char *given, *expected;
  } hopeless[] = {
      {"model=gpt2 cluster=dgx-h100 gpus=8 global-batch=7 tp=1 pp=2,3,4 micro-batch=1",
       "; 1008 are impossible: 672 because global-batch … is not a multiple of micro-batch … × dp … = …, 336 because "
       "gpus 8 is not a multiple of tp 1 × pp 3 = 3"}, /* in each of the 336 */
      {"model=gpt2 cluster=dgx-h100 gpus=8 global-batch=7 tp=4 pp=1,2 micro-batch=2 zero=0",
       " are impossible: global-batch … is not a multiple of micro-batch … × dp … = …"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(hopeless); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Space) space = space_of(hopeless[i].given);
    PlannerRequest request = request_of(space);
    ck_assert_ptr_null(planner_search(&request, NULL, &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
    ck_assert_msg(g_str_has_suffix(error->message, hopeless[i].expected), "%s", error->message);
  }
}

/* 13 billion parameters of 16 bytes on four GPUs of 43 GB, where the file says how fast hosts are. Who says where the
 * optimizer is to be has thought of it. */
TEST(without_room_the_nodes_memory_is_named) {
  for (int asked = 0; asked < 2; asked++) {
    g_autofree char *given =
        g_strconcat("model=llama-2-13b cluster=a100-pcie gpus=4 global-batch=8 recompute=none micro-batch=4",
                    asked ? " offload-optimizer=none" : "", NULL);
    g_autoptr(Space) space = space_of(given);
    const PlannerRequest request = request_of(space);
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(planner_search(&request, NULL, &error));
    ck_assert_ptr_nonnull(strstr(error->message, "GB more"));
    ck_assert_int_eq(strstr(error->message, "--offload-optimizer none,host tries") != NULL, !asked);
  }
}

/* Llama-3.1-405B with all of its state on a node of 2,000 GB: 2 + 2 + 12 bytes of 405.9e9 parameters are 6,493.65 GB,
 * and GPUs have room. */
TEST(what_a_nodes_memory_lacks_is_said) {
  static const char given[] =
      "model=llama-3.1-405b cluster=dgx-h100 gpus=8 global-batch=8 seq-len=2048 tp=1 pp=1 schedule=1f1b "
      "zero=3 recompute=full micro-batch=1 offload-optimizer=host offload-weights=host";
  g_autoptr(Space) space = space_of(given);
  const PlannerRequest request = request_of(space);
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(planner_search(&request, NULL, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "1 do not fit in memory: the smallest needs at least 4493.65 GB more"));
}

TEST(a_framework_is_given_only_plans_it_can_run) {
  g_autoptr(Space) space = space_of_case(0);
  PlannerRequest request = request_of(space);
  request.framework = LAUNCH_DEEPSPEED;
  g_autoptr(PlannerResult) result = search(&request);
  for (guint k = 0; k < result->kept->len; k++) {
    const Plan *plan = ((PlanOutcome *)result->kept->pdata[k])->completed;
    ck_assert(plan->pp == 1 || strcmp(plan->schedule, "1f1b") == 0);
    ck_assert(plan->tp == 1 || !plan->sequence_parallel);
  }
  gboolean is_told = FALSE;
  for (guint i = 0; i < result->reasons->len; i++)
    is_told |= g_str_has_prefix(g_array_index(result->reasons, Reason, i).text, "deepspeed: ");
  ck_assert(is_told);
}

/* gpt2 has 12 layers: on 5 ranks neither 12 nor 14 of them are cut evenly, whole or in chunks. A V has two chunks all
 * the same; of one chunk it is no plan of its own. */
TEST(a_schedule_that_needs_chunks_is_given_them) {
  static const char given[] =
      "model=gpt2 cluster=dgx-h100 gpus=5 global-batch=20 tp=1 pp=5 schedule=zb-v,1f1b "
      "pipeline-layout=auto seq-len=1024 micro-batch=1 sequence-parallel=off recompute=none zero=0";
  g_autoptr(Space) space = space_of(given);
  const PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) result = search(&request);
  ck_assert_int_eq(result->kept->len, 2);
  gboolean has_v = FALSE;
  for (guint k = 0; k < result->kept->len; k++) {
    const Plan *plan = ((PlanOutcome *)result->kept->pdata[k])->completed;
    has_v |= strcmp(plan->schedule, "zb-v") == 0 && plan->chunks == 2;
  }
  ck_assert(has_v);
  for (guint i = 0; i < result->reasons->len; i++)
    ck_assert_ptr_null(strstr(g_array_index(result->reasons, Reason, i).text, "schedule zb-v has"));
}

static void clear_fault(gpointer fault) {
  g_free(((LinkFault *)fault)->a);
}

/* Of a cluster with faults a prediction has a copy of its own, which knows what they leave; the outcome outlives it. */
TEST(an_outcome_names_the_cluster_that_was_given) {
  g_autoptr(Model) model = model_read("gpt2", NULL);
  g_autoptr(Cluster) cluster = cluster_read("selene", NULL);
  g_autoptr(Plan) plan = plan_new();
  const LinkFault slow = {g_strdup("node0/nic0"), NULL, 0.5, 1};
  cluster->faults = g_array_new(FALSE, FALSE, sizeof slow);
  g_array_set_clear_func(cluster->faults, clear_fault);
  g_array_append_val(cluster->faults, slow);
  plan->gpus = plan->global_batch = 16;
  const PlanScoring scoring = {OBJECTIVE_TOKENS_PER_S, -1};
  g_autoptr(PlanOutcome) outcome = plan_outcome_new(NULL, model, cluster, plan, &scoring, NULL);
  ck_assert_ptr_nonnull(outcome);
  ck_assert_ptr_eq(outcome->cluster, cluster);
}

/* --- memory --- */

/* A plan that fills its GPU to some share fits a margin that is a little smaller, as a share or as bytes, and does not
 * fit one that is a little larger; then the search finds another, and its pruning is what trying everything does. */
TEST(a_margin_leaves_out_plans_that_need_it) {
  static const char *const margins[] = {"0", "0.6", "60 %", "60 GB"};
  gint64 n_too_large[G_N_ELEMENTS(margins)], last = -1;
  for (gsize i = 0; i < G_N_ELEMENTS(margins); i++) {
    MemoryMargin margin;
    ck_assert(memory_margin_parse(margins[i], &margin, NULL));
    g_autoptr(Space) space = space_new();
    space_set_memory_margin(space, &margin);
    static const char given[] =
        "model=llama-3-8b cluster=dgx-h100 gpus=8 pp=1,2 global-batch=16 zero=1,3 chunks=1 schedule=1f1b "
        "seq-len=2048 recompute=none micro-batch=1,4";
    fill_space(space, given);
    PlannerRequest request = request_of(space);
    request.n_kept = 1;
    g_autoptr(PlannerResult) result = search(&request);
    const PlanOutcome *best = result->kept->pdata[0];
    const double hbm_bytes = best->cluster->gpu.hbm_bytes, expected = margin.share * hbm_bytes + margin.bytes;
    ck_assert_double_eq_tol(best->margin_bytes, expected, 1);
    ck_assert_double_eq_tol(best->capacity_bytes, hbm_bytes - expected, 1);
    ck_assert_double_le(best->total_bytes, hbm_bytes - expected);
    ck_assert_double_eq_tol(plan_outcome_used(best), best->total_bytes / hbm_bytes, 1e-12);
    n_too_large[i] = result->n_too_large;
    Exhaustive all = try_all(space);
    ck_assert_int_eq(llround(best->step_time_s * 1e9), g_array_index(all.steps_ns, gint64, 0));
    ck_assert(i == 2 ? all.n_out_of_memory == last : all.n_out_of_memory > last); /* 0.6 is 60 % */
    last = all.n_out_of_memory;
    g_array_unref(all.steps_ns);
  }
  ck_assert_int_lt(n_too_large[0], n_too_large[1]); /* the bound knows of it */
  ck_assert_int_eq(n_too_large[1], n_too_large[2]);
}

TEST(a_margin_is_a_share_or_a_size) {
  static const struct {
    const char *text;
    double share, bytes;
  } right[] = {{"0", 0, 0},       {"5%", 0.05, 0},  {"5 %", 0.05, 0},
               {"0.25", 0.25, 0}, {"4 GB", 0, 4e9}, {"1GiB", 0, 1 << 30}};
  static const char *const wrong[] = {"", "5", "-1 %", "100 %", "5 % of it", "4", "four", "4 GB/s", "nan", "%"};
  for (gsize i = 0; i < G_N_ELEMENTS(right); i++) {
    MemoryMargin margin;
    ck_assert_msg(memory_margin_parse(right[i].text, &margin, NULL), "%s", right[i].text);
    ck_assert_double_eq_tol(margin.share, right[i].share, 1e-15);
    ck_assert_double_eq_tol(margin.bytes, right[i].bytes, 1e-3);
  }
  for (gsize i = 0; i < G_N_ELEMENTS(wrong); i++) {
    MemoryMargin margin;
    g_autoptr(GError) error = NULL;
    ck_assert_msg(!memory_margin_parse(wrong[i], &margin, &error), "%s", wrong[i]);
    ck_assert_msg(strstr(error->message, "expected a share") != NULL, "%s", error->message);
  }
}

int main(void) {
  return run_tests();
}
