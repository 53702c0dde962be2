#include "run_report.h"

#include <math.h>

#include "error.h"
#include "units.h"

static const double day_s = 86400;

/* Without whole nodes that are lost and found, what Daly expects. */
static double closed_form(const RunSetup *setup) {
  const TrainingRun *run = &setup->run;
  return goodput_share(run->mtbf_s, setup->mean_restart_s, run->stall_s,
                       (double)run->interval_steps * run->whole.step_s);
}

/* Per second of the run, spares included. */
static double dollars_per_s(const RunSetup *setup, const TrainingCost *cost) {
  return cost->dollars_per_gpu_hour * setup->n_gpus_paid / 3600;
}

static void append_range(GString *out, const RunSummary *summary, double scale) {
  g_string_append_printf(out, "%.4g to %.4g", summary->low_s * scale, summary->high_s * scale);
}

/* A line of its own, if anything is lost. */
static void append_parts(GString *out, const RunSummary *summary, const char *indent) {
  g_autofree char *first = g_strdup_printf("\n%slost: ", indent);
  const char *before = first;
  for (int part = RUN_REDONE; part < N_RUN_PARTS; part++) {
    const double percent = 100 * summary->mean.part_s[part] / summary->mean.total_s;
    if (percent < 0.005)
      continue;
    g_string_append_printf(out, "%s%.2f %% %s", before, percent, run_part_names[part]);
    before = ", ";
  }
}

static const char *kind_name(const RunSetup *setup, int kind) {
  return kind < setup->run.n_kinds ? setup->run.kinds[kind].name : "maintenance";
}

typedef struct {
  double n;
  int kind;
} Count;

static int more_first(gconstpointer a, gconstpointer b) {
  const Count *x = a, *y = b;
  return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : x->kind - y->kind;
}

/* A mean number of something. */
static void append_number(GString *out, double n, const char *before, const char *what) {
  g_autofree char *many = units_format_count(n), *few = g_strdup_printf("%.3g", n);
  g_string_append_printf(out, "%s%s %s", before, n < 1000 ? few : many, what);
}

static void append_interruptions(GString *out, const RunSetup *setup, const RunSummary *summary) {
  enum { MOST_TOLD = 5 };
  const int n = setup->run.n_kinds + 1;
  g_autofree Count *counts = g_new(Count, n);
  double all = 0, rest = 0;
  for (int i = 0; i < n; i++) {
    counts[i] = (Count){summary->mean.n_of_kind[i], i};
    all += counts[i].n;
  }
  qsort(counts, (size_t)n, sizeof *counts, more_first);
  append_number(out, all, "", "interruptions");
  for (int i = 0; i < n && setup->run.n_kinds > 1; i++)
    if (i < MOST_TOLD && counts[i].n > 0)
      append_number(out, counts[i].n, i == 0 ? ": " : ", ", kind_name(setup, counts[i].kind));
    else
      rest += counts[i].n;
  if (rest > 0)
    append_number(out, rest, ", ", "others");
  g_autofree char *written = units_format(setup->run.stall_s + setup->run.write_s, UNIT_SECONDS);
  append_number(out, summary->mean.n_saves, "; ", "checkpoints");
  g_string_append_printf(out, ", each written after %s", written);
}

static void append_elastic(GString *out, const RunSetup *setup, const RunSummary *summary) {
  const gboolean is_live = setup->run.elastic == ELASTIC_LIVE;
  g_autofree char *bytes = units_format(setup->joined_bytes, UNIT_BYTES);
  g_autofree char *takes = units_format(setup->joined_s, UNIT_SECONDS);
  g_string_append_printf(out, "dp %.4g of %d on average", summary->mean.mean_dp, setup->run.whole.dp);
  append_number(out, summary->mean.n_reshaped, ", changed ", "times");
  g_string_append_printf(out, "; %s moved each time, %s %s", bytes, is_live ? "to those that join," : "from storage,",
                         takes);
}

static void append_assumed(GString *out, const RunSetup *setup, const char *indent) {
  const struct {
    gboolean is_assumed;
    const char *what;
  } all[] = {{setup->restart_is_assumed, "restart"},
             {setup->storage_is_assumed, "storage"},
             {setup->link_is_assumed, "the GPUs' link to their host"}};
  g_autoptr(GString) what = g_string_new(NULL);
  for (gsize i = 0; i < G_N_ELEMENTS(all); i++)
    if (all[i].is_assumed)
      g_string_append_printf(what, "%s%s", what->len > 0 ? ", " : "", all[i].what);
  if (what->len > 0)
    g_string_append_printf(out, "%sassumed, as %s does not state it: %s\n", indent, setup->cluster->name, what->str);
}

void run_text(const RunSetup *setup, const RunSummary *summary, const TrainingCost *cost, const char *indent,
              GString *out) {
  if (!summary->mean.ends)
    return;
  g_string_append_printf(out, "%s%g %% of %d simulated runs take ", indent, 100 * summary->level, summary->n_runs);
  append_range(out, summary, 1 / day_s);
  g_string_append(out, " days");
  if (cost->dollars > 0) {
    g_autofree char *low = units_format_count(summary->low_s * dollars_per_s(setup, cost));
    g_autofree char *high = units_format_count(summary->high_s * dollars_per_s(setup, cost));
    g_string_append_printf(out, ", $%s to $%s", low, high);
  }
  if (setup->run.elastic == ELASTIC_OFF)
    g_string_append_printf(out, "; Daly's closed form: %.1f %%", 100 * closed_form(setup));
  append_parts(out, summary, indent);
  g_string_append_printf(out, "\n%s", indent);
  append_interruptions(out, setup, summary);
  if (setup->run.elastic != ELASTIC_OFF) {
    g_string_append_printf(out, "\n%s", indent);
    append_elastic(out, setup, summary);
  }
  g_string_append_c(out, '\n');
  append_assumed(out, setup, indent);
}

static double known(double value) {
  return value > 0 ? value : NAN;
}

static void add_interval(const RunSetup *setup, const RunSummary *summary, const TrainingCost *cost,
                         JsonBuilder *builder) {
  json_begin_object(builder, "interval");
  json_add_number(builder, "level", summary->level);
  json_add_number(builder, "low_days", summary->low_s / day_s);
  json_add_number(builder, "high_days", summary->high_s / day_s);
  json_add_number(builder, "low_dollars", known(summary->low_s * dollars_per_s(setup, cost)));
  json_add_number(builder, "high_dollars", known(summary->high_s * dollars_per_s(setup, cost)));
  json_builder_end_object(builder);
}

static void add_interruptions(const RunSetup *setup, const RunSummary *summary, JsonBuilder *builder) {
  json_begin_list(builder, "interruptions");
  for (int i = 0; i <= setup->run.n_kinds; i++) {
    json_begin_object(builder, NULL);
    json_add_text(builder, "kind", kind_name(setup, i));
    json_add_number(builder, "count", summary->mean.n_of_kind[i]);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
}

static void add_elastic(const RunSetup *setup, const RunSummary *summary, JsonBuilder *builder) {
  json_add_text(builder, "elastic", run_elastic_names[setup->run.elastic]);
  json_add_number(builder, "mean_dp", summary->mean.mean_dp);
  json_add_number(builder, "reshaped", summary->mean.n_reshaped);
  json_add_number(builder, "reshard_bytes", setup->joined_bytes);
  json_add_number(builder, "reshard_s", setup->joined_s);
}

void run_json(const RunSetup *setup, const RunSummary *summary, const TrainingCost *cost, JsonBuilder *builder) {
  const RunOutcome *mean = &summary->mean;
  json_begin_object(builder, "run");
  json_add_flag(builder, "ends", mean->ends);
  json_add_count(builder, "runs", summary->n_runs);
  if (mean->ends) {
    add_interval(setup, summary, cost, builder);
    json_begin_object(builder, "days");
    for (int part = 0; part < N_RUN_PARTS; part++)
      json_add_number(builder, run_part_names[part], mean->part_s[part] / day_s);
    json_builder_end_object(builder);
    add_interruptions(setup, summary, builder);
    json_add_number(builder, "checkpoints", mean->n_saves);
    add_elastic(setup, summary, builder);
  }
  json_add_text(builder, "save", save_how_names[setup->save]);
  json_add_number(builder, "checkpoint_write_s", setup->run.stall_s + setup->run.write_s);
  json_add_number(builder, "spares", setup->run.n_spares == SPARES_UNLIMITED ? NAN : setup->run.n_spares);
  json_add_number(builder, "closed_form_goodput", closed_form(setup));
  json_add_flag(builder, "storage_is_assumed", setup->storage_is_assumed);
  json_builder_end_object(builder);
}

/* Blocks: progress, then the days of each kind's interruptions, the most frequent first. */
static void add_progress(const RunSetup *setup, const GArray *moments, Picture *picture) {
  picture_begin_block(picture, "progress");
  for (guint i = 0; i < moments->len; i++) {
    const RunMoment *moment = &g_array_index(moments, RunMoment, i);
    picture_add_number(picture, moment->time_s / day_s);
    picture_add_number(picture, moment->steps / setup->run.n_steps);
    picture_add_number(picture, moment->dp);
    picture_end_row(picture);
  }
}

static void add_kinds(const RunSetup *setup, const GArray *moments, Picture *picture) {
  g_autoptr(GString) names = g_string_new(NULL);
  const int n = setup->run.n_kinds + 1;
  g_autofree Count *counts = g_new(Count, n);
  int n_drawn = 0;
  for (int i = 0; i < n; i++)
    counts[i] = (Count){0, i};
  for (guint i = 0; i < moments->len; i++)
    if (g_array_index(moments, RunMoment, i).kind >= 0)
      counts[g_array_index(moments, RunMoment, i).kind].n++;
  qsort(counts, (size_t)n, sizeof *counts, more_first);
  for (; n_drawn < n && counts[n_drawn].n > 0; n_drawn++) {
    const char *name = kind_name(setup, counts[n_drawn].kind);
    picture_begin_block(picture, name);
    g_string_append_printf(names, "\"%s (%.0f)\" ", name, counts[n_drawn].n);
    for (guint i = 0; i < moments->len; i++) {
      const RunMoment *moment = &g_array_index(moments, RunMoment, i);
      if (moment->kind != counts[n_drawn].kind)
        continue;
      picture_add_number(picture, moment->time_s / day_s);
      picture_end_row(picture);
    }
  }
  picture_set_number(picture, "kinds", n_drawn);
  picture_set(picture, "names", names->str);
}

Picture *run_picture(const RunSetup *setup, guint64 seed, const char *title, GError **error) {
  g_autoptr(GArray) moments = g_array_new(FALSE, FALSE, sizeof(RunMoment));
  RunOutcome outcome = training_run_once(&setup->run, seed, moments);
  Picture *picture = NULL;
  if (outcome.ends) {
    picture = picture_new("run", title);
    add_progress(setup, moments, picture);
    add_kinds(setup, moments, picture);
    picture_set_number(picture, "dp", setup->run.whole.dp);
    picture_set_number(picture, "ideal", outcome.part_s[RUN_KEPT] / day_s);
  } else {
    fail_impossible(error, "the run is not expected to end: there is nothing to draw");
  }
  run_outcome_clear(&outcome);
  return picture;
}
