/* measurements/published.csv, of published steps that nothing was fitted to, nanotron.csv and functional_tests.csv. All
 * rows are read, name their source and fit this program's models, clusters and plans; one run of each model, cluster
 * and source is predicted. The errors are in docs/validation.md: asserting them here would test the measurements. */
#include "csv_text.h"
#include "plan.h"
#include "predict.h"
#include "run_suite.h"

#include <math.h>
#include <string.h>

#define MEASUREMENTS STEPSIM_SOURCE_DATA "/measurements/"

static MeasuredRows *collected_rows(void) {
  char *files[] = {(char *)MEASUREMENTS "published.csv", (char *)MEASUREMENTS "nanotron.csv",
                   (char *)MEASUREMENTS "functional_tests.csv"};
  g_autoptr(GError) error = NULL;
  MeasuredRows *rows = measured_rows_read(files, G_N_ELEMENTS(files), &(MeasuredAs){TRUE}, &error);
  ck_assert_msg(rows != NULL, "%s", error != NULL ? error->message : "");
  return rows;
}

static const MeasuredRow *row_at(const MeasuredRows *rows, guint i) {
  return &g_array_index(rows->rows, MeasuredRow, i);
}

/* Of nanotron's there are runs that ended out of memory. */
static gboolean has_time(const MeasuredRow *row) {
  return row->step_time_s > 0 || strcmp(measured_row_cell(row, "source"), "nanotron") == 0;
}

TEST(every_row_is_modelled_and_has_a_time_and_a_source) {
  g_autoptr(MeasuredRows) rows = collected_rows();
  g_autoptr(GHashTable) ids = g_hash_table_new(g_str_hash, g_str_equal);
  ck_assert_uint_ge(rows->rows->len, 20);
  for (guint i = 0; i < rows->rows->len; i++) {
    const MeasuredRow *row = row_at(rows, i);
    if (row->problem != NULL || !has_time(row) || measured_row_cell(row, "notes")[0] == '\0' ||
        measured_row_cell(row, "source")[0] == '\0')
      ck_abort_msg("row %s: %s", row->id, row->problem != NULL ? row->problem : "no time, source or notes");
    if (!g_hash_table_add(ids, (gpointer)row->id))
      ck_abort_msg("row %s stands there twice", row->id);
  }
}

/* Clusters that were read, by name. */
static const Cluster *cluster_of(GHashTable *clusters, const char *name) {
  Cluster *cluster = g_hash_table_lookup(clusters, name);
  if (cluster == NULL) {
    g_autoptr(GError) error = NULL;
    cluster = cluster_read(name, &error);
    ck_assert_msg(cluster != NULL, "%s", error != NULL ? error->message : "");
    g_hash_table_insert(clusters, g_strdup(name), cluster);
  }
  return cluster;
}

static GHashTable *no_clusters(void) {
  return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)cluster_free);
}

TEST(every_plan_is_one_that_its_cluster_can_run) {
  g_autoptr(MeasuredRows) rows = collected_rows();
  g_autoptr(GHashTable) clusters = no_clusters();
  for (guint i = 0; i < rows->rows->len; i++) {
    const MeasuredRow *row = row_at(rows, i);
    g_autoptr(GError) error = NULL;
    g_autoptr(Plan) plan = plan_copy(row->plan);
    if (!plan_complete(plan, row->model, cluster_of(clusters, row->cluster), &error))
      ck_abort_msg("row %s: %s", row->id, error->message);
    if (g_ascii_strtoll(measured_row_cell(row, "dp"), NULL, 10) != plan->dp)
      ck_abort_msg("row %s: dp is %d", row->id, plan->dp);
  }
}

TEST(a_run_of_each_kind_is_predicted) {
  g_autoptr(MeasuredRows) rows = collected_rows();
  g_autoptr(GHashTable) clusters = no_clusters();
  g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < rows->rows->len; i++) {
    const MeasuredRow *row = row_at(rows, i);
    if (!g_hash_table_add(seen, g_strjoin("|", measured_row_cell(row, "source"), measured_row_cell(row, "model_name"),
                                          row->cluster, measured_row_cell(row, "precision"), NULL)))
      continue;
    StepPrediction step;
    g_autoptr(GError) error = NULL;
    if (!predict_step(NULL, row->model, cluster_of(clusters, row->cluster), row->plan, &step, &error))
      ck_abort_msg("row %s: %s", row->id, error->message);
    ck_assert_double_gt(step.step_time_s, 0);
  }
  ck_assert_uint_gt(g_hash_table_size(seen), 20);
}

int main(void) {
  return run_tests();
}
