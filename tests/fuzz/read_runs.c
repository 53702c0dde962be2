/* Readers of orders, Programs, traces and tables. What they accept is also written back, and run if it can run: a
 * verified Program must reach its end. */
#include "fuzz_readers.h"

#include <math.h>
#include <string.h>

#include "chrome_read.h"
#include "compare.h"
#include "csv_table.h"
#include "error.h"
#include "measured_rows.h"
#include "order_csv.h"
#include "order_read.h"
#include "order_run.h"
#include "plan.h"
#include "predict.h"
#include "profile_report.h"
#include "program_csv.h"
#include "program_text.h"
#include "result_store.h"
#include "space.h"

/* Passes of an order that is run: more are alike. */
enum { MOST_PASSES = 512 };

static void check_order_run(const Order *order) {
  const StageTimes times = {.f_ns = 1000, .i_ns = 1000, .w_ns = 1000};
  g_autoptr(GError) problem = NULL;
  g_autoptr(OrderRun) run = order_run_new(order, &times, 1, NULL, NULL, &problem);
  if (run == NULL)
    g_error("an order that was accepted does not run: %s", problem->message);
  const double bubble = order_run_bubble_fraction(run);
  FUZZ_REQUIRE(bubble >= 0 && bubble < 1);
}

gboolean fuzz_order(const FuzzInput *input, GError **error) {
  g_autoptr(Order) order = order_read_csv(input->file, error);
  if (order == NULL)
    return FALSE;
  g_autofree char *csv = order_to_csv(order);
  FUZZ_REQUIRE(g_file_set_contents(input->file, csv, -1, NULL));
  g_autoptr(Order) again = order_read_csv(input->file, NULL);
  FUZZ_REQUIRE(again != NULL);
  g_autofree char *csv_again = order_to_csv(again);
  FUZZ_REQUIRE(strcmp(csv, csv_again) == 0);
  if (order->placement->n_stages * (gint64)order->n_micro_batches <= MOST_PASSES)
    check_order_run(order);
  return TRUE;
}

/* As a Program of the model that fuzz.sh dumps one of. */
static Prediction *predict_text(Program *program, GError **error) {
  g_autoptr(Plan) plan = plan_new();
  plan->pp = program->n_ranks;
  plan->global_batch = program->n_micro_batches;
  plan->steps = program->n_steps;
  plan->seq_len = 16;
  return predict_program(fuzz_tiny_model(), fuzz_shipped_cluster(), plan, program, error);
}

gboolean fuzz_program(const FuzzInput *input, GError **error) {
  g_autoptr(Program) program = program_from_text(input->text, "program.txt", error);
  if (program == NULL)
    return FALSE;
  g_autofree char *text = program_to_text(program);
  g_autoptr(GError) problem = NULL;
  g_autoptr(Program) again = program_from_text(text, "again.txt", &problem);
  if (again == NULL)
    g_error("what was written is refused: %s\n%s", problem->message, text);
  g_autofree char *text_again = program_to_text(again), *csv = program_to_csv(program);
  FUZZ_REQUIRE(strcmp(text, text_again) == 0 && csv != NULL);
  g_autoptr(Prediction) prediction = predict_text(g_steal_pointer(&again), error);
  FUZZ_REQUIRE(prediction == NULL || (isfinite(prediction->step_time_s) && prediction->step_time_s >= 0));
  return prediction != NULL;
}

gboolean fuzz_trace(const FuzzInput *input, GError **error) {
  g_autoptr(ChromeTrace) trace = chrome_read(input->file, error);
  if (trace == NULL)
    return FALSE;
  g_autoptr(Compare) compare = compare_new(trace, trace, error);
  return compare != NULL;
}

/* What it says is written in every form. */
gboolean fuzz_profile(const FuzzInput *input, GError **error) {
  g_autoptr(Profile) profile = profile_new();
  if (!profile_read(profile, input->file, error) || !profile_complete(profile, error))
    return FALSE;
  g_autoptr(ProfileSums) sums = profile_sums_new(profile);
  g_autoptr(ProfileShapes) shapes = profile_shapes_new(profile, &fuzz_shipped_cluster()->gpu);
  g_autoptr(ProfileRings) rings = profile_rings_new(profile, fuzz_shipped_cluster());
  g_autoptr(GString) text = g_string_new(NULL);
  profile_text(text, sums, 9, FALSE);
  profile_shapes_text(text, shapes, &fuzz_shipped_cluster()->gpu, 9, FALSE);
  profile_rings_text(text, rings, fuzz_shipped_cluster(), 9, FALSE);
  g_autofree char *json = profile_json(sums, shapes, rings, 9), *chrome = profile_chrome(profile);
  FUZZ_REQUIRE(text->len > 0 && json != NULL && chrome != NULL);
  for (guint r = 0; r < profile->ranks->len; r++) {
    const ProfileTimes *times = &sums->ranks[r].times;
    FUZZ_REQUIRE(times->busy_ns >= 0 && times->idle_ns >= 0 && times->host_ns >= 0 && times->host_ns <= times->idle_ns);
  }
  return TRUE;
}

gboolean fuzz_space(const FuzzInput *input, GError **error) {
  g_autoptr(Space) space = space_new();
  if (!space_read(space, input->file, error) || !space_finish_closed(space, error))
    return FALSE;
  g_autofree char *text = space_text(space);
  g_autoptr(Space) again = space_new();
  FUZZ_REQUIRE(space_set_text(again, text, NULL) && space_finish_closed(again, NULL));
  g_autofree char *text_again = space_text(again);
  FUZZ_REQUIRE(strcmp(text, text_again) == 0);
  return TRUE;
}

gboolean fuzz_csv(const FuzzInput *input, GError **error) {
  g_autoptr(CsvTable) table = csv_table_read(input->file, error);
  if (table == NULL)
    return FALSE;
  FUZZ_REQUIRE(csv_table_n_rows(table) > 0 && table->cells->len == table->lines->len * table->columns->len);
  return TRUE;
}

gboolean fuzz_measured(const FuzzInput *input, GError **error) {
  char *files[] = {(char *)input->file, NULL};
  g_autoptr(MeasuredRows) rows = measured_rows_read(files, 1, &(MeasuredAs){TRUE}, error);
  if (rows == NULL)
    return FALSE;
  for (guint i = 0; i < rows->rows->len; i++) {
    const MeasuredRow *row = &g_array_index(rows->rows, MeasuredRow, i);
    FUZZ_REQUIRE(row->problem != NULL || (row->model != NULL && row->plan != NULL));
    g_autofree char *run = measured_row_run(row), *place = measured_row_place(row);
    FUZZ_REQUIRE(run != NULL && place != NULL);
  }
  return TRUE;
}

gboolean fuzz_database(const FuzzInput *input, GError **error) {
  SweepTable *columns = sweep_table_new();
  g_autoptr(ResultStore) store = result_store_open(input->file, columns, error);
  g_autoptr(GArray) facts = store != NULL ? result_store_facts(store, error) : NULL;
  g_autoptr(GArray) indices = facts != NULL ? result_store_indices(store, error) : NULL;
  g_clear_pointer(&store, result_store_free);
  sweep_table_free(columns);
  if (indices == NULL)
    return FALSE;
  g_autoptr(CsvTable) table = csv_table_read_database(input->file, "configurations", error);
  return table != NULL;
}
