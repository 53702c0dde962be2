#include "validation_report.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "json_values.h"
#include "plots.h"
#include "reasons.h"
#include "suggest.h"

enum { N_WORST = 10, LEAST_NAME_WIDTH = 12, MOST_NAME_WIDTH = 40, MOST_REASONS = 20 };

/* At most `most` characters of a cell, on one line and harmless to terminals. Owned by the caller. */
static char *plain_text(const char *cell, glong most) {
  char *text = g_utf8_substring(cell, 0, MIN(g_utf8_strlen(cell, -1), most));
  for (char *at = text; *at != '\0'; at++)
    if (g_ascii_iscntrl(*at))
      *at = ' ';
  return text;
}

static char *group_name(const ValidationGroup *group) {
  return plain_text(*group->name != '\0' ? group->name : "(none)", MOST_NAME_WIDTH);
}

static int name_width(const Validation *validation) {
  glong width = LEAST_NAME_WIDTH;
  for (guint i = 0; i < validation->groups->len; i++) {
    g_autofree char *name = group_name(&g_array_index(validation->groups, ValidationGroup, i));
    width = MAX(width, g_utf8_strlen(name, -1));
  }
  return (int)width;
}

/* Of a share as a percentage, or a dash. */
static void append_percent(GString *out, int width, gboolean is_signed, double share) {
  if (!isfinite(share))
    g_string_append_printf(out, " %*s", width, "-");
  else
    g_string_append_printf(out, is_signed ? " %+*.1f" : " %*.1f", width, 100 * share);
}

static void append_group(GString *out, const ValidationGroup *group, int width) {
  g_autofree char *name = group_name(group);
  int n_blanks = width - (int)g_utf8_strlen(name, -1);
  g_string_append_printf(out, "%s%*s %6u %9u %6u", name, n_blanks, "", group->n_rows, group->n_predicted,
                         group->n_failed);
  append_percent(out, 7, FALSE, group->time.mape);
  append_percent(out, 7, FALSE, group->time.median_ape);
  append_percent(out, 7, FALSE, group->time.p90_ape);
  append_percent(out, 7, TRUE, group->time.bias);
  append_percent(out, 9, FALSE, group->baseline_mape);
  append_percent(out, 7, FALSE, group->memory_mape);
  g_string_append_c(out, '\n');
}

static void append_table(GString *out, const Validation *validation) {
  int width = name_width(validation);
  g_string_append_printf(out, "\n%-*s %6s %9s %6s %7s %7s %7s %7s %9s %7s\n", width, "errors in %", "rows", "predicted",
                         "failed", "MAPE", "median", "p90", "bias", "baseline", "memory");
  for (guint i = 0; i < validation->groups->len; i++)
    append_group(out, &g_array_index(validation->groups, ValidationGroup, i), width);
  append_group(out, &validation->all, width);
  g_string_append(out, "error: predicted / measured - 1; bias: its mean; baseline: MAPE of one constant share of the "
                       "peak per source, fitted to these rows\n");
}

static gboolean has_intervals(const Validation *validation) {
  return validation->rows->want_intervals && validation->rows->without == 0;
}

static void append_inside(GString *out, const Validation *validation) {
  const ValidationGroup *all = &validation->all;
  if (has_intervals(validation) && all->n_timed > 0)
    g_string_append_printf(out, "inside their 80 %% intervals: %u of %u rows (%.1f %%)\n", all->n_inside, all->n_timed,
                           100.0 * all->n_inside / all->n_timed);
}

static void append_verdict(GString *out, const char *what, guint n, guint n_right, const char *verdict) {
  if (n > 0)
    g_string_append_printf(out, "  %-22s %6u rows, said %s of %u (%.1f %%)\n", what, n, verdict, n_right,
                           100.0 * n_right / n);
}

static void append_memory(GString *out, const ValidationGroup *all) {
  g_string_append(out, "\nMemory\n");
  append_verdict(out, "ran", all->n_ran, all->n_ran_right, "to fit");
  append_verdict(out, "ran out of memory", all->n_out_of_memory, all->n_out_of_memory_right, "not to fit");
  if (all->n_memory > 0)
    g_string_append_printf(out, "  %-22s %6u rows, MAPE %.1f %%, bias %+.1f %%\n", "measured peak", all->n_memory,
                           100 * all->memory_mape, 100 * all->memory_bias);
}

typedef struct {
  guint row;
  double size; /* of the error */
} Ranked;

static int compare_worst(gconstpointer a, gconstpointer b) {
  const Ranked *x = a, *y = b;
  if (x->size != y->size)
    return x->size < y->size ? 1 : -1;
  return (x->row > y->row) - (x->row < y->row);
}

/* Every row with an error, worst first. Owned by the caller. */
static GArray *rank_rows(const Validation *validation) {
  GArray *ranked = g_array_new(FALSE, FALSE, sizeof(Ranked));
  for (guint i = 0; i < validation->n_rows; i++) {
    Ranked entry = {i, fabs(validation->predictions[i].error)};
    if (isfinite(entry.size))
      g_array_append_val(ranked, entry);
  }
  g_array_sort(ranked, compare_worst);
  return ranked;
}

static void append_worst_row(GString *out, const Validation *validation, guint index) {
  const MeasuredRow *row = validation_row(validation, index);
  const RowPrediction *prediction = &validation->predictions[index];
  const Plan *plan = row->plan;
  g_autofree char *place = measured_row_place(row);
  g_autofree char *where = g_path_get_basename(place);
  g_autofree char *id = plain_text(row->id, MOST_NAME_WIDTH), *name = plain_text(row->model->name, MOST_NAME_WIDTH);
  g_autofree char *cluster = plain_text(row->cluster, MOST_NAME_WIDTH);
  g_string_append_printf(out, "  %+8.1f  %12.5g  %12.5g  %s (%s): ", 100 * prediction->error, prediction->step_time_s,
                         row->step_time_s, id, where);
  g_string_append_printf(out, "%s on %d x %s, tp %d pp %d micro-batch %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT "\n",
                         name, prediction->gpus, cluster, plan->tp, plan->pp, plan->micro_batch,
                         prediction->global_batch);
}

static void append_worst(GString *out, const Validation *validation) {
  g_autoptr(GArray) ranked = rank_rows(validation);
  if (ranked->len == 0)
    return;
  g_string_append_printf(out, "\nWorst rows\n  %8s  %12s  %12s\n", "error %", "predicted s", "measured s");
  for (guint i = 0; i < MIN(ranked->len, N_WORST); i++)
    append_worst_row(out, validation, g_array_index(ranked, Ranked, i).row);
}

/* What rows have in common, once each. */
typedef struct {
  char *text;     /* owned */
  guint n, first; /* rows; the first of them */
} Counted;

static void counted_clear(gpointer data) {
  g_free(((Counted *)data)->text);
}

/* Owned by the caller. */
static GArray *counted_new(void) {
  GArray *counted = g_array_new(FALSE, FALSE, sizeof(Counted));
  g_array_set_clear_func(counted, counted_clear);
  return counted;
}

/* Takes over `text`. */
static void count(GArray *counted, char *text, guint row) {
  for (guint i = 0; i < counted->len; i++) {
    Counted *known = &g_array_index(counted, Counted, i);
    if (strcmp(known->text, text) == 0) {
      known->n++;
      g_free(text);
      return;
    }
  }
  const Counted first = {text, 1, row};
  g_array_append_val(counted, first);
}

static int compare_counts(gconstpointer a, gconstpointer b) {
  const Counted *x = a, *y = b;
  if (x->n != y->n)
    return x->n < y->n ? 1 : -1;
  return (x->first > y->first) - (x->first < y->first);
}

/* "2 rows". */
static void append_rows(GString *out, guint n) {
  g_string_append_printf(out, "%u row%s", n, n == 1 ? "" : "s");
}

/* Kinds of reasons, most frequent first. */
static void append_reasons(GString *out, const Validation *validation) {
  g_autoptr(GArray) reasons = counted_new();
  for (guint i = 0; i < validation->n_rows; i++)
    if (validation->predictions[i].problem != NULL)
      count(reasons, reason_kind(validation->predictions[i].problem, "#"), i);
  g_array_sort(reasons, compare_counts);
  if (reasons->len > 0)
    g_string_append(out, "\nFailed\n");
  for (guint i = 0; i < MIN(reasons->len, MOST_REASONS); i++) {
    const Counted *reason = &g_array_index(reasons, Counted, i);
    g_autofree char *place = measured_row_place(validation_row(validation, reason->first));
    g_autofree char *where = g_path_get_basename(place);
    g_string_append_printf(out, "  %6u  %s (%s%s)\n", reason->n, validation->predictions[reason->first].problem,
                           reason->n > 1 ? "such as " : "", where);
  }
  if (reasons->len > MOST_REASONS)
    g_string_append_printf(out, "  and %u more kinds of reasons\n", reasons->len - MOST_REASONS);
}

/* Names of frameworks that nothing describes, how many rows have them, and the nearest that is described. */
static void append_unknown_frameworks(GString *out, const Validation *validation) {
  g_autoptr(GArray) unknown = counted_new();
  for (guint i = 0; i < validation->n_rows; i++) {
    const MeasuredRow *row = validation_row(validation, i);
    if (*row->framework != '\0' && *row->read_as == '\0')
      count(unknown, g_strdup(row->framework), i);
  }
  const char *const *known = (const char *const *)validation->rows->framework_names;
  for (guint i = 0; i < unknown->len; i++) {
    const Counted *framework = &g_array_index(unknown, Counted, i);
    g_autofree char *plain = plain_text(framework->text, MOST_NAME_WIDTH);
    g_autofree char *question = suggest_question(framework->text, known);
    g_string_append_printf(out, "%s%s (", i == 0 ? "nothing is added for frameworks that no file describes: " : ", ",
                           plain);
    append_rows(out, framework->n);
    g_string_append_printf(out, "%s%s)", question != NULL ? "; " : "", question != NULL ? question : "");
  }
  g_autofree char *list = g_strjoinv(", ", validation->rows->framework_names);
  if (unknown->len > 0)
    g_string_append_printf(out, "; described are %s\n", list);
}

/* What rows print of a vocabulary and is not taken, a line for each model and number. */
static void append_unused_vocabularies(GString *out, const Validation *validation) {
  g_autoptr(GArray) unused = counted_new();
  for (guint i = 0; i < validation->n_rows; i++) {
    const MeasuredRow *row = validation_row(validation, i);
    if (row->unused_vocab != 0)
      count(unused,
            g_strdup_printf("%s, a vocabulary of %" G_GINT64_FORMAT " as shipped, where they print %" G_GINT64_FORMAT,
                            row->model->name, row->model->vocab, row->unused_vocab),
            i);
  }
  for (guint i = 0; i < unused->len; i++) {
    append_rows(out, g_array_index(unused, Counted, i).n);
    g_string_append_printf(out, " of %s\n", g_array_index(unused, Counted, i).text);
  }
}

/* Rows whose framework a rule reads as another file: of Counted, each pair of names once. Owned by the caller. */
static GArray *count_read_as(const Validation *validation) {
  GArray *counted = counted_new();
  for (guint i = 0; i < validation->n_rows; i++) {
    const MeasuredRow *row = validation_row(validation, i);
    if (row->is_by_rule)
      count(counted, g_strconcat(row->framework, "\n", row->read_as, NULL), i);
  }
  return counted;
}

static void append_read_as(GString *out, const Validation *validation) {
  g_autoptr(GArray) counted = count_read_as(validation);
  for (guint i = 0; i < counted->len; i++) {
    const Counted *rows = &g_array_index(counted, Counted, i);
    const MeasuredRow *first = validation_row(validation, rows->first);
    g_autofree char *framework = plain_text(first->framework, MOST_NAME_WIDTH);
    g_string_append(out, i == 0 ? "read by topologies/published/rows.yaml (--releases off: as named): " : "; ");
    append_rows(out, rows->n);
    g_string_append_printf(out, " of %s as %s", framework, first->read_as);
  }
  if (counted->len > 0)
    g_string_append_c(out, '\n');
}

void validation_text(GString *out, const Validation *validation) {
  const ValidationGroup *all = &validation->all;
  append_rows(out, all->n_rows);
  g_string_append_printf(out, " of %u run%s: %u predicted, %u failed; %.0f rows/s (%.2f s on %d thread%s)\n",
                         validation->n_runs, validation->n_runs == 1 ? "" : "s", all->n_predicted, all->n_failed,
                         all->n_rows / MAX(validation->wall_s, 1e-6), validation->wall_s, validation->n_threads,
                         validation->n_threads == 1 ? "" : "s");
  if (validation->rows->without != 0) {
    g_autofree char *parts = parts_text(validation->rows->without);
    g_string_append_printf(out, "without %s\n", parts);
  }
  append_read_as(out, validation);
  append_unknown_frameworks(out, validation);
  append_unused_vocabularies(out, validation);
  append_table(out, validation);
  append_inside(out, validation);
  if (all->n_predicted > 0)
    append_memory(out, all);
  append_worst(out, validation);
  append_reasons(out, validation);
}

/* --- Markdown --- */

/* A cell of a Markdown table. Owned by the caller. */
static char *markdown_cell(const char *text) {
  g_autofree char *plain = plain_text(text, MOST_NAME_WIDTH);
  GString *cell = g_string_new(plain);
  g_string_replace(cell, "|", "\\|", 0);
  return g_string_free(cell, FALSE);
}

static void append_share(GString *out, gboolean is_signed, double share) {
  append_percent(out, 0, is_signed, share);
  g_string_append(out, " |");
}

static void append_right(GString *out, guint n_right, guint n) {
  if (n > 0)
    g_string_append_printf(out, " %u / %u |", n_right, n);
  else
    g_string_append(out, " - |");
}

static void append_markdown_group(GString *out, const ValidationGroup *group) {
  g_autofree char *name = markdown_cell(*group->name != '\0' ? group->name : "(none)");
  g_string_append_printf(out, "| %s | %u | %u | %u |", name, group->n_rows, group->n_failed, group->n_timed);
  append_share(out, FALSE, group->time.mape);
  append_share(out, FALSE, group->time.median_ape);
  append_share(out, FALSE, group->time.p90_ape);
  append_share(out, TRUE, group->time.bias);
  append_share(out, FALSE, group->baseline_mape);
  append_share(out, FALSE, group->memory_mape);
  append_right(out, group->n_ran_right, group->n_ran);
  append_right(out, group->n_out_of_memory_right, group->n_out_of_memory);
  g_string_append_c(out, '\n');
}

static void append_markdown_row(GString *out, const Validation *validation, guint index) {
  const MeasuredRow *row = validation_row(validation, index);
  const RowPrediction *prediction = &validation->predictions[index];
  g_autofree char *id = markdown_cell(row->id), *name = markdown_cell(row->model->name);
  g_autofree char *cluster = markdown_cell(row->cluster);
  g_string_append_printf(out,
                         "| %s | %s, %d × %s, tp %d, pp %d, micro-batch %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT
                         " | %.5g | %.5g | %+.1f |\n",
                         id, name, prediction->gpus, cluster, row->plan->tp, row->plan->pp, row->plan->micro_batch,
                         prediction->global_batch, prediction->step_time_s, row->step_time_s, 100 * prediction->error);
}

static void append_summary(GString *out, const ValidationGroup *all) {
  g_string_append_printf(out, "Of %u rows %u are predicted.", all->n_rows, all->n_predicted);
  if (all->n_timed > 0)
    g_string_append_printf(out,
                           " Of the %u with a step time the mean error is %.1f %%, the median %.1f %%, the 90th "
                           "percentile %.1f %%; the baseline is off by %.1f %%.",
                           all->n_timed, 100 * all->time.mape, 100 * all->time.median_ape, 100 * all->time.p90_ape,
                           100 * all->baseline_mape);
  g_string_append(out, "\n\n");
}

char *validation_markdown(const Validation *validation) {
  g_autofree char *parts = parts_text(validation->rows->without);
  GString *out = g_string_new(NULL);
  if (validation->rows->without != 0)
    g_string_append_printf(out, "Without %s. ", parts);
  append_summary(out, &validation->all);
  g_autofree char *by = markdown_cell(validation->by);
  g_string_append_printf(out,
                         "| %s | rows | failed | timed | MAPE %% | median %% | p90 %% | bias %% | baseline MAPE %% "
                         "| memory MAPE %% | ran: said to fit | out of memory: said not to fit |\n",
                         by);
  g_string_append(out, "| --- |");
  for (int i = 0; i < 11; i++)
    g_string_append(out, " ---: |");
  g_string_append_c(out, '\n');
  for (guint i = 0; i < validation->groups->len; i++)
    append_markdown_group(out, &g_array_index(validation->groups, ValidationGroup, i));
  append_markdown_group(out, &validation->all);
  g_autoptr(GArray) ranked = rank_rows(validation);
  if (ranked->len > 0)
    g_string_append(out, "\n| worst rows | what ran | predicted (s) | measured (s) | error % |\n"
                         "| --- | --- | ---: | ---: | ---: |\n");
  for (guint i = 0; i < MIN(ranked->len, N_WORST); i++)
    append_markdown_row(out, validation, g_array_index(ranked, Ranked, i).row);
  return g_string_free(out, FALSE);
}

/* --- JSON, CSV, pictures --- */

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
  if (has_intervals(validation))
    json_add_count(builder, "inside_intervals", group->n_inside);
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

static void add_read_as(JsonBuilder *builder, const Validation *validation) {
  g_autoptr(GArray) counted = count_read_as(validation);
  json_begin_list(builder, "read_as");
  for (guint i = 0; i < counted->len; i++) {
    const Counted *rows = &g_array_index(counted, Counted, i);
    json_begin_object(builder, NULL);
    json_add_text(builder, "framework", validation_row(validation, rows->first)->framework);
    json_add_text(builder, "file", validation_row(validation, rows->first)->read_as);
    json_add_count(builder, "rows", rows->n);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
}

char *validation_json(const Validation *validation) {
  JsonBuilder *builder = json_builder_new();
  json_builder_begin_object(builder);
  add_group(builder, validation, &validation->all, NULL);
  add_parts(builder, validation->rows->without);
  add_read_as(builder, validation);
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
static const char *const added[] = {"predicted_step_time_s",
                                    "error",
                                    "ape",
                                    "predicted_memory_gb",
                                    "predicted_reserved_gb",
                                    "predicted_device_gb",
                                    "failure",
                                    "read_as",
                                    "predicted_low_s",
                                    "predicted_high_s",
                                    NULL};

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
    for (int shown = 0; shown < N_SHOWN; shown++)
      csv_append_number(out, prediction->shown_bytes[shown] / bytes_per_gb);
    csv_append_cell(out, prediction->problem != NULL ? prediction->problem : "");
    csv_append_cell(out, validation_row(validation, i)->read_as);
    csv_append_number(out, prediction->interval.low_s > 0 ? prediction->interval.low_s : NAN);
    csv_append_number(out, prediction->interval.low_s > 0 ? prediction->interval.high_s : NAN);
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
