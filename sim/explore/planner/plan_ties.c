#include "plan_ties.h"

#include <math.h>
#include <string.h>

#include "plan_family.h"
#include "plan_fields.h"
#include "warnings.h"

/* Half of the interval, on a scale of logarithms. */
static double half_width(const Interval *interval) {
  return log(interval->high_s / interval->low_s) / 2;
}

double plan_tie_width(const PlanOutcome *a, const PlanOutcome *b) {
  if (a->model == b->model && a->cluster == b->cluster &&
      g_strcmp0(a->completed->framework_file, b->completed->framework_file) == 0)
    return MAX(a->interval.ratio, b->interval.ratio);
  return expm1(hypot(half_width(&a->interval), half_width(&b->interval))); /* errors that have nothing in common */
}

static int axes_in_use(const Plan *plan) {
  return (plan->tp > 1) + (plan->pp > 1) + (plan->cp > 1) + (plan->ep > 1);
}

static int special_schedule(const Plan *plan) {
  const char *name = plan->schedule != NULL ? plan->schedule : "1f1b";
  return plan->pp > 1 && strcmp(name, "1f1b") != 0 && strcmp(name, "interleaved") != 0;
}

static int offloaded(const Plan *plan) {
  const Offload *offload = &plan->offload;
  return (offload->optimizer != TIER_GPU) + (offload->weights != TIER_GPU) + (offload->activations != TIER_GPU);
}

enum { N_MEASURES = 11 };

static void measure(const PlanOutcome *outcome, int measures[N_MEASURES]) {
  const Plan *plan = outcome->completed;
  g_autoptr(GPtrArray) warnings = plan_outcome_warnings(outcome);
  const int values[N_MEASURES] = {(int)warnings->len, axes_in_use(plan),
                                  plan->pp,           plan->tp,
                                  plan->cp,           plan->ep,
                                  plan->chunks,       special_schedule(plan),
                                  offloaded(plan),    (int)plan->recompute,
                                  plan->zero};
  memcpy(measures, values, sizeof values);
}

int plan_compare_simplicity(const PlanOutcome *a, const PlanOutcome *b) {
  int x[N_MEASURES], y[N_MEASURES], i = 0;
  measure(a, x);
  measure(b, y);
  while (i < N_MEASURES - 1 && x[i] == y[i])
    i++;
  return (x[i] > y[i]) - (x[i] < y[i]);
}

static gboolean is_of_recompute(const PlanField *field) {
  return g_str_has_prefix(field->name, "recompute");
}

/* Whether `more` is `less` with more recomputation. */
static gboolean recomputes_more(const PlanOutcome *more, const PlanOutcome *less) {
  if (more->model != less->model || more->cluster != less->cluster ||
      more->completed->recompute <= less->completed->recompute)
    return FALSE;
  for (int i = 0; i < plan_n_fields(); i++) {
    const PlanField *field = plan_field(i);
    if (!plan_field_is_axis(field) || is_of_recompute(field))
      continue;
    g_autofree char *x = plan_field_text(field, more->completed), *y = plan_field_text(field, less->completed);
    if (g_strcmp0(x, y) != 0)
      return FALSE;
  }
  return TRUE;
}

static gboolean is_beaten(const PlanOutcome *plan, const GPtrArray *kept, const GArray *tied) {
  gboolean is_beaten = FALSE;
  for (guint i = 0; !is_beaten && i < tied->len; i++)
    is_beaten = recomputes_more(plan, kept->pdata[g_array_index(tied, guint, i)]);
  return is_beaten;
}

static gboolean is_of_one_family(const PlanOutcome *a, const PlanOutcome *b, const char *const *compared) {
  g_autofree char *x = plan_family_key(a->model, a->cluster, a->plan, compared);
  g_autofree char *y = plan_family_key(b->model, b->cluster, b->plan, compared);
  return strcmp(x, y) == 0;
}

static void try_neighbour(PlanTie *tie, const GPtrArray *kept, const PlanOutcome *plan, const char *const *compared) {
  const PlanOutcome *best = kept->pdata[0];
  if (plan->score / best->score - 1 > plan_tie_width(best, plan) || is_beaten(plan, kept, tie->tied) ||
      plan_compare_simplicity(plan, tie->plan) >= 0)
    return;
  for (guint i = 0; i < kept->len; i++)
    if (is_of_one_family(plan, kept->pdata[i], compared)) {
      tie->recommended = i;
      tie->plan = plan;
    }
}

PlanTie plan_tie_of(const GPtrArray *kept, const GPtrArray *neighbours, const char *const *compared) {
  const PlanOutcome *best = kept->pdata[0];
  PlanTie tie = {.tied = g_array_new(FALSE, FALSE, sizeof(guint)), .width = NAN};
  for (guint i = 0; i < kept->len; i++) {
    const PlanOutcome *plan = kept->pdata[i], *simplest = kept->pdata[tie.recommended];
    const double width = plan_tie_width(best, plan);
    const gboolean is_tied = i == 0 || (plan->score / best->score - 1 <= width && !is_beaten(plan, kept, tie.tied));
    if (i > 0 && (is_tied || isnan(tie.width)))
      tie.width = width;
    if (!is_tied)
      continue;
    g_array_append_val(tie.tied, i);
    if (plan_compare_simplicity(plan, simplest) < 0)
      tie.recommended = i;
  }
  tie.plan = kept->pdata[tie.recommended];
  for (guint i = 0; neighbours != NULL && i < neighbours->len; i++)
    try_neighbour(&tie, kept, neighbours->pdata[i], compared);
  return tie;
}

void plan_tie_clear(PlanTie *tie) {
  g_clear_pointer(&tie->tied, g_array_unref);
}
