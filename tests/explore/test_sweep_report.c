/* The report of a sweep: the best, the front, the counts; from stores of made-up rows. */
#include "run_suite.h"
#include "sweep_fixture.h"

typedef struct {
  double tokens_per_s, memory, cost;
  SweepStatus status;
} Made;

/* A store of made-up rows. */
static ResultStore *store_of(const SweepTable *table, const SweepSetup *setup, const Made *made, int n) {
  ResultStore *store = begun_store(NULL, table, setup);
  for (int i = 0; i < n; i++) {
    SweepRow row;
    sweep_row_init(&row, table, i);
    if (made[i].status == SWEEP_RAN) {
      const StepReport report = {
          .tokens_per_s = made[i].tokens_per_s, .mfu = made[i].tokens_per_s / 100, .peak_bytes = made[i].memory};
      sweep_row_set_report(&row, table, &report);
      sweep_row_set_real(&row, table, SWEEP_DOLLARS_PER_MILLION_TOKENS, made[i].cost);
    } else {
      sweep_row_set_reason(&row, made[i].status, g_strdup_printf("for reason %d", i));
    }
    ck_assert(result_store_add(store, &row, NULL));
    sweep_row_clear(&row);
  }
  return store;
}

static gboolean take_index(sqlite3_stmt *row, gpointer found, GError **error) {
  const gint64 index = sqlite3_column_int64(row, 0);
  g_array_append_val((GArray *)found, index);
  return TRUE;
}

static void check_indices(const SweepReport *report, SweepRows which, const gint64 *expected, guint n) {
  g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(gint64));
  ck_assert(sweep_report_rows(report, which, take_index, found, NULL));
  ck_assert_int_eq(found->len, n);
  for (guint i = 0; i < n; i++)
    ck_assert_int_eq(g_array_index(found, gint64, i), expected[i]);
}

TEST(the_front_has_what_nothing_beats_in_all_of_rate_memory_and_cost) {
  g_auto(SweepSetup) setup = setup_of(mixed_space);
  g_autoptr(SweepTable) table = sweep_table_new();
  const Made made[] = {
      {40, 20, 3, SWEEP_RAN},        /* 0: slower than 2, but smaller */
      {30, 25, 4, SWEEP_RAN},        /* 1: beaten by 0 in all */
      {50, 30, 2, SWEEP_RAN},        /* 2: the fastest */
      {50, 30, 2, SWEEP_RAN},        /* 3: equal to 2, which is first */
      {10, 99, 1, SWEEP_RAN},        /* 4: slow and large, but the cheapest */
      {60, 10, 0.5, SWEEP_TOO_LARGE} /* 5: did not run */
  };
  g_autoptr(ResultStore) store = store_of(table, &setup, made, G_N_ELEMENTS(made));
  const SweepProgress progress = {.n_wanted = 6};
  SweepReport report = report_of(store, table, &setup, &progress);
  check_indices(&report, SWEEP_PARETO, (gint64[]){2, 0, 4}, 3);
  check_indices(&report, SWEEP_BEST, (gint64[]){2, 3, 0, 1, 4}, 5); /* ties by index */
  report.objective = OBJECTIVE_COST;
  report.n_top = 2;
  check_indices(&report, SWEEP_BEST, (gint64[]){4, 2}, 2);
}

/* The axes are tp, pp, schedule … in this order, the last fastest: of 192 configurations the first 96 have tp 1, and of
 * each 96 every 32 a pp. Nothing of pp 3 ran. */
TEST(each_value_of_an_axis_has_its_best) {
  g_auto(SweepSetup) setup = setup_of(mixed_space);
  g_autoptr(SweepTable) table = sweep_table_new();
  Made made[192];
  for (int i = 0; i < 192; i++)
    made[i] = (Made){1, 1, 1, SWEEP_TOO_LARGE};
  made[3] = (Made){40, 1, 5, SWEEP_RAN};   /* tp 1, pp 1 */
  made[35] = (Made){50, 1, 3, SWEEP_RAN};  /* tp 1, pp 2 */
  made[100] = (Made){60, 1, 9, SWEEP_RAN}; /* tp 2, pp 1 */
  made[101] = (Made){60, 1, 1, SWEEP_RAN}; /* and again, cheaper */
  g_autoptr(ResultStore) store = store_of(table, &setup, made, G_N_ELEMENTS(made));
  const SweepProgress progress = {.n_wanted = 192};
  SweepReport report = report_of(store, table, &setup, &progress);
  check_indices(&report, SWEEP_BEST_OF, NULL, 0);
  report.best_of = "tp";
  report.n_top = 1; /* of the list, not of these */
  check_indices(&report, SWEEP_BEST_OF, (gint64[]){35, 100}, 2);
  report.best_of = "pp";
  check_indices(&report, SWEEP_BEST_OF, (gint64[]){100, 35}, 2);
  report.objective = OBJECTIVE_COST;
  check_indices(&report, SWEEP_BEST_OF, (gint64[]){101, 35}, 2);
  g_autoptr(GString) text = g_string_new(NULL);
  ck_assert(sweep_report_text(&report, text, NULL));
  ck_assert_ptr_nonnull(strstr(text->str, "\nCheapest per token for each pp\n"));
  g_autofree char *json = sweep_report_json(&report, NULL);
  ck_assert_ptr_nonnull(strstr(json, "\"best_of\": [\n    {\"config\": 101"));
}

TEST(without_prices_the_front_is_of_rate_and_memory) {
  g_auto(SweepSetup) setup = setup_of(mixed_space);
  g_autoptr(SweepTable) table = sweep_table_new();
  const Made made[] = {{40, 20, G_MAXDOUBLE * 10, SWEEP_RAN}, /* infinite: none */
                       {50, 30, G_MAXDOUBLE * 10, SWEEP_RAN},
                       {39, 20, G_MAXDOUBLE * 10, SWEEP_RAN}};
  g_autoptr(ResultStore) store = store_of(table, &setup, made, G_N_ELEMENTS(made));
  const SweepProgress progress = {.n_wanted = 3};
  const SweepReport report = report_of(store, table, &setup, &progress);
  check_indices(&report, SWEEP_PARETO, (gint64[]){1, 0}, 2);
}

int main(void) {
  return run_tests();
}
