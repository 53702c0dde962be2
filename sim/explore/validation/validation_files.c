#include "validation_report.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "json_values.h"
#include "plots.h"

static const double bytes_per_gb = 1e9;

/* A text of the measured file, which may be in another encoding. */
static void add_cell(JsonBuilder *builder, const char *key, const char *cell) {
  g_autofree char *valid = g_utf8_make_valid(cell, -1);
  json_add_text(builder, key, valid);
}

static void add_failure(JsonBuilder *builder, const Validation *validation, guint index) {
  const MeasuredRow *row = validation_row(validation, index);
  g_autofree char *place = measured_row_place(row);
  json_begin_object(builder, NULL);
  add_cell(builder, "id", row->id);
  add_cell(builder, "source", measured_row_cell(row, "source"));
  add_cell(builder, "row", place);
  add_cell(builder, "reason", validation->predictions[index].problem);
  json_builder_end_object(builder);
}

/* NULL `name`: of all rows. */
static void add_failures(JsonBuilder *builder, const Validation *validation, const char *name) {
  json_begin_list(builder, "failed");
  for (guint i = 0; i < validation->n_rows; i++) {
    const char *group = measured_row_cell(validation_row(validation, i), validation->by);
    if (validation->predictions[i].problem != NULL && (name == NULL || strcmp(group, name) == 0))
      add_failure(builder, validation, i);
  }
  json_builder_end_array(builder);
}

static void add_verdicts(JsonBuilder *builder, const ValidationGroup *group) {
  json_begin_object(builder, "out_of_memory");
  json_add_count(builder, "ran", group->n_ran);
  json_add_count(builder, "ran_right", group->n_ran_right);
  json_add_count(builder, "out_of_memory", group->n_out_of_memory);
  json_add_count(builder, "out_of_memory_right", group->n_out_of_memory_right);
  json_builder_end_object(builder);
}

static void add_group(JsonBuilder *builder, const Validation *validation, const ValidationGroup *group,
                      const char *name) {
  json_add_count(builder, "rows", group->n_rows);
  json_add_count(builder, "predicted", group->n_predicted);
  add_failures(builder, validation, name);
  json_add_number(builder, "mape", group->time.mape);
  json_add_number(builder, "median_ape", group->time.median_ape);
  json_add_number(builder, "p90_ape", group->time.p90_ape);
  json_add_number(builder, "bias", group->time.bias);
  json_add_number(builder, "baseline_mape", group->baseline_mape);
  json_add_count(builder, "timed", group->n_timed);
  json_add_count(builder, "memory_rows", group->n_memory);
  json_add_number(builder, "memory_mape", group->memory_mape);
  json_add_number(builder, "memory_bias", group->memory_bias);
  add_verdicts(builder, group);
}

static void add_parts(JsonBuilder *builder, Parts parts) {
  json_begin_list(builder, "without");
  for (int i = 0; i < parts_count(); i++)
    if (parts & 1u << i)
      json_builder_add_string_value(builder, part_name(i));
  json_builder_end_array(builder);
}

static void add_read_as(JsonBuilder *builder, const MeasuredRows *rows) {
  g_autoptr(GArray) counted = measured_rows_read_as(rows);
  json_begin_list(builder, "read_as");
  for (guint i = 0; i < counted->len; i++) {
    const ReadAs *read_as = &g_array_index(counted, ReadAs, i);
    json_begin_object(builder, NULL);
    json_add_text(builder, "framework", read_as->framework);
    json_add_text(builder, "file", read_as->read_as);
    json_add_count(builder, "rows", read_as->n_rows);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
}

char *validation_json(const Validation *validation) {
  JsonBuilder *builder = json_builder_new();
  json_builder_begin_object(builder);
  add_group(builder, validation, &validation->all, NULL);
  add_parts(builder, validation->rows->without);
  add_read_as(builder, validation->rows);
  json_add_number(builder, "rows_per_s", validation->n_rows / MAX(validation->wall_s, 1e-6));
  json_add_count(builder, "threads", validation->n_threads);
  json_begin_object(builder, "groups");
  for (guint i = 0; i < validation->groups->len; i++) {
    const ValidationGroup *group = &g_array_index(validation->groups, ValidationGroup, i);
    g_autofree char *name = g_utf8_make_valid(group->name, -1);
    json_begin_object(builder, name);
    add_group(builder, validation, group, group->name);
    json_builder_end_object(builder);
  }
  json_builder_end_object(builder);
  json_builder_end_object(builder);
  return json_finish(builder);
}

/* What is added to a row; columns of that name in a file that was made so before are replaced. */
static const char *const added[] = {
    "predicted_step_time_s", "error", "ape", "predicted_memory_gb", "failure", "read_as", NULL};

/* Of all files, each once, in order. Owned by the caller. */
static GPtrArray *all_columns(const MeasuredRows *rows) {
  GPtrArray *columns = g_ptr_array_new();
  for (guint t = 0; t < rows->tables->len; t++) {
    const CsvTable *table = g_ptr_array_index(rows->tables, t);
    for (guint i = 0; i < table->columns->len; i++) {
      char *name = g_ptr_array_index(table->columns, i);
      if (*name != '\0' && !g_strv_contains(added, name) &&
          !g_ptr_array_find_with_equal_func(columns, name, g_str_equal, NULL))
        g_ptr_array_add(columns, name);
    }
  }
  return columns;
}

char *validation_csv(const Validation *validation) {
  g_autoptr(GPtrArray) columns = all_columns(validation->rows);
  GString *out = g_string_new(NULL);
  for (guint i = 0; i < columns->len; i++)
    csv_append_cell(out, g_ptr_array_index(columns, i));
  for (guint i = 0; added[i] != NULL; i++)
    csv_append_cell(out, added[i]);
  csv_end_row(out);
  for (guint i = 0; i < validation->n_rows; i++) {
    const RowPrediction *prediction = &validation->predictions[i];
    for (guint c = 0; c < columns->len; c++)
      csv_append_cell(out, measured_row_cell(validation_row(validation, i), g_ptr_array_index(columns, c)));
    csv_append_number(out, prediction->step_time_s);
    csv_append_number(out, prediction->error);
    csv_append_number(out, fabs(prediction->error));
    csv_append_number(out, prediction->peak_bytes / bytes_per_gb);
    csv_append_cell(out, prediction->problem != NULL ? prediction->problem : "");
    csv_append_cell(out, validation_row(validation, i)->read_as);
    csv_end_row(out);
  }
  return g_string_free(out, FALSE);
}

/* The rows of a group that have both times. The points borrow the group's name. */
static void add_points(GArray *points, const Validation *validation, const ValidationGroup *group) {
  for (guint i = 0; i < validation->n_rows; i++) {
    const MeasuredRow *row = validation_row(validation, i);
    if (!isfinite(validation->predictions[i].error) || strcmp(measured_row_cell(row, validation->by), group->name) != 0)
      continue;
    ValidationPoint point = {*group->name != '\0' ? group->name : "(none)", row->step_time_s,
                             validation->predictions[i].step_time_s};
    g_array_append_val(points, point);
  }
}

/* Large groups first, so that the points of small ones lie on top. */
static int compare_sizes(gconstpointer a, gconstpointer b) {
  guint x = (*(const ValidationGroup *const *)a)->n_timed, y = (*(const ValidationGroup *const *)b)->n_timed;
  return (x < y) - (x > y);
}

gboolean validation_plot(const Validation *validation, const char *file, GError **error) {
  g_autoptr(GPtrArray) groups = g_ptr_array_new();
  for (guint i = 0; i < validation->groups->len; i++) {
    ValidationGroup *group = &g_array_index(validation->groups, ValidationGroup, i);
    if (group->n_timed > 0)
      g_ptr_array_add(groups, group);
  }
  if (groups->len == 0)
    return fail_input(error, "nothing to draw in %s: no row has both a predicted and a measured step time", file);
  g_ptr_array_sort(groups, compare_sizes);
  g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(ValidationPoint));
  for (guint i = 0; i < groups->len; i++)
    add_points(points, validation, g_ptr_array_index(groups, i));
  g_autofree char *title = g_strdup_printf("Step time of %u published runs: predicted against measured, MAPE %.1f %%",
                                           validation->all.n_timed, 100 * validation->all.time.mape);
  const ValidationPoint *first = (const ValidationPoint *)(void *)points->data;
  return picture_take(plot_validation(first, (int)points->len, title, error), file, error);
}
