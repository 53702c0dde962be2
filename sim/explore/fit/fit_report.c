#include "fit_report.h"

#include <math.h>

#include "json_values.h"
#include "validation.h"

enum { MOST_RUNS_LISTED = 40, MOST_UNUSED_LISTED = 10 };
static const double hopeless = 0.25; /* median error of runs that are not understood */

static const FittedRun *run_at(const Fit *fit, guint i) {
  return &g_array_index(fit->runs, FittedRun, i);
}

static double off(double predicted_s, const FittedRun *run) {
  return predicted_s / run->row->step_time_s - 1;
}

/* Of what `which` gives for every run. */
static ErrorStats stats_of(const Fit *fit, double (*which)(const FittedRun *run)) {
  g_autofree double *errors = g_new(double, fit->runs->len);
  for (guint i = 0; i < fit->runs->len; i++)
    errors[i] = off(which(run_at(fit, i)), run_at(fit, i));
  return error_stats(errors, fit->runs->len);
}

static double before_of(const FittedRun *run) {
  return run->before_s;
}
static double after_of(const FittedRun *run) {
  return run->predicted_s;
}
static double without_of(const FittedRun *run) {
  return run->without_s;
}

/* --- text --- */

static void append_unknowns(GString *out, const Fit *fit) {
  g_string_append_printf(out, "\n%-35s %12s %10s  %-22s %s\n", "unknown", "as described", "found", "80 % likely", "");
  for (int i = 0; i < unknowns_count(); i++) {
    const FoundUnknown *found = &fit->unknowns[i];
    if (isnan(found->value))
      continue;
    g_autofree char *base = unknown_text(i, unknown_value(fit->base, i)), *value = unknown_text(i, found->value);
    g_autofree char *low = unknown_text(i, found->low), *high = unknown_text(i, found->high);
    g_autofree char *range = g_strdup_printf("%s to %s", low, high);
    g_string_append_printf(out, "%-35s %12s %10s  %-22s %s\n", unknown_at(i)->key, base, found->is_found ? value : "-",
                           found->is_found ? range : "the runs say nothing", unknown_at(i)->what);
  }
  for (guint i = 0; i < fit->pairs->len; i++) {
    const UnknownPair *pair = &g_array_index(fit->pairs, UnknownPair, i);
    g_string_append_printf(
        out,
        "%s and %s cannot be told apart by these runs (correlation %.2f): together they are known better than each.\n",
        unknown_at(pair->a)->key, unknown_at(pair->b)->key, pair->correlation);
  }
  if (fit->n_memory > 0) {
    g_autofree char *bytes = units_format(fabs(fit->memory_bytes), UNIT_BYTES);
    g_string_append_printf(
        out, "as_run.memory: in the median of %d run%s GPUs held %s %s than is predicted without it\n", fit->n_memory,
        fit->n_memory == 1 ? "" : "s", bytes, fit->memory_bytes < 0 ? "less" : "more");
  }
}

static void append_run(GString *out, const FittedRun *run) {
  g_autofree char *place = measured_row_place(run->row);
  g_autofree char *name = *run->row->id != '\0' ? g_strdup_printf("%s (%s)", run->row->id, place) : g_strdup(place);
  const char *unit = fit_unit_of(run->row->step_time_s / run->predicted_s);
  g_autofree char *odd =
      unit != NULL ? g_strdup_printf("  <- as if in %s", unit) : g_strdup("  <- does not fit the rest");
  g_string_append_printf(out, "%12.5g %10.5g %+9.1f %+9.1f %+9.1f  %s%s\n", run->row->step_time_s, run->predicted_s,
                         100 * off(run->before_s, run), 100 * off(run->predicted_s, run),
                         100 * off(run->without_s, run), name, run->is_odd ? odd : "");
}

/* All of few; of many, those that do not fit the rest. */
static void append_runs(GString *out, const Fit *fit) {
  const gboolean lists_all = fit->runs->len <= MOST_RUNS_LISTED;
  g_string_append_printf(out, "\n%12s %10s %9s %9s %9s\n%12s %10s %9s %9s %9s  %s\n", "measured", "predicted",
                         "error %", "error %", "error %", "s", "s", "before", "after", "from rest",
                         lists_all ? "run" : "run (those that do not fit the rest)");
  for (guint i = 0; i < fit->runs->len; i++)
    if (lists_all || run_at(fit, i)->is_odd)
      append_run(out, run_at(fit, i));
  for (guint i = 0; i < MIN(fit->unused->len, MOST_UNUSED_LISTED); i++)
    g_string_append_printf(out, "not used: %s\n", (const char *)fit->unused->pdata[i]);
  if (fit->unused->len > MOST_UNUSED_LISTED)
    g_string_append_printf(out, "not used: %u more\n", fit->unused->len - MOST_UNUSED_LISTED);
}

static void append_stats(GString *out, const char *what, ErrorStats stats) {
  g_string_append_printf(out, "%-34s mean %5.1f %%   median %5.1f %%   p90 %5.1f %%\n", what, 100 * stats.mape,
                         100 * stats.median_ape, 100 * stats.p90_ape);
}

/* Where rules read the name of a framework as another file. */
static void append_readings(GString *out, const Fit *fit) {
  g_autoptr(GHashTable) said = g_hash_table_new(g_str_hash, g_str_equal);
  for (guint i = 0; i < fit->runs->len; i++) {
    const MeasuredRow *row = run_at(fit, i)->row;
    if (row->is_by_rule && g_hash_table_add(said, (char *)row->read_as))
      g_string_append_printf(out, "%s is read as %s (--releases off: as named)\n", row->framework, row->read_as);
  }
}

static void append_doubts(GString *out, const Fit *fit) {
  if (stats_of(fit, after_of).median_ape > hopeless)
    g_string_append_printf(out,
                           "These runs are not understood: are they of %s and of the framework that is named, and do "
                           "the columns say all that was not the default?\n",
                           fit->base->name);
}

static const Suggestion *suggestion_at(const GArray *suggestions, guint i) {
  return &g_array_index(suggestions, Suggestion, i);
}

static void append_suggestions(GString *out, const GArray *suggestions) {
  if (suggestions->len == 0)
    return;
  const Suggestion *first = suggestion_at(suggestions, 0);
  g_autofree char *place = measured_row_place(first->like);
  const char *like = *first->like->id != '\0' ? first->like->id : place;
  g_string_append_printf(
      out,
      "\nTo learn most of plans like these, of which four of five are known to within a factor of %.3f, run next (all "
      "else as %s)\n",
      exp(first->spread_before), like);
  for (guint i = 0; i < suggestions->len; i++) {
    const Suggestion *run = suggestion_at(suggestions, i);
    g_autofree char *time = units_format(run->predicted_s, UNIT_SECONDS);
    g_string_append_printf(
        out, "  --gpus %d --tp %d --pp %d --micro-batch %" G_GINT64_FORMAT " (%s): then %.3f; says most of %s\n",
        run->gpus, run->tp, run->pp, run->micro_batch, time, exp(run->spread_after), unknown_at(run->tells)->key);
  }
}

void fit_text(GString *out, const Fit *fit, const GArray *suggestions) {
  g_string_append_printf(out, "%u run%s on %s\n", fit->runs->len, fit->runs->len == 1 ? "" : "s", fit->base->name);
  append_unknowns(out, fit);
  append_runs(out, fit);
  append_readings(out, fit);
  g_string_append_c(out, '\n');
  append_stats(out, "as described", stats_of(fit, before_of));
  append_stats(out, "with what was found", stats_of(fit, after_of));
  if (fit->runs->len > 1)
    append_stats(out, "each run from the others", stats_of(fit, without_of));
  if (isfinite(fit->error))
    g_string_append_printf(out, "Of other runs like these four of five should be within a factor of %.3f.\n",
                           exp(fit->error));
  else
    g_string_append(out, "Four runs and more say how far others will be off.\n");
  append_doubts(out, fit);
  append_suggestions(out, suggestions);
}

/* --- JSON --- */

static void add_unknown(JsonBuilder *out, const Fit *fit, int i) {
  const FoundUnknown *found = &fit->unknowns[i];
  json_begin_object(out, NULL);
  json_add_text(out, "key", unknown_at(i)->key);
  json_add_text(out, "what", unknown_at(i)->what);
  json_add_number(out, "base", unknown_value(fit->base, i));
  json_add_number(out, "value", found->value);
  json_add_number(out, "low", found->low);
  json_add_number(out, "high", found->high);
  json_add_number(out, "narrowed", found->narrowed);
  json_add_flag(out, "found", found->is_found);
  json_builder_end_object(out);
}

static void add_run(JsonBuilder *out, const FittedRun *run) {
  g_autofree char *place = measured_row_place(run->row);
  json_begin_object(out, NULL);
  json_add_text(out, "id", run->row->id);
  json_add_text(out, "place", place);
  json_add_number(out, "measured_s", run->row->step_time_s);
  json_add_number(out, "base_s", run->before_s);
  json_add_number(out, "predicted_s", run->predicted_s);
  json_add_number(out, "without_s", run->without_s);
  json_add_flag(out, "odd", run->is_odd);
  json_builder_end_object(out);
}

static void add_stats(JsonBuilder *out, const char *key, ErrorStats stats) {
  json_begin_object(out, key);
  json_add_number(out, "mape", stats.mape);
  json_add_number(out, "median_ape", stats.median_ape);
  json_add_number(out, "p90_ape", stats.p90_ape);
  json_add_number(out, "bias", stats.bias);
  json_builder_end_object(out);
}

static void add_suggestion(JsonBuilder *out, const Suggestion *run) {
  json_begin_object(out, NULL);
  json_add_count(out, "gpus", run->gpus);
  json_add_count(out, "tp", run->tp);
  json_add_count(out, "pp", run->pp);
  json_add_count(out, "micro_batch", run->micro_batch);
  json_add_number(out, "predicted_s", run->predicted_s);
  json_add_number(out, "known_to", run->spread_before);
  json_add_number(out, "after", run->spread_after);
  json_add_text(out, "tells", unknown_at(run->tells)->key);
  json_builder_end_object(out);
}

static void add_pair(JsonBuilder *out, const UnknownPair *pair) {
  json_begin_object(out, NULL);
  json_add_text(out, "a", unknown_at(pair->a)->key);
  json_add_text(out, "b", unknown_at(pair->b)->key);
  json_add_number(out, "correlation", pair->correlation);
  json_builder_end_object(out);
}

static void add_findings(JsonBuilder *out, const Fit *fit) {
  json_begin_list(out, "unknowns");
  for (int i = 0; i < unknowns_count(); i++)
    if (!isnan(fit->unknowns[i].value))
      add_unknown(out, fit, i);
  json_builder_end_array(out);
  json_begin_list(out, "not_told_apart");
  for (guint i = 0; i < fit->pairs->len; i++)
    add_pair(out, &g_array_index(fit->pairs, UnknownPair, i));
  json_builder_end_array(out);
}

static void add_runs(JsonBuilder *out, const Fit *fit) {
  json_begin_list(out, "runs");
  for (guint i = 0; i < fit->runs->len; i++)
    add_run(out, run_at(fit, i));
  json_builder_end_array(out);
  json_begin_list(out, "unused");
  for (guint i = 0; i < fit->unused->len; i++)
    json_builder_add_string_value(out, fit->unused->pdata[i]);
  json_builder_end_array(out);
  add_stats(out, "before", stats_of(fit, before_of));
  add_stats(out, "after", stats_of(fit, after_of));
  add_stats(out, "leave_one_out", stats_of(fit, without_of));
}

char *fit_json(const Fit *fit, const GArray *suggestions) {
  JsonBuilder *out = json_builder_new();
  json_builder_begin_object(out);
  json_add_text(out, "base", fit->base->name);
  add_findings(out, fit);
  add_runs(out, fit);
  json_add_number(out, "noise", fit->noise);
  json_add_number(out, "error", fit->error);
  json_add_number(out, "memory_beyond_bytes", fit->memory_bytes);
  json_begin_list(out, "suggestions");
  for (guint i = 0; i < suggestions->len; i++)
    add_suggestion(out, suggestion_at(suggestions, i));
  json_builder_end_array(out);
  json_builder_end_object(out);
  return json_finish(out);
}

/* --- the file --- */

/* The mapping of a key's path, opened below the ones that are open already. */
static void append_key(GString *out, GPtrArray *open, const char *path, const char *value, const char *why) {
  g_auto(GStrv) parts = g_strsplit(path, ".", -1);
  const guint n = g_strv_length(parts);
  guint same = 0;
  while (same < open->len && same + 1 < n && g_str_equal(open->pdata[same], parts[same]))
    same++;
  g_ptr_array_set_size(open, (int)same);
  for (guint i = same; i + 1 < n; i++) {
    g_string_append_printf(out, "%*s%s:\n", 2 * (int)i, "", parts[i]);
    g_ptr_array_add(open, g_strdup(parts[i]));
  }
  g_string_append_printf(out, "%*s%s: %s  # %s\n", 2 * (int)(n - 1), "", parts[n - 1], value, why);
}

static void append_found(GString *out, GPtrArray *open, const Fit *fit, int i) {
  const FoundUnknown *found = &fit->unknowns[i];
  g_autofree char *value = unknown_text(i, found->value), *low = unknown_text(i, found->low);
  g_autofree char *high = unknown_text(i, found->high), *base = unknown_text(i, unknown_value(fit->base, i));
  g_autofree char *why = g_strdup_printf("80 %% likely: %s to %s; %s has %s", low, high, fit->base->name, base);
  append_key(out, open, unknown_at(i)->key, value, why);
}

static gboolean is_of_links(int i) {
  return g_str_has_prefix(unknown_at(i)->key, "node.");
}

static void append_as_run(GString *out, GPtrArray *open, const Fit *fit) {
  for (int i = 0; i < unknowns_count(); i++)
    if (fit->unknowns[i].is_found && !is_of_links(i))
      append_found(out, open, fit, i);
  if (fit->n_memory > 0 && fit->memory_bytes > 0) {
    g_autofree char *bytes = units_format(fit->memory_bytes, UNIT_BYTES);
    g_autofree char *why = g_strdup_printf("the median of %d", fit->n_memory);
    append_key(out, open, "as_run.memory", bytes, why);
  }
  if (!isfinite(fit->error))
    return;
  g_autofree char *error = g_strdup_printf("%.4g", CLAMP(fit->error, 1e-4, 3));
  append_key(out, open, "as_run.error", error, "of a run predicted from the others, 80 % of them");
}

char *fit_yaml_value(const char *text) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
  if (strspn(text, plain) == strlen(text) && (g_ascii_isalnum(*text) || *text == '/'))
    return g_strdup(text);
  GString *quoted = g_string_new("\"");
  for (const char *at = text; *at != '\0'; at++) {
    if (*at == '"' || *at == '\\')
      g_string_append_c(quoted, '\\');
    g_string_append_c(quoted, g_ascii_iscntrl(*at) ? ' ' : *at);
  }
  g_string_append_c(quoted, '"');
  return g_string_free(quoted, FALSE);
}

/* Of a text in several lines: one. Owned by the caller. */
static char *one_line(const char *text) {
  return g_strdelimit(g_utf8_make_valid(text, -1), "\r\n\t", ' ');
}

char *fit_yaml(const Fit *fit, const char *name, const char *base, const char *files, const char *section) {
  GString *out = g_string_new(NULL);
  g_autoptr(GPtrArray) open = g_ptr_array_new_with_free_func(g_free);
  g_autofree char *machine = one_line(fit->base->name), *from = one_line(files), *name_value = fit_yaml_value(name);
  g_autofree char *base_value = fit_yaml_value(base);
  g_string_append_printf(out, "# %s, as %u of its runs show it (stepsim fit).\nname: %s\nbase: %s\nsource: >-\n  ",
                         machine, fit->runs->len, name_value, base_value);
  g_string_append_printf(out,
                         "stepsim fit of %u runs in %s over %s: off by %.1f %% in the mean, by %.1f %% where each is "
                         "predicted from the others, %.1f %% before.\n",
                         fit->runs->len, from, machine, 100 * stats_of(fit, after_of).mape,
                         100 * stats_of(fit, without_of).mape, 100 * stats_of(fit, before_of).mape);
  for (int i = 0; i < unknowns_count(); i++)
    if (fit->unknowns[i].is_found && is_of_links(i))
      append_found(out, open, fit, i);
  append_as_run(out, open, fit);
  if (section != NULL)
    g_string_append(out, section);
  return g_string_free(out, FALSE);
}
