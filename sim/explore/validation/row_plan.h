/* The plan that a row's cells say: any field of a plan may have a column, under its name in tables (plan_fields.h). */
#pragma once
#include "measured_rows.h"

/* How the cells of fields that depend on the framework are set. */
typedef enum { ROW_PLAN_BEFORE_FRAMEWORK, ROW_PLAN_BEHIND_FRAMEWORK } RowPlanPart;

/* Sets every field of that part that has a cell and can be read; FALSE and INPUT for the first that cannot: column,
 * found, expected. The framework itself is the caller's. */
gboolean row_plan_set(const MeasuredRow *row, RowPlanPart part, Plan *plan, GError **error);
/* The cell of a field; "" if there is none. */
const char *row_plan_cell(const MeasuredRow *row, const char *field);
/* Whether it is the name of a field's column. */
gboolean row_plan_has(const char *column);
/* The cells of all fields, one per line, but of schedule and framework, which have several names each. */
void row_plan_append_run(const MeasuredRow *row, GString *run);
