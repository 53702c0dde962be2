/* A machine that is known, from simulated runs on it with noise. */
#include "csv_text.h"
#include "fit_report.h"
#include "predict.h"
#include "run_suite.h"

#include <math.h>
#include <string.h>

static const char header[] = "id,layers,hidden,heads,gated,vocab,positions,seq_len,gpus,tp,pp,micro_batch,global_batch,"
                             "zero,framework,cluster,step_time_s\n";

/* gpus, tp, pp, micro_batch, global_batch: what they wait for differs. */
static const int plans[][5] = {{8, 1, 1, 4, 128},  {8, 8, 1, 1, 64},    {16, 1, 1, 4, 256},  {16, 8, 1, 4, 128},
                               {32, 2, 1, 2, 256}, {32, 4, 2, 1, 256},  {64, 1, 1, 4, 512},  {32, 16, 1, 4, 256},
                               {64, 1, 4, 1, 256}, {128, 1, 1, 1, 128}, {128, 1, 1, 2, 256}, {64, 1, 1, 1, 64}};

static Cluster *machine(const char *what) {
  g_autofree char *text = g_strconcat("name: mine\nbase: dgx-h100\n", what, NULL);
  GError *error = NULL;
  Cluster *cluster = cluster_parse("mine.yaml", text, &error);
  ck_assert_msg(cluster != NULL, "%s", error != NULL ? error->message : "");
  return cluster;
}

static void append_plan(GString *csv, int i, const char *time) {
  const int *p = plans[i];
  g_string_append_printf(csv, "run%d,32,4096,32,1,32000,rotary,4096,%d,%d,%d,%d,%d,1,megatron-core,dgx-h100,%s\n", i,
                         p[0], p[1], p[2], p[3], p[4], time);
}

/* What `truth` takes for the first n plans, times 1 ± `noise` in turn, and `scale` (NULL: 1 each). */
static MeasuredRows *runs_on(const Cluster *truth, int n, double noise, const double *scale) {
  g_autoptr(GString) unknown = g_string_new(header), csv = g_string_new(header);
  for (int i = 0; i < n; i++)
    append_plan(unknown, i, "1");
  g_autoptr(MeasuredRows) rows = rows_of(unknown->str);
  for (int i = 0; i < n; i++) {
    const MeasuredRow *row = nth_row(rows, i);
    StepPrediction step;
    ck_assert_msg(row->problem == NULL && predict_step(NULL, row->model, truth, row->plan, &step, NULL), "%s",
                  row->problem);
    char time[G_ASCII_DTOSTR_BUF_SIZE];
    const double off = i % 3 == 0 ? noise : i % 3 == 1 ? -noise : noise / 3;
    g_ascii_dtostr(time, sizeof time, step.step_time_s * (1 + off) * (scale != NULL ? scale[i] : 1));
    append_plan(csv, i, time);
  }
  return rows_of(csv->str);
}

static Fit *fitted(const MeasuredRows *rows, Cluster *base) {
  g_autofree FitPrior *priors = fit_priors(base);
  GError *error = NULL;
  Fit *fit = fit_new(rows, base, priors, 2, &error);
  ck_assert_msg(fit != NULL, "%s", error != NULL ? error->message : "");
  return fit;
}

static const FoundUnknown *found(const Fit *fit, const char *key) {
  for (int i = 0; i < unknowns_count(); i++)
    if (strcmp(unknown_at(i)->key, key) == 0)
      return &fit->unknowns[i];
  ck_abort_msg("no unknown %s", key);
}

static void check_near(const Fit *fit, const char *key, double truth, double factor) {
  const double value = found(fit, key)->value;
  ck_assert_msg(found(fit, key)->is_found && fabs(log(value / truth)) < log(factor),
                "%s: found %g of %g, said %d, noise %g", key, value, truth, found(fit, key)->is_found, fit->noise);
}

enum { ALL = G_N_ELEMENTS(plans) };

static const char slow_network[] =
    "node: {nic: {efficiency: 0.3, step: 400 us}}\nas_run: {rate: 0.9, host_time: 1.5}\n";

TEST(known_constants_are_found_again) {
  g_autoptr(Cluster) base = machine(""), truth = machine(slow_network);
  g_autoptr(MeasuredRows) rows = runs_on(truth, ALL, 0.01, NULL);
  g_autoptr(Fit) fit = fitted(rows, base);
  check_near(fit, "as_run.rate", 0.9, 1.03);
  check_near(fit, "as_run.host_time", 1.5, 1.15);
  check_near(fit, "node.nic.efficiency", 0.3, 1.25);
  ck_assert_double_lt(fit->noise, 0.06);
  for (guint i = 0; i < fit->runs->len; i++) {
    const FittedRun *run = &g_array_index(fit->runs, FittedRun, i);
    ck_assert_msg(fabs(log(run->predicted_s / run->row->step_time_s)) < 0.08, "%s: %g of %g", run->row->id,
                  run->predicted_s, run->row->step_time_s);
    ck_assert(!run->is_odd);
  }
}

/* And says so of what it says nothing of: on one node, of the network. */
TEST(what_the_runs_do_not_tell_stays) {
  g_autoptr(Cluster) base = machine(""), truth = machine("as_run: {rate: 0.85}\n");
  g_autoptr(MeasuredRows) rows = runs_on(truth, 1, 0, NULL);
  g_autoptr(Fit) fit = fitted(rows, base);
  check_near(fit, "as_run.rate", 0.85, 1.1);
  static const char *const untold[] = {"node.nic.efficiency", "node.nic.step", "as_run.network_falls"};
  for (guint i = 0; i < G_N_ELEMENTS(untold); i++)
    ck_assert(!found(fit, untold[i])->is_found);
  ck_assert_double_eq(fit->cluster->nic_efficiency, base->nic_efficiency);
  ck_assert(isinf(fit->error));
}

TEST(a_run_that_does_not_fit_the_rest_is_named) {
  double scale[ALL];
  for (int i = 0; i < ALL; i++)
    scale[i] = i == 4 ? 3 : 1;
  g_autoptr(Cluster) base = machine(""), truth = machine("as_run: {rate: 0.9}\n");
  g_autoptr(MeasuredRows) rows = runs_on(truth, ALL, 0.01, scale);
  g_autoptr(Fit) fit = fitted(rows, base);
  for (int i = 0; i < ALL; i++)
    ck_assert_int_eq(g_array_index(fit->runs, FittedRun, i).is_odd, i == 4);
  check_near(fit, "as_run.rate", 0.9, 1.04);
}

/* On sixteen nodes alone the NICs' share and what is left of it with nodes are one number. */
TEST(what_cannot_be_told_apart_is_said) {
  g_autoptr(Cluster) base = machine("as_run: {network_falls: 0.3}\n"),
                     truth = machine("as_run: {network_falls: 0.6}\n");
  g_autoptr(GString) csv = g_string_new(header);
  const int alike[] = {9, 10};
  g_autoptr(MeasuredRows) all = runs_on(truth, ALL, 0, NULL);
  for (guint i = 0; i < G_N_ELEMENTS(alike); i++) {
    char time[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_dtostr(time, sizeof time, nth_row(all, alike[i])->step_time_s);
    append_plan(csv, alike[i], time);
  }
  g_autoptr(MeasuredRows) rows = rows_of(csv->str);
  g_autoptr(Fit) fit = fitted(rows, base);
  gboolean is_said = FALSE;
  for (guint i = 0; i < fit->pairs->len; i++) {
    const UnknownPair *pair = &g_array_index(fit->pairs, UnknownPair, i);
    is_said |= strcmp(unknown_at(pair->a)->key, "node.nic.efficiency") == 0 &&
               strcmp(unknown_at(pair->b)->key, "as_run.network_falls") == 0;
  }
  ck_assert(is_said);
}

TEST(the_file_predicts_what_the_fit_did) {
  g_autoptr(Cluster) base = machine(""), truth = machine(slow_network);
  g_autoptr(MeasuredRows) rows = runs_on(truth, ALL, 0.02, NULL);
  g_autoptr(Fit) fit = fitted(rows, base);
  g_autofree char *yaml = fit_yaml(fit, "found", "dgx-h100", "runs.csv", NULL);
  GError *error = NULL;
  g_autoptr(Cluster) cluster = cluster_parse("found.yaml", yaml, &error);
  ck_assert_msg(cluster != NULL, "%s\n%s", error != NULL ? error->message : "", yaml);
  ck_assert_str_eq(cluster->name, "found");
  ck_assert_double_eq_tol(cluster->as_run.error, fit->error, 1e-3 * fit->error);
  for (guint i = 0; i < fit->runs->len; i++) {
    const FittedRun *run = &g_array_index(fit->runs, FittedRun, i);
    StepPrediction step;
    ck_assert(predict_step(NULL, run->row->model, cluster, run->row->plan, &step, NULL));
    ck_assert_double_eq_tol(step.step_time_s, run->predicted_s, 1e-6 * run->predicted_s);
  }
}

/* Fitting what was fitted finds little more. */
TEST(a_fitted_machine_can_be_fitted_again) {
  g_autoptr(Cluster) base = machine(slow_network), truth = machine(slow_network);
  g_autoptr(MeasuredRows) rows = runs_on(truth, ALL, 0, NULL);
  g_autoptr(Fit) fit = fitted(rows, base);
  check_near(fit, "as_run.rate", 0.9, 1.02);
  check_near(fit, "as_run.host_time", 1.5, 1.1);
}

TEST(times_in_another_unit_are_refused) {
  double scale[ALL];
  for (int i = 0; i < ALL; i++)
    scale[i] = 1000;
  g_autoptr(Cluster) base = machine("");
  g_autoptr(MeasuredRows) rows = runs_on(base, ALL, 0, scale);
  g_autofree FitPrior *priors = fit_priors(base);
  GError *error = NULL;
  ck_assert_ptr_null(fit_new(rows, base, priors, 1, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "as if in milliseconds, expected seconds"));
  g_error_free(error);
}

/* After runs on one node, what crosses nodes tells most; each next one tells less. */
TEST(suggested_runs_tell_of_what_is_not_known) {
  g_autoptr(Cluster) base = machine("");
  g_autoptr(MeasuredRows) rows = runs_on(base, 3, 0.01, NULL);
  g_autoptr(Fit) fit = fitted(rows, base);
  g_autoptr(GArray) suggestions = fit_suggest(fit, 3, 2);
  ck_assert_uint_eq(suggestions->len, 3);
  double known = INFINITY;
  for (guint i = 0; i < suggestions->len; i++) {
    const Suggestion *next = &g_array_index(suggestions, Suggestion, i);
    ck_assert_double_le(next->spread_after, next->spread_before);
    ck_assert_double_le(next->spread_before, known);
    ck_assert_int_le(next->gpus, 16);
    known = next->spread_after;
  }
}

/* Each key of as_run makes a step take longer, or as long where it does not apply. */
TEST(as_run_acts) {
  static const struct {
    const char *key;
    int over_nodes, inside; /* plans */
    gboolean acts_inside;
  } keys[] = {{"rate: 0.8", 6, 0, TRUE},
              {"memory_rate: 0.5", 6, 0, TRUE},
              {"network_falls: 1", 9, 0, FALSE},
              {"host_time: 10", 6, 1, TRUE},
              {"collective_host: 5 ms", 4, 1, FALSE},
              {"collective_host_beside_sends: 5 ms", 5, 1, FALSE},
              {"step: 1 s", 6, 0, TRUE}};
  g_autoptr(Cluster) base = machine("");
  g_autoptr(MeasuredRows) rows = runs_on(base, ALL, 0, NULL);
  for (guint i = 0; i < G_N_ELEMENTS(keys); i++) {
    g_autofree char *text = g_strdup_printf("as_run: {%s}\n", keys[i].key);
    g_autoptr(Cluster) changed = machine(text);
    for (int is_inside = 0; is_inside <= 1; is_inside++) {
      const MeasuredRow *row = nth_row(rows, is_inside ? keys[i].inside : keys[i].over_nodes);
      StepPrediction step;
      ck_assert(predict_step(NULL, row->model, changed, row->plan, &step, NULL));
      if (is_inside && !keys[i].acts_inside)
        ck_assert_double_eq(step.step_time_s, row->step_time_s);
      else
        ck_assert_msg(step.step_time_s > row->step_time_s, "%s: %g s on %d GPUs, %g without", keys[i].key,
                      step.step_time_s, step.gpus, row->step_time_s);
    }
  }
  g_autoptr(Cluster) full = machine("as_run: {memory: 10 GB}\n");
  ck_assert_double_eq(gpu_room_bytes(&full->gpu), gpu_room_bytes(&base->gpu) - 10e9);
}

TEST(as_run_is_checked) {
  static const struct {
    const char *text, *message;
  } cases[] = {{"as_run: {rat: 1}\n", "did you mean \"rate\""},
               {"as_run: {rate: 0}\n", "mine.yaml:3"},
               {"as_run: {memory: 85 GB}\n", "leaves nothing"},
               {"as_run: {step: 3}\n", "mine.yaml:3"}};
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strconcat("name: mine\nbase: dgx-h100\n", cases[i].text, NULL);
    GError *error = NULL;
    ck_assert_ptr_null(cluster_parse("mine.yaml", text, &error));
    ck_assert_msg(strstr(error->message, cases[i].message) != NULL, "%s", error->message);
    g_error_free(error);
  }
}

int main(void) {
  return run_tests();
}
