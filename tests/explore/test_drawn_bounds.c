/* The planner's lower bounds against simulations of plans drawn at random: all models, clusters, frameworks, schedules
 * and nearly all options. No bound is above what it bounds, and many are near.
 *
 * usage: test_drawn_bounds DRAW_PLANS SOURCE EVERY [FIRST]: every so many-th of the drawn plans, from FIRST on. */
#include "memory_bound.h"
#include "plan_bound.h"
#include "plan_cases.h"
#include "plan_said.h"
#include "run_suite.h"

enum { N_DRAWN = 3000 };

static const char *draw_plans, *source;
static int every = 1, first = 1;

/* Takes an option out of a line. Owned by the caller; NULL: it is not there. */
static char *take(char *line, const char *option) {
  char *at = strstr(line, option);
  if (at == NULL)
    return NULL;
  char *value = at + strlen(option), *end = strchr(value, ' ');
  end = end != NULL ? end : value + strlen(value);
  char *taken = g_strndup(value, end - value);
  memmove(at, *end == ' ' ? end + 1 : end, strlen(*end == ' ' ? end + 1 : end) + 1);
  return taken;
}

/* The least of the schedules that auto may come to, as the planner has it. */
static gint64 bound_of(const Model *model, const Cluster *cluster, const Plan *plan) {
  g_autoptr(GPtrArray) candidates = plan_candidates(plan);
  gint64 least_ns = G_MAXINT64;
  for (guint i = 0; i < candidates->len; i++) {
    g_autoptr(Workload) workload = workload_complete(model, cluster, candidates->pdata[i], NULL);
    Cluster placed = *cluster;
    if (workload != NULL && workload->plan->rank_map == NULL)
      cluster_place_job(&placed, workload->plan->gpus, FALSE);
    if (workload != NULL)
      least_ns = MIN(least_ns, plan_bound_step_ns(workload, &placed, FALSE, NULL));
  }
  return least_ns;
}

static void check_memory(const Prediction *prediction, const char *line) {
  g_autoptr(ShortOrder) order = short_order_new();
  MemoryBound bound;
  memory_bound_fits(prediction->workload, prediction->cluster, order, &bound);
  if (!memory_bound_is_within(&bound, prediction->memory->peak_bytes))
    ck_abort_msg("%s\nbound %.0f bytes, peak %.0f bytes", line, bound.least_bytes, prediction->memory->peak_bytes);
}

/* Share of the step that its bound is; 0: the plan is impossible, or nothing is known of it. */
static double check_line(const char *line) {
  g_autofree char *options = g_strdup(line);
  g_autofree char *model_name = take(options, "--model "), *cluster_name = take(options, "--cluster ");
  const Model *model = shipped_model(model_name);
  const Cluster *cluster = shipped_cluster(cluster_name);
  g_autoptr(Plan) plan = plan_said("%s", options);
  g_autoptr(Prediction) prediction = predict_numbers(NULL, model, cluster, plan, NULL);
  if (prediction == NULL)
    return 0;
  const gint64 bound_ns = bound_of(model, cluster, plan);
  if (bound_ns > prediction->metrics->step_ns)
    ck_abort_msg("%s\nbound %g s, step %g s", line, 1e-9 * (double)bound_ns, prediction->step_time_s);
  check_memory(prediction, line);
  return (double)bound_ns / (double)prediction->metrics->step_ns;
}

TEST(no_bound_of_a_drawn_plan_is_above_its_step_or_its_peak) {
  g_autofree char *n = g_strdup_printf("%d", N_DRAWN), *from = g_strdup_printf("%d", first), *out = NULL;
  const char *argv[] = {draw_plans, source, from, n, NULL};
  ck_assert(g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, &out, NULL, NULL, NULL));
  g_auto(GStrv) lines = g_strsplit(out, "\n", -1);
  int n_known = 0, n_near = 0;
  for (guint i = 0; i + 1 < g_strv_length(lines); i += every) {
    const double share = check_line(lines[i]);
    n_known += share > 0;
    n_near += share > 0.8;
  }
  ck_assert_int_gt(n_near, n_known / 3);
}

int main(int argc, char **argv) {
  draw_plans = argv[1];
  source = argv[2];
  every = argc > 3 ? atoi(argv[3]) : 1;
  first = argc > 4 ? atoi(argv[4]) : 1;
  return run_tests();
}
