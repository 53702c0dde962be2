/* A workload timed with its GPU's tables: products and kernels find their rows. */
#include "kernel_cost.h"
#include "measured_fixture.h"
#include "plan.h"
#include "run_suite.h"
#include "timing_model.h"

/* GPT-2 on tp 2, timed on the fixture's cluster with tables for its GPU. */
typedef struct {
  Model *model;
  Plan *plan;
  Workload *workload;
  Timing *timing;
} Timed;

static void timed_init(Timed *timed) {
  *timed = (Timed){.model = model_read("gpt2", NULL), .plan = plan_new()};
  ck_assert_ptr_nonnull(timed->model);
  timed->plan->tp = timed->plan->gpus = 2;
  timed->plan->global_batch = 8;
  ck_assert(plan_complete(timed->plan, timed->model, NULL, NULL));
  timed->workload = workload_new(timed->model, timed->plan, NULL);
}

static void timed_run(Timed *timed, const char *tables) {
  g_autoptr(Cluster) cluster = cluster_read(FIXTURES "/cluster.yaml", NULL);
  ck_assert_ptr_nonnull(cluster);
  gpu_clear(&cluster->gpu);
  cluster->gpu = gpu_with(tables);
  g_autoptr(Program) program = program_new(1, 1, 1);
  g_clear_pointer(&timed->timing, timing_free);
  timed->timing = timing_model(program, timed->workload, cluster, NULL);
}

static void timed_clear(Timed *timed) {
  timing_free(timed->timing);
  workload_free(timed->workload);
  plan_free(timed->plan);
  model_free(timed->model);
}

typedef void (*ItemVisitor)(const WorkItem *item, gint64 duration_ns, gpointer data);

/* Items of one kind; durations are 0 before anything was timed. */
static void each_item(const Timed *timed, ItemKind kind, ItemVisitor visit, gpointer data) {
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++) {
      const WorkList *work = &timed->workload->work[piece][phase];
      for (int i = 0; i < work->n_items; i++)
        if (work->items[i].kind == kind)
          visit(&work->items[i], timed->timing != NULL ? timed->timing->lists[piece][phase].items[i].duration_ns : 0,
                data);
    }
}

typedef struct {
  int rows_more; /* than the workload's products have */
  int n;
  GString *tables;
} Listing;

/* 1000 us and one more for each product listed. */
static void list_product(const WorkItem *item, gint64 duration_ns, gpointer data) {
  Listing *listing = data;
  g_autofree char *key = g_strdup_printf("{number: bf16, layout: %s, accumulate: %s, batch: %d, m: %d, n: %d, k: %d, ",
                                         item->layout == LAYOUT_TN   ? "tn"
                                         : item->layout == LAYOUT_NN ? "nn"
                                                                     : "nt",
                                         item->accumulate ? "yes" : "no", (int)item->batch,
                                         (int)item->m + listing->rows_more, (int)item->n, (int)item->k);
  if (strstr(listing->tables->str, key) == NULL)
    g_string_append_printf(listing->tables, "    - %stime: %d us}\n", key, 1000 + listing->n++);
}

static void check_product(const WorkItem *item, gint64 duration_ns, gpointer data) {
  const Listing *listing = data;
  ck_assert_int_ge(duration_ns, 1000000);
  ck_assert_int_lt(duration_ns, 1000000 + 1000 * listing->n);
  ck_assert_int_eq(duration_ns % 1000, 0); /* as written, not computed */
}

TEST(products_are_counted_by_where_their_time_came_from) {
  Timed timed;
  timed_init(&timed);
  timed_run(&timed, "  products:\n    - {number: fp32, layout: tn, m: 1, n: 1, k: 1, time: 1 us}\n");
  const int n_products = timed.timing->n_modelled;
  ck_assert_int_gt(n_products, 10);
  ck_assert_int_eq(timed.timing->n_measured + timed.timing->n_interpolated, 0);

  Listing exact = {.tables = g_string_new("  products:\n")};
  each_item(&timed, ITEM_MATMUL, list_product, &exact);
  timed_run(&timed, exact.tables->str);
  ck_assert_int_eq(timed.timing->n_measured, n_products);
  ck_assert_int_eq(timed.timing->n_modelled + timed.timing->n_interpolated, 0);
  each_item(&timed, ITEM_MATMUL, check_product, &exact);
  g_string_free(exact.tables, TRUE);

  Listing near = {.rows_more = 1, .tables = g_string_new("  products:\n")};
  each_item(&timed, ITEM_MATMUL, list_product, &near);
  timed_run(&timed, near.tables->str);
  ck_assert_int_eq(timed.timing->n_interpolated, n_products);
  ck_assert_int_eq(timed.timing->n_modelled + timed.timing->n_measured, 0);
  g_string_free(near.tables, TRUE);
  timed_clear(&timed);
}

static void check_memory_kernel(const WorkItem *item, gint64 duration_ns, gpointer data) {
  ck_assert_int_eq(duration_ns, strcmp(item->name, "norm") == 0 ? 77000 : 55000);
}

TEST(names_of_the_workload_find_their_curves) {
  Timed timed;
  timed_init(&timed);
  /* level curves over all sizes of the workload */
  timed_run(&timed, "  kernels:\n"
                    "    - {name: norm, bytes: 1 B, time: 77 us}\n"
                    "    - {name: norm, bytes: 1 TB, time: 77 us}\n"
                    "    - {name: memory, bytes: 1 B, time: 55 us}\n"
                    "    - {name: memory, bytes: 1 TB, time: 55 us}\n");
  each_item(&timed, ITEM_MEMORY, check_memory_kernel, NULL);
  timed_clear(&timed);
}

/* Seconds to issue an item of the first layer, or to read a value back: host_launch of the GPU that the plan sees. */
static gint64 launch_ns(const Timed *timed) {
  ck_assert_int_eq(timed->timing->host_sync.run_ns, timed->timing->lists[PIECE_LAYER][PHASE_F].items[0].launch_ns);
  return timed->timing->host_sync.run_ns;
}

static void check_modelled(const WorkItem *item, gint64 duration_ns, gpointer data) {
  const double expected_s = kernel_cost_model_s(data, item);
  ck_assert_double_eq_tol((double)duration_ns * 1e-9, expected_s, 1e-9);
}

/* Level curves, and launches of 11 us. Under a framework neither counts, and the least time of a kernel is the file's,
 * unless the tables are said to be anyone's. */
TEST(a_framework_does_not_launch_or_run_the_kernels_of_stepreal) {
  static const char tables[] = "  origin: %s\n  kernel: 0.5 us\n  host_launch: 11 us\n"
                               "  kernels:\n"
                               "    - {name: norm, bytes: 1 B, time: 77 us}\n"
                               "    - {name: norm, bytes: 1 TB, time: 77 us}\n"
                               "    - {name: memory, bytes: 1 B, time: 55 us}\n"
                               "    - {name: memory, bytes: 1 TB, time: 55 us}\n";
  Timed timed;
  timed_init(&timed);
  Plan *plan = (Plan *)timed.workload->plan;
  g_autofree char *own = g_strdup_printf(tables, "stepreal"), *any = g_strdup_printf(tables, "any");
  Gpu bare = gpu_with("  kernels:\n    - {name: x, bytes: 1 B, time: 1 us}\n");
  for (int has_framework = 0; has_framework < 2; has_framework++) {
    g_clear_pointer(&plan->framework, g_free);
    plan->framework = has_framework ? g_strdup("some") : NULL;
    method_settle(timed.workload->method);
    timed_run(&timed, own);
    each_item(&timed, ITEM_MEMORY, has_framework ? check_modelled : check_memory_kernel, &bare);
    ck_assert_int_eq(launch_ns(&timed), has_framework ? (gint64)(bare.host_launch_s * 1e9 + 0.5) : 11000);
    timed_run(&timed, any);
    each_item(&timed, ITEM_MEMORY, check_memory_kernel, NULL);
    ck_assert_int_eq(launch_ns(&timed), 11000);
  }
  gpu_clear(&bare);
  timed_clear(&timed);
}

/* All products are measured, in 1 ms each, by libraries that frameworks call too. */
TEST(a_framework_runs_the_products_that_stepreal_does) {
  Timed timed;
  timed_init(&timed);
  Listing listed = {.tables = g_string_new("  origin: stepreal\n  products:\n")};
  each_item(&timed, ITEM_MATMUL, list_product, &listed);
  ((Plan *)timed.workload->plan)->framework = g_strdup("some");
  timed_run(&timed, listed.tables->str);
  ck_assert_int_eq(timed.timing->n_modelled + timed.timing->n_interpolated, 0);
  each_item(&timed, ITEM_MATMUL, check_product, &listed);
  g_string_free(listed.tables, TRUE);
  timed_clear(&timed);
}

int main(void) {
  TCase *cases = listed_tests();
  tcase_add_checked_fixture(cases, set_up, tear_down);
  return run_case("measured_timing", cases);
}
