/* Cells are set as options are, once they are written as those: tables have counts such as 8.0, and switches such as 1
 * or true. */
#include "row_plan.h"

#include <string.h>

#include "error.h"
#include "plan_fields.h"
#include "row_cells.h"

static gboolean is_named(const PlanField *field, const char *name) {
  return strcmp(field->name, name) == 0;
}

static const char *cell_of(const MeasuredRow *row, const PlanField *field) {
  g_autofree char *column = plan_field_column(field);
  return measured_row_cell(row, column);
}

const char *row_plan_cell(const MeasuredRow *row, const char *field) {
  return cell_of(row, plan_field(plan_field_find(field)));
}

static char *count_text(const MeasuredRow *row, const PlanField *field, GError **error) {
  g_autofree char *column = plan_field_column(field);
  const gint64 most = field->most > 0 ? (gint64)field->most : G_MAXINT;
  gint64 count;
  return row_cells_count(row, column, (gint64)field->least, most, &count, error)
             ? g_strdup_printf("%" G_GINT64_FORMAT, count)
             : NULL;
}

static char *switch_text(const MeasuredRow *row, const PlanField *field, GError **error) {
  g_autofree char *column = plan_field_column(field);
  gint64 is_on;
  return row_cells_word(row, column, row_cells_switches(), &is_on, error) ? g_strdup(is_on ? "on" : "off") : NULL;
}

/* A name of the list, or a file: a row says what was run. */
static char *schedule_text(const MeasuredRow *row, const PlanField *field, GError **error) {
  const char *text = cell_of(row, field);
  gint64 index;
  return schedule_file(text) != NULL || row_cells_word(row, field->name, schedule_choices(), &index, error)
             ? g_strdup(text)
             : NULL;
}

/* The cell as the option would be typed. Owned by the caller; NULL: it cannot be read. */
static char *option_text(const MeasuredRow *row, const PlanField *field, GError **error) {
  if (is_named(field, "schedule"))
    return schedule_text(row, field, error);
  switch (field->kind) {
  case PLAN_COUNT:
  case PLAN_COUNT64:
    return count_text(row, field, error);
  case PLAN_SWITCH:
    return switch_text(row, field, error);
  case PLAN_BYTES:
    return g_strconcat(cell_of(row, field), "B", NULL);
  default:
    return g_strdup(cell_of(row, field));
  }
}

gboolean row_plan_set(const MeasuredRow *row, RowPlanPart part, Plan *plan, GError **error) {
  PlanTarget target = {.plan = plan, .is_column = TRUE};
  gboolean are_set = TRUE;
  const int framework = plan_field(plan_field_find("framework"))->turn;
  const int first = part == ROW_PLAN_BEFORE_FRAMEWORK ? 0 : framework + 1,
            last = part == ROW_PLAN_BEFORE_FRAMEWORK ? framework - 1 : N_PLAN_TURNS - 1;
  for (int turn = first; turn <= last; turn++)
    for (int i = 0; i < plan_n_fields(); i++) {
      const PlanField *field = plan_field(i);
      if (field->turn != turn || !plan_field_is_axis(field) || *cell_of(row, field) == '\0')
        continue;
      GError **place = are_set ? error : NULL;
      g_autofree char *text = option_text(row, field, place);
      are_set &= text != NULL && plan_field_set(field, &target, text, place);
    }
  return are_set;
}

gboolean row_plan_has(const char *column) {
  for (int i = 0; i < plan_n_fields(); i++) {
    g_autofree char *name = plan_field_column(plan_field(i));
    if (plan_field_is_axis(plan_field(i)) && strcmp(name, column) == 0)
      return TRUE;
  }
  return FALSE;
}

void row_plan_append_run(const MeasuredRow *row, GString *run) {
  for (int i = 0; i < plan_n_fields(); i++) {
    const PlanField *field = plan_field(i);
    if (plan_field_is_axis(field) && !is_named(field, "schedule") && !is_named(field, "framework"))
      g_string_append_printf(run, "%s\n", cell_of(row, field));
  }
}
