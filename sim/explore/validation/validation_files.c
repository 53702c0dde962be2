#include "validation_files.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "json_text.h"
#include "plots.h"
#include "read_as.h"

static const double bytes_per_gb = 1e9;

/* Members of one object: a comma before all but the first, two blanks per level. */
typedef struct {
  GString *out;
  int level;
  gboolean has_members;
} Members;

static void begin_member(Members *members, const char *key) {
  g_string_append_printf(members->out, "%s\n%*s", members->has_members ? "," : "", 2 * members->level, "");
  members->has_members = TRUE;
  json_append_string(members->out, key);
  g_string_append(members->out, " : ");
}

static void add_count(Members *members, const char *key, guint value) {
  begin_member(members, key);
  g_string_append_printf(members->out, "%u", value);
}

static void add_number(Members *members, const char *key, double value) {
  begin_member(members, key);
  json_append_number(members->out, value);
}

static void add_text(Members *members, const char *key, const char *value) {
  begin_member(members, key);
  json_append_string(members->out, value);
}

static Members begin_object(const Members *outer) {
  g_string_append_c(outer->out, '{');
  return (Members){outer->out, outer->level + 1, FALSE};
}

static void end_object(const Members *members) {
  g_string_append_printf(members->out, "\n%*s}", 2 * members->level - 2, "");
}

static void add_failure(const Members *list, const Validation *validation, guint index) {
  const MeasuredRow *row = validation_row(validation, index);
  g_autofree char *place = measured_row_place(row);
  Members members = begin_object(list);
  add_text(&members, "id", row->id);
  add_text(&members, "source", measured_row_cell(row, "source"));
  add_text(&members, "row", place);
  add_text(&members, "reason", validation->predictions[index].problem);
  end_object(&members);
}

/* NULL `name`: of all rows. */
static void add_failures(Members *members, const Validation *validation, const char *by, const char *name) {
  begin_member(members, "failed");
  g_string_append_c(members->out, '[');
  Members list = {members->out, members->level + 1, FALSE};
  for (guint i = 0; i < validation->n_rows; i++) {
    const MeasuredRow *row = validation_row(validation, i);
    if (validation->predictions[i].problem == NULL || (name != NULL && strcmp(measured_row_cell(row, by), name) != 0))
      continue;
    g_string_append_printf(list.out, "%s\n%*s", list.has_members ? "," : "", 2 * list.level, "");
    list.has_members = TRUE;
    add_failure(&list, validation, i);
  }
  if (list.has_members)
    g_string_append_printf(list.out, "\n%*s", 2 * members->level, "");
  g_string_append_c(members->out, ']');
}

static void add_verdicts(Members *members, const ValidationGroup *group) {
  begin_member(members, "out_of_memory");
  Members inner = begin_object(members);
  add_count(&inner, "ran", group->n_ran);
  add_count(&inner, "ran_right", group->n_ran_right);
  add_count(&inner, "out_of_memory", group->n_out_of_memory);
  add_count(&inner, "out_of_memory_right", group->n_out_of_memory_right);
  end_object(&inner);
}

static void add_group(Members *members, const Validation *validation, const ValidationGroup *group, const char *name) {
  add_count(members, "rows", group->n_rows);
  add_count(members, "predicted", group->n_predicted);
  add_failures(members, validation, validation->by, name);
  add_number(members, "mape", group->time.mape);
  add_number(members, "median_ape", group->time.median_ape);
  add_number(members, "p90_ape", group->time.p90_ape);
  add_number(members, "bias", group->time.bias);
  add_number(members, "baseline_mape", group->baseline_mape);
  add_count(members, "timed", group->n_timed);
  add_count(members, "memory_rows", group->n_memory);
  add_number(members, "memory_mape", group->memory_mape);
  add_number(members, "memory_bias", group->memory_bias);
  add_verdicts(members, group);
}

static void add_parts(Members *members, Parts parts) {
  begin_member(members, "without");
  g_string_append_c(members->out, '[');
  const char *comma = "";
  for (int i = 0; i < parts_count(); i++)
    if (parts & 1u << i) {
      g_string_append(members->out, comma);
      json_append_string(members->out, part_name(i));
      comma = ", ";
    }
  g_string_append_c(members->out, ']');
}

static void add_read_as(Members *members, const MeasuredRows *rows) {
  g_autoptr(GArray) counted = read_as_count(rows);
  begin_member(members, "read_as");
  g_string_append_c(members->out, '[');
  for (guint i = 0; i < counted->len; i++) {
    const ReadAs *read_as = &g_array_index(counted, ReadAs, i);
    g_string_append(members->out, i > 0 ? ", {\"framework\" : " : "{\"framework\" : ");
    json_append_string(members->out, read_as->framework);
    g_string_append(members->out, ", \"file\" : ");
    json_append_string(members->out, read_as->read_as);
    g_string_append_printf(members->out, ", \"rows\" : %u}", read_as->n_rows);
  }
  g_string_append_c(members->out, ']');
}

char *validation_json(const Validation *validation) {
  const Members none = {.out = g_string_new(NULL)};
  Members members = begin_object(&none);
  add_group(&members, validation, &validation->all, NULL);
  add_parts(&members, validation->rows->without);
  add_read_as(&members, validation->rows);
  add_number(&members, "rows_per_s", validation->n_rows / MAX(validation->wall_s, 1e-6));
  add_count(&members, "threads", (guint)validation->n_threads);
  begin_member(&members, "groups");
  Members groups = begin_object(&members);
  for (guint i = 0; i < validation->groups->len; i++) {
    const ValidationGroup *group = &g_array_index(validation->groups, ValidationGroup, i);
    begin_member(&groups, group->name);
    Members inner = begin_object(&groups);
    add_group(&inner, validation, group, group->name);
    end_object(&inner);
  }
  end_object(&groups);
  end_object(&members);
  g_string_append_c(none.out, '\n');
  return g_string_free(none.out, FALSE);
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
