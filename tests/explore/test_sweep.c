/* Sweeps: rows equal predict()'s results, in any order and on any thread; configurations not run do not fit. */
#include "run_suite.h"
#include "sweep_fixture.h"

#include "json_report.h"
#include "memory_bound.h"
#include "options.h"
#include "plan.h"
#include "predict.h"
#include "step_of_prediction.h"

#include <json-glib/json-glib.h>

/* --- rows --- */

TEST(rows_do_not_depend_on_the_number_of_threads) {
  g_auto(SweepSetup) setup = setup_of(mixed_space);
  SweepProgress one, four;
  g_autofree char *alone = swept(&setup, 1, &one), *together = swept(&setup, 4, &four);
  ck_assert_int_eq(sweep_progress_n_now(&one), 192);
  ck_assert_int_gt(one.n_now[SWEEP_RAN], 0);
  ck_assert_int_gt(one.n_now[SWEEP_TOO_LARGE], 0);
  ck_assert_int_gt(one.n_now[SWEEP_IMPOSSIBLE], 0);
  ck_assert(memcmp(one.n_now, four.n_now, sizeof one.n_now) == 0);
  ck_assert(strcmp(alone, together) == 0);
}

/* A member of simulate --json under the name of its column: memory.peak_bytes is memory_peak_bytes. */
static char *column_name(const char *object, const char *member) {
  if (g_str_equal(object, "breakdown_s"))
    return g_strdup_printf("breakdown_%s_s", member);
  return *object == '\0' ? g_strdup(member) : g_strdup_printf("%s_%s", object, member);
}

/* Numbers and flags of a JSON object that differ from the row's cells, or that the row lacks. */
static int count_differences(const SweepRow *row, const SweepTable *table, JsonObject *object, const char *path,
                             int *n_compared) {
  int n_wrong = 0;
  g_autoptr(GList) members = json_object_get_members(object);
  for (GList *at = members; at != NULL; at = at->next) {
    JsonNode *node = json_object_get_member(object, at->data);
    if (JSON_NODE_HOLDS_OBJECT(node)) {
      n_wrong += count_differences(row, table, json_node_get_object(node), at->data, n_compared);
      continue;
    }
    g_autofree char *name = column_name(path, at->data);
    static const char *const not_columns[] = {"engine_wall_s",  "flops_convention", "interval_level",
                                              "interval_ratio", "interval_like",    NULL};
    if (!JSON_NODE_HOLDS_VALUE(node) || g_strv_contains(not_columns, name))
      continue;
    const int column = sweep_table_find(table, name);
    const Cell *cell = column < 0 ? NULL : &row->cells[column];
    const GType type = json_node_get_value_type(node);
    ++*n_compared;
    if (cell == NULL || (type == G_TYPE_DOUBLE && cell->real != json_node_get_double(node)) ||
        (type == G_TYPE_INT64 && cell->whole != json_node_get_int(node)) ||
        (type == G_TYPE_BOOLEAN && cell->whole != json_node_get_boolean(node)))
      n_wrong++;
  }
  return n_wrong;
}

/* What simulate --json prints of a configuration; NULL when it is impossible. */
static char *simulated_json(const Space *space, gint64 index, gboolean *fits) {
  g_autoptr(SpaceReader) reader = space_reader_new(space);
  SpacePoint point;
  if (!space_reader_read(reader, index, &point, NULL))
    return NULL;
  g_autoptr(Prediction) prediction = predict(point.model, point.cluster, point.plan, NULL);
  if (prediction == NULL)
    return NULL;
  g_autofree int *in_flight = g_new0(int, prediction->program->n_ranks);
  const StepReport report = step_of_prediction(prediction, in_flight);
  *fits = report.fits;
  return json_report_step(&report);
}

/* Of the space's configurations at most 60. */
static void check_rows(const char *text, gint64 stride) {
  g_auto(SweepSetup) setup = setup_of(text);
  g_autoptr(SweepTable) table = sweep_table_new();
  g_autoptr(SweepWorker) worker = sweep_worker_new(&setup, table);
  int n_wrong = 0, n_compared = 0, n_ran = 0;
  const gint64 n = space_count(setup.space);
  for (gint64 i = 0; i < MIN(n, 60); i++) {
    const gint64 index = i * stride % n;
    SweepRow row;
    gboolean fits = FALSE;
    sweep_worker_try(worker, index, &row);
    g_autofree char *json = simulated_json(setup.space, index, &fits);
    if (row.status == SWEEP_RAN || row.status == SWEEP_OUT_OF_MEMORY) {
      g_autoptr(JsonNode) root = json_from_string(json, NULL);
      n_wrong += count_differences(&row, table, json_node_get_object(root), "", &n_compared);
      n_wrong += fits != (row.status == SWEEP_RAN);
      n_ran++;
    } else {
      n_wrong += row.status == SWEEP_IMPOSSIBLE ? json != NULL : json == NULL || fits;
    }
    sweep_row_clear(&row);
  }
  ck_assert_int_eq(n_wrong, 0);
  ck_assert_int_gt(n_ran, 20);
  ck_assert_int_ge(n_compared, 34 * n_ran); /* 8 rates, 12 parts of the step, 9 of memory, 3 kernels, 2 of the engine */
}

TEST(every_number_is_that_of_simulate) {
  check_rows(mixed_space, 77); /* of 192, in an order of their own: the worker keeps no row */
}

/* In their own order, in which a worker may take a row from the one before: every second and third is of the same plan
 * but for what is recomputed. */
TEST(every_number_of_neighbours_is_that_of_simulate) {
  check_rows("model=gpt2\ncluster=dgx-h100\ngpus=8\ntp=1,2\npp=1,2\nmicro-batch=1,2\nglobal-batch=32\nzero=0,1\n"
             "recompute=none,selective,full\nattention=flash\n",
             1);
  check_rows("model=gpt2\ncluster=dgx-h100\ngpus=8\ntp=1,2\npp=1,2\nmicro-batch=1,2\nglobal-batch=32\nzero=0,1\n"
             "recompute=none,selective,full\nattention=unfused\n",
             1);
}

/* GPUs have room, as the activations of all micro-batches of gpipe are on the node, which has 2,000 GB. */
TEST(a_full_node_is_the_reason_where_gpus_have_room) {
  g_auto(SweepSetup) setup = setup_of("model=llama-2-7b\ncluster=dgx-h100\ngpus=8\ntp=4\npp=2\nschedule=gpipe\n"
                                      "global-batch=128\noffload-activations=host\n");
  g_autoptr(SweepTable) table = sweep_table_new();
  g_autoptr(SweepWorker) worker = sweep_worker_new(&setup, table);
  SweepRow row;
  sweep_worker_try(worker, 0, &row);
  ck_assert_int_eq(row.status, SWEEP_OUT_OF_MEMORY);
  ck_assert_int_eq(row.cells[sweep_table_find(table, "memory_fits")].whole, 1); /* memory.fits of simulate --json */
  const char *reason = row.reason;
  ck_assert_msg(g_str_has_prefix(reason, "the ranks of node 0 hold ") &&
                    g_str_has_suffix(reason, " in host memory at their peak, a node has 2.000 TB"),
                "%s", reason);
  sweep_row_clear(&row);
}

/* As it is typed, of a layout that was not asked for too. */
TEST(a_row_names_its_layout_as_the_option_does) {
  static const char *const layouts[] = {"auto", "7+5"};
  g_auto(SweepSetup) setup = setup_of("model=gpt2\ncluster=dgx-h100\ngpus=8\npp=2\nglobal-batch=32\n"
                                      "pipeline-layout=auto,7+5\n");
  g_autoptr(SweepTable) table = sweep_table_new();
  g_autoptr(SweepWorker) worker = sweep_worker_new(&setup, table);
  for (int i = 0; i < (int)G_N_ELEMENTS(layouts); i++) {
    SweepRow row;
    sweep_worker_try(worker, i, &row);
    ck_assert_str_eq(row.cells[sweep_table_find(table, "pipeline_layout")].text, layouts[i]);
    sweep_row_clear(&row);
  }
}

/* Cells in which recompute selective differs from none, tried one after the other. */
static int count_cells_of_selective(const char *text) {
  g_auto(SweepSetup) setup = setup_of(text);
  g_autoptr(SweepTable) table = sweep_table_new();
  g_autoptr(SweepWorker) worker = sweep_worker_new(&setup, table);
  SweepRow none, selective;
  int n_different = 0;
  sweep_worker_try(worker, 0, &none);
  sweep_worker_try(worker, 1, &selective);
  ck_assert_int_eq(none.status, SWEEP_RAN);
  ck_assert_int_eq(selective.status, SWEEP_RAN);
  for (int i = 0; i < sweep_table_n_columns(table); i++)
    n_different += !cell_is_equal(&none.cells[i], &selective.cells[i]);
  sweep_row_clear(&none);
  sweep_row_clear(&selective);
  return n_different;
}

/* Flash attention leaves recompute selective nothing to make again: its names differ, recompute and recompute_modules.
 * Unfused attention is run again, which takes time; and what it saves is dropped. */
TEST(plans_that_recompute_nothing_differ_in_name_alone) {
  const char *space = "model=gpt2\ncluster=dgx-h100\ngpus=8\ntp=2\nglobal-batch=32\nrecompute=none,selective\n";
  g_autofree char *flash = g_strconcat(space, "attention=flash\n", NULL);
  g_autofree char *unfused = g_strconcat(space, "attention=unfused\n", NULL);
  g_autofree char *products = g_strconcat(space, "attention=flash\nframework=torchtitan-eager\n", NULL);
  ck_assert_int_eq(count_cells_of_selective(flash), 2);
  ck_assert_int_gt(count_cells_of_selective(unfused), 10);
  ck_assert_int_gt(count_cells_of_selective(products), 10); /* which keeps every other product */
}

/* Also those of a cluster with degraded and dead links, on two of its nodes. */
TEST(every_number_of_worn_links_is_that_of_simulate) {
  check_rows("model=llama-3-8b\ncluster=" STEPSIM_SOURCE_DATA "/tests/data/faults.yaml\ngpus=16\ntp=1,2\npp=1,2,3\n"
             "schedule=1f1b,zb-v\nmicro-batch=1,2\nglobal-batch=32\nseq-len=2048\nzero=0..3\nrecompute=none,full\n",
             77);
}

/* An order kept from the plan before is the plan's own. */
static gboolean is_as_anew(const Workload *workload, const Cluster *cluster, const MemoryBound *bound) {
  g_autoptr(ShortOrder) none = short_order_new();
  MemoryBound anew;
  memory_bound_fits(workload, cluster, none, &anew);
  return anew.least_bytes == bound->least_bytes && anew.rank == bound->rank;
}

/* Every configuration that a bound refuses is simulated; every bound is held against the simulated peak. */
static void check_bounds(const char *text, int least_too_large) {
  g_auto(SweepSetup) setup = setup_of(text);
  g_autoptr(SpaceReader) reader = space_reader_new(setup.space);
  g_autoptr(ShortOrder) kept = short_order_new();
  int n_too_large = 0, n_wrong = 0, n_kept_wrong = 0;
  double tightest = 0;
  for (gint64 index = 0; index < space_count(setup.space); index++) {
    SpacePoint point;
    ck_assert(space_reader_read(reader, index, &point, NULL));
    g_autoptr(Workload) workload = workload_complete(point.model, point.cluster, point.plan, NULL);
    g_autoptr(Prediction) prediction = predict(point.model, point.cluster, point.plan, NULL);
    if (workload == NULL || prediction == NULL)
      continue;
    MemoryBound bound;
    const gboolean may_fit = memory_bound_fits(workload, point.cluster, kept, &bound);
    n_kept_wrong += !is_as_anew(workload, point.cluster, &bound);
    const double peak_bytes = prediction->memory->peak_bytes;
    n_too_large += !may_fit;
    n_wrong += (!may_fit && prediction->fits) || bound.least_bytes > peak_bytes * (1 + 1e-9);
    tightest = MAX(tightest, may_fit ? bound.least_bytes / peak_bytes : 0);
  }
  ck_assert_int_eq(n_wrong, 0);
  ck_assert_int_eq(n_kept_wrong, 0);
  ck_assert_int_ge(n_too_large, least_too_large);
  ck_assert_double_gt(tightest, 0.9); /* a bound of nothing would hold too */
}

TEST(what_is_not_run_for_its_memory_does_not_fit) {
  check_bounds("model=llama-3-8b\ncluster=dgx-h100\ngpus=8\ntp=1,2\npp=2,4\n"
               "schedule=gpipe,1f1b,zb-h1,zb-h2,zb-v,v-half,v-min,dualpipe,dualpipe-v\nmicro-batch=1,4\n"
               "global-batch=32\nseq-len=2048\nzero=0,1,3\nrecompute=none,full\n",
               30);
  check_bounds("model=gpt2\ncluster=selene\ngpus=8\ntp=2\npp=2\nchunks=1,2,3\nschedule=interleaved,looped-bfs\n"
               "micro-batch=1,8\nglobal-batch=32\nzero=0,2,3\nattention=flash,unfused\nrecompute=none,selective\n"
               "fold=on,off\nsequence-parallel=on,off\n",
               0);
  check_bounds("model=llama-3-8b\ncluster=dgx-h100\ngpus=16\ncp=2,4\npp=1,2\ncp-comm=ring,all-gather,ulysses\n"
               "schedule=1f1b,zb-h1\nglobal-batch=16\nseq-len=8192\nzero=0,3\nrecompute=none,full\n",
               0);
  /* pieces of forwards that take turns with those of backwards */
  check_bounds("model=mixtral-8x7b\ncluster=dgx-h100\ngpus=16\ntp=2\npp=2\nep=4\nsequence-parallel=on\n"
               "framework=megatron-bridge\nschedule=interleaved,dualpipe\nchunks=2\nglobal-batch=32\n"
               "seq-len=8192,15360\nzero=1,2,3\nprefetch=1,8\nrecipe=w2+g2\n",
               4);
}

TEST(every_option_of_a_plan_has_its_column) {
  PlanOptions options;
  plan_options_init(&options);
  g_autoptr(Parser) parser = parser_new(NULL, NULL, NULL);
  plan_options_add(&options, PLAN_OPTIONS_SIMULATED, parser);
  g_autoptr(SweepTable) table = sweep_table_new();
  for (const GOptionEntry *entry = parser_entries(parser); entry->long_name != NULL; entry++) {
    g_autofree char *name = g_strdelimit(g_strdup(entry->long_name), "-", '_');
    g_autofree char *in_bytes = g_strconcat(name, "_bytes", NULL);
    ck_assert_msg(sweep_table_find(table, name) >= 0 || sweep_table_find(table, in_bytes) >= 0 ||
                      entry->arg == G_OPTION_ARG_STRING_ARRAY, /* slow ranks are no axis */
                  "--%s has no column", entry->long_name);
  }
  plan_options_clear(&options);
}

TEST(a_reason_has_a_kind_without_its_numbers) {
  g_autoptr(SweepTable) table = sweep_table_new();
  const struct {
    const char *reason, *kind;
  } cases[] = {{"gpus 16 is not a multiple of tp 1 × pp 3 = 3", "gpus N is not a multiple of tp N × pp N = N"},
               {"model llama-3-8b has 32 layers.", "model llama-3-8b has N layers."},
               {"at most 1.5e+06 or 1e-9, -4, 3.5 GB", "at most N or N, N, N GB"},
               {"zero-ranks 2 does not divide dp 3; v100", "zero-ranks N does not divide dp N; v100"},
               {"x.y.2 of gpt2.json: 7", "x.y.2 of gpt2.json: N"},
               {"", ""}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    SweepRow row;
    sweep_row_init(&row, table, 0);
    sweep_row_set_reason(&row, SWEEP_IMPOSSIBLE, g_strdup(cases[i].reason));
    ck_assert_str_eq(row.kind, cases[i].kind);
    sweep_row_clear(&row);
  }
  char *kinds[2]; /* bytes are told in many units */
  for (int i = 0; i < 2; i++) {
    SweepRow row;
    sweep_row_init(&row, table, 0);
    sweep_row_set_reason(&row, SWEEP_TOO_LARGE, g_strdup(i ? "1.5 TB is too much" : "15 GB is too much"));
    kinds[i] = g_strdup(row.kind);
    sweep_row_clear(&row);
  }
  ck_assert_str_eq(kinds[0], kinds[1]);
  g_free(kinds[0]);
  g_free(kinds[1]);
}

TEST(rows_pass_between_processes_unchanged) {
  g_auto(SweepSetup) setup = setup_of(mixed_space);
  g_autoptr(SweepTable) table = sweep_table_new();
  g_autoptr(SweepWorker) worker = sweep_worker_new(&setup, table);
  g_autoptr(ResultStore) from = begun_store(NULL, table, &setup), to = begun_store(NULL, table, &setup);
  g_autoptr(GByteArray) bytes = g_byte_array_new();
  gint64 counts[N_SWEEP_STATUSES] = {0}, expected[N_SWEEP_STATUSES] = {0};
  for (gint64 index = 0; index < 192; index += 31) {
    SweepRow row;
    sweep_worker_try(worker, index, &row);
    expected[row.status]++;
    ck_assert(result_store_add(from, &row, NULL));
    sweep_row_clear(&row);
  }
  g_autofree char *sent = csv_of(from, table, &setup);
  ck_assert(result_store_pack(from, bytes, NULL));
  ck_assert_int_eq(result_store_unpack(to, bytes, counts, NULL), 7);
  g_autofree char *received = csv_of(to, table, &setup);
  ck_assert_str_eq(sent, received);
  ck_assert(memcmp(counts, expected, sizeof counts) == 0);
  g_autoptr(GArray) left = result_store_indices(from, NULL);
  ck_assert_int_eq(left->len, 0);
  for (guint length = bytes->len / 2; length > 0; length /= 4) { /* what is cut short is refused */
    g_autoptr(ResultStore) none = begun_store(NULL, table, &setup);
    g_autoptr(GError) error = NULL;
    g_byte_array_set_size(bytes, length);
    ck_assert_int_eq(result_store_unpack(none, bytes, counts, &error), 0);
    ck_assert(g_str_has_prefix(error->message, "a rank sent what are no rows"));
  }
}

/* --- samples --- */

TEST(a_sampled_sweep_has_rows_of_the_whole_one) {
  g_auto(SweepSetup) whole = setup_of(mixed_space), part = setup_of(mixed_space);
  part.n_sample = 40;
  part.seed = 3;
  SweepProgress progress;
  g_autofree char *all = swept(&whole, 2, &progress), *some = swept(&part, 2, &progress);
  ck_assert_int_eq(sweep_progress_n_now(&progress), 40);
  g_auto(GStrv) all_lines = g_strsplit(all, "\n", -1), some_lines = g_strsplit(some, "\n", -1);
  ck_assert_int_eq(g_strv_length(some_lines), 42); /* a header, and nothing after the last line */
  int n_missing = 0;
  for (char **line = some_lines; *line != NULL; line++)
    n_missing += !g_strv_contains((const char *const *)all_lines, *line);
  ck_assert_int_eq(n_missing, 0);
}

TEST(the_json_is_one_object_whose_counts_add_up) {
  g_auto(SweepSetup) setup = setup_of(mixed_space);
  g_autoptr(SweepTable) table = sweep_table_new();
  g_autoptr(ResultStore) store = begun_store(NULL, table, &setup);
  SweepProgress progress;
  ck_assert(run_sweep(&setup, table, store, 2, &progress, NULL));
  const SweepReport report = report_of(store, table, &setup, &progress);
  g_autofree char *json = sweep_report_json(&report, NULL);
  g_autoptr(JsonNode) root = json_from_string(json, NULL);
  ck_assert(root != NULL && JSON_NODE_HOLDS_OBJECT(root));
  JsonObject *object = json_node_get_object(root);
  gint64 sum = 0, refused = 0;
  for (int status = 0; status < N_SWEEP_STATUSES; status++)
    sum += json_object_get_int_member(object, sweep_status_names()[status]);
  ck_assert_int_eq(sum, json_object_get_int_member(object, "configurations"));
  JsonArray *reasons = json_object_get_array_member(object, "reasons");
  for (guint i = 0; i < json_array_get_length(reasons); i++)
    refused += json_object_get_int_member(json_array_get_object_element(reasons, i), "configurations");
  ck_assert_int_eq(refused, sum - json_object_get_int_member(object, "ran"));
  JsonArray *best = json_object_get_array_member(object, "best");
  ck_assert_int_eq(json_array_get_length(best), 5);
  JsonObject *first = json_array_get_object_element(best, 0);
  gboolean fits;
  g_autofree char *simulated = simulated_json(setup.space, json_object_get_int_member(first, "config"), &fits);
  g_autoptr(JsonNode) again = json_from_string(simulated, NULL);
  ck_assert(json_object_get_double_member(first, "mfu") ==
            json_object_get_double_member(json_node_get_object(again), "mfu"));
  ck_assert(json_object_get_array_member(first, "links") != NULL);
}

int main(void) {
  return run_tests();
}
