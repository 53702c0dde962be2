#include "profile_compare.h"

#include <math.h>

#include "compare.h"
#include "json_values.h"
#include "text_report.h"
#include "units.h"

/* Per rank and step. */
static double mean_s(const ProfileSums *sums, gint64 (*of)(const ProfileRankSums *sums, int which), int which) {
  double total_s = 0;
  const guint n = sums->profile->ranks->len;
  for (guint r = 0; r < n; r++)
    total_s += (double)of(&sums->ranks[r], which) * 1e-9 / (double)sums->ranks[r].n_steps;
  return total_s / n;
}

enum { STEP, COMPUTING, EXPOSED, HIDDEN, COPYING, IDLE, N_PARTS };
static const char *const part_names[N_PARTS] = {
    "step", "computing", "communicating, exposed", "communicating, hidden", "copying", "idle"};

static gint64 part_ns(const ProfileRankSums *sums, int part) {
  const ProfileTimes *times = &sums->times;
  const gint64 parts_ns[N_PARTS] = {times->step_ns,   times->computing_ns, times->communicating_ns - times->hidden_ns,
                                    times->hidden_ns, times->copying_ns,   times->idle_ns};
  return parts_ns[part];
}

static gint64 kind_ns(const ProfileRankSums *sums, int kind) {
  return sums->kinds[kind].ns;
}

static gint compare_differences(gconstpointer a, gconstpointer b) {
  const ProfileDifference *x = a, *y = b;
  const double p = fabs(x->predicted_s - x->measured_s), q = fabs(y->predicted_s - y->measured_s);
  return (p < q) - (p > q);
}

ProfileCompare *profile_compare_new(const Profile *predicted, const Profile *measured) {
  ProfileCompare *compare = g_new(ProfileCompare, 1);
  *compare = (ProfileCompare){predicted, measured, g_array_new(FALSE, FALSE, sizeof(ProfileDifference)),
                              g_array_new(FALSE, FALSE, sizeof(ProfileDifference))};
  g_autoptr(ProfileSums) of_predicted = profile_sums_new(predicted), of_measured = profile_sums_new(measured);
  for (int part = 0; part < N_PARTS; part++) {
    const ProfileDifference row = {part_names[part], mean_s(of_predicted, part_ns, part),
                                   mean_s(of_measured, part_ns, part)};
    g_array_append_val(compare->parts, row);
  }
  for (int kind = 0; kind < N_PROFILE_KINDS; kind++) {
    const ProfileDifference row = {profile_kind_name((ProfileKind)kind), mean_s(of_predicted, kind_ns, kind),
                                   mean_s(of_measured, kind_ns, kind)};
    if (row.predicted_s > 0 || row.measured_s > 0)
      g_array_append_val(compare->kinds, row);
  }
  g_array_sort(compare->kinds, compare_differences);
  return compare;
}

void profile_compare_free(ProfileCompare *compare) {
  if (compare == NULL)
    return;
  g_array_unref(compare->parts);
  g_array_unref(compare->kinds);
  g_free(compare);
}

static void append_time(GString *out, double seconds) {
  g_autofree char *text = seconds != 0 ? units_format(seconds, UNIT_SECONDS) : g_strdup("0");
  g_string_append_printf(out, " %11s", text);
}

static void append_rows(GString *out, const GArray *rows) {
  g_string_append_printf(out, "  %-24s %11s %11s %10s %11s\n", "", "predicted", "measured", "error", "difference");
  for (guint i = 0; i < rows->len; i++) {
    const ProfileDifference *row = &g_array_index(rows, ProfileDifference, i);
    const double error = compare_error(row->predicted_s, row->measured_s);
    g_string_append_printf(out, "  %-24s", row->name);
    append_time(out, row->predicted_s);
    append_time(out, row->measured_s);
    g_autofree char *percent = isfinite(error) ? g_strdup_printf("%+.1f %%", units_percent(error)) : g_strdup("-");
    g_string_append_printf(out, " %10s", percent);
    append_time(out, row->predicted_s - row->measured_s);
    g_string_append_c(out, '\n');
  }
}

void profile_compare_text(GString *out, const ProfileCompare *compare, gboolean colour) {
  const ProfileRank *first = profile_rank(compare->measured, 0);
  g_string_append_printf(out, "%s against %s\n", profile_rank(compare->predicted, 0)->file, first->file);
  g_string_append_printf(out, "  measured: %s, ", compare->measured->source);
  units_append_count(out, compare->measured->ranks->len, "rank, ", "ranks, ");
  if (first->steps->len > 0) {
    units_append_count(out, first->steps->len, "step ", "steps ");
    g_string_append_printf(out, "%s\n", first->steps_from);
  } else {
    g_string_append(out, "all of it taken as one step: nothing marks or repeats any\n");
  }
  text_report_heading(out, "A step, mean over ranks and steps", colour);
  append_rows(out, compare->parts);
  text_report_heading(out, "By kind, what differs most first; what runs beside each other counts twice", colour);
  append_rows(out, compare->kinds);
  g_string_append(out, "  Error is predicted / measured - 1. What would explain a step: stepsim explain --measured\n");
}

static void add_rows(JsonBuilder *json, const char *key, const char *name, const GArray *rows) {
  json_begin_list(json, key);
  for (guint i = 0; i < rows->len; i++) {
    const ProfileDifference *row = &g_array_index(rows, ProfileDifference, i);
    json_begin_object(json, NULL);
    json_add_text(json, name, row->name);
    json_add_number(json, "predicted_s", row->predicted_s);
    json_add_number(json, "measured_s", row->measured_s);
    json_add_number(json, "error", compare_error(row->predicted_s, row->measured_s));
    json_add_number(json, "difference_s", row->predicted_s - row->measured_s);
    json_builder_end_object(json);
  }
  json_builder_end_array(json);
}

void profile_compare_add(JsonBuilder *json, const ProfileCompare *compare) {
  add_rows(json, "parts", "part", compare->parts);
  add_rows(json, "kinds", "kind", compare->kinds);
}

char *profile_compare_json(const ProfileCompare *compare) {
  const ProfileDifference *step = &g_array_index(compare->parts, ProfileDifference, STEP);
  JsonBuilder *json = json_builder_new();
  json_begin_object(json, NULL);
  json_begin_object(json, "step_time_s");
  json_add_number(json, "predicted", step->predicted_s);
  json_add_number(json, "measured", step->measured_s);
  json_add_number(json, "error", compare_error(step->predicted_s, step->measured_s));
  json_builder_end_object(json);
  profile_compare_add(json, compare);
  json_builder_end_object(json);
  return json_finish(json);
}
