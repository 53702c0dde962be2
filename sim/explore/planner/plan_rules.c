/* Each rule has a table of its answers, by the place that the digits of what counts make in mixed radix. An answer is
 * found when it is first asked for; two threads may find the same one, and the first to write it down is believed. */
#include "plan_rules.h"

#include <string.h>

#include "error.h"
#include "plan_schedule.h"

/* IMPOSSIBLE: the configuration is; any other way out: the rule says nothing. The plan is the rule's to complete. */
typedef gboolean (*Holds)(const PlanScreen *screen, const SpacePoint *point, Plan *plan, GError **error);

typedef struct {
  Screened says;
  char *why; /* owned; NULL: not impossible */
  gint n;    /* configurations of which it said so; atomic */
} Answer;

enum { MOST_OTHERS = 16, MOST_ANSWERS = 1 << 22 };

static gboolean has_own_name(const PlanScreen *screen, const SpacePoint *point, Plan *plan, GError **error) {
  return !plan_screen_is_misnamed(screen, point);
}

static gboolean deals_batch(const PlanScreen *screen, const SpacePoint *point, Plan *plan, GError **error) {
  return plan_complete_batch(plan, point->model, point->cluster, error);
}

static gboolean has_layers(const PlanScreen *screen, const SpacePoint *point, Plan *plan, GError **error) {
  if (plan_screen_is_misnamed(screen, point))
    return TRUE;
  g_autoptr(GPtrArray) plans = plan_candidates(plan);
  for (guint i = 0; i < plans->len; i++) {
    Plan *candidate = plans->pdata[i];
    GError **first = i == 0 ? error : NULL; /* the one that plan_screen() would give */
    if (plan_open_schedule(candidate, first) && plan_check_pipeline(candidate, point->model, first)) {
      g_clear_error(error);
      return TRUE;
    }
  }
  return FALSE;
}

static gboolean deals_experts(const PlanScreen *screen, const SpacePoint *point, Plan *plan, GError **error) {
  if (plan->zero_ranks != 0 || !plan_complete_ranks(plan, NULL))
    return TRUE;
  plan->zero_ranks = plan_data_ranks(plan);
  return plan_check_experts(plan, point->model, error);
}

static const struct {
  Holds holds;
  Screened otherwise;
  const char *others[MOST_OTHERS]; /* axes that are none of its business */
} rules_asked[] = {
    {has_own_name,
     SCREENED_SAME,
     {"gpus", "tp", "dp", "cp", "ep", "micro-batch", "zero", "recompute", "sequence-parallel", NULL}},
    {deals_batch,
     SCREENED_IMPOSSIBLE,
     {"ep", "expert-tp", "chunks", "schedule", "pipeline-layout", "zero", "recompute", "sequence-parallel",
      "overlap-p2p", NULL}},
    {has_layers,
     SCREENED_IMPOSSIBLE,
     {"gpus", "tp", "dp", "cp", "ep", "expert-tp", "micro-batch", "zero", "recompute", "sequence-parallel",
      "overlap-p2p", NULL}},
    {deals_experts,
     SCREENED_IMPOSSIBLE,
     {"chunks", "schedule", "pipeline-layout", "micro-batch", "zero", "overlap-p2p", NULL}},
};

enum { N_RULES = G_N_ELEMENTS(rules_asked) };

/* One axis of the space. */
typedef struct {
  gint64 n_values, step;   /* indices from one of its values to the next */
  gint64 strides[N_RULES]; /* in the tables of answers; 0: none of that rule's business */
} RuleAxis;

struct PlanRules {
  const PlanScreen *screen;
  int n_axes;
  RuleAxis *axes;             /* [n_axes], the slowest first */
  gint64 n_answers[N_RULES];  /* 0: too many to be worth it */
  gpointer *answers[N_RULES]; /* of Answer; NULL: not asked yet; atomic */
};

static gboolean counts(int rule, const char *axis) {
  for (const char *const *other = rules_asked[rule].others; *other != NULL; other++)
    if (strcmp(*other, axis) == 0)
      return FALSE;
  return TRUE;
}

PlanRules *plan_rules_new(const PlanScreen *screen) {
  const Space *space = screen->request->space;
  PlanRules *rules = g_new0(PlanRules, 1);
  rules->screen = screen;
  rules->n_axes = space_n_axes(space);
  rules->axes = g_new0(RuleAxis, rules->n_axes);
  for (int rule = 0; rule < N_RULES; rule++)
    rules->n_answers[rule] = 1;
  gint64 step = 1;
  for (int axis = rules->n_axes - 1; axis >= 0; axis--) {
    RuleAxis *own = &rules->axes[axis];
    own->n_values = space_axis_n_values(space, axis);
    own->step = step;
    step *= own->n_values;
    for (int rule = 0; rule < N_RULES; rule++)
      if (counts(rule, space_axis_name(space, axis))) {
        own->strides[rule] = rules->n_answers[rule];
        rules->n_answers[rule] *= own->n_values;
      }
  }
  for (int rule = 0; rule < N_RULES; rule++) {
    const gboolean is_worth_it = rules->n_answers[rule] <= MIN(step / 2, MOST_ANSWERS);
    rules->n_answers[rule] = is_worth_it ? rules->n_answers[rule] : 0;
    rules->answers[rule] = g_new0(gpointer, rules->n_answers[rule] + 1);
  }
  return rules;
}

static void answer_free(Answer *answer) {
  if (answer == NULL)
    return;
  g_free(answer->why);
  g_free(answer);
}

void plan_rules_free(PlanRules *rules) {
  if (rules == NULL)
    return;
  for (int rule = 0; rule < N_RULES; rule++) {
    for (gint64 i = 0; i < rules->n_answers[rule]; i++)
      answer_free(rules->answers[rule][i]);
    g_free(rules->answers[rule]);
  }
  g_free(rules->axes);
  g_free(rules);
}

static Answer *find_answer(const PlanRules *rules, int rule, SpaceReader *reader, gint64 index) {
  Answer *answer = g_new0(Answer, 1);
  g_autoptr(GError) error = NULL;
  SpacePoint point;
  if (!space_reader_read(reader, index, &point, NULL))
    return answer;
  g_autoptr(Plan) plan = plan_copy(point.plan);
  if (rules_asked[rule].holds(rules->screen, &point, plan, &error))
    return answer;
  if (rules_asked[rule].otherwise == SCREENED_IMPOSSIBLE &&
      !g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE))
    return answer;
  answer->says = rules_asked[rule].otherwise;
  answer->why = error != NULL ? g_strdup(error->message) : NULL;
  return answer;
}

/* `place` in its table; `first` is the index that has the first value of each axis that is none of its business. */
static Answer *answer_of(const PlanRules *rules, int rule, gint64 place, SpaceReader *reader, gint64 first) {
  gpointer *known = &rules->answers[rule][place];
  Answer *answer = g_atomic_pointer_get(known);
  if (answer != NULL)
    return answer;
  answer = find_answer(rules, rule, reader, first);
  if (g_atomic_pointer_compare_and_exchange(known, NULL, answer))
    return answer;
  answer_free(answer);
  return g_atomic_pointer_get(known);
}

Screened plan_rules_ask(PlanRules *rules, SpaceReader *reader, gint64 index) {
  gint64 places[N_RULES] = {0}, firsts[N_RULES] = {0};
  gint64 rest = index;
  for (int axis = rules->n_axes - 1; axis >= 0; axis--) {
    const RuleAxis *own = &rules->axes[axis];
    if (own->n_values == 1)
      continue;
    const gint64 digit = rest % own->n_values;
    rest /= own->n_values;
    for (int rule = 0; rule < N_RULES; rule++) {
      places[rule] += digit * own->strides[rule];
      firsts[rule] += own->strides[rule] > 0 ? digit * own->step : 0;
    }
  }
  for (int rule = 0; rule < N_RULES; rule++) {
    if (rules->n_answers[rule] == 0)
      continue;
    Answer *answer = answer_of(rules, rule, places[rule], reader, firsts[rule]);
    if (answer->says == SCREENED_CANDIDATE)
      continue;
    g_atomic_int_inc(&answer->n);
    return answer->says;
  }
  return SCREENED_CANDIDATE;
}

void plan_rules_count(const PlanRules *rules, PlanReasons *reasons) {
  for (int rule = 0; rule < N_RULES; rule++)
    for (gint64 i = 0; i < rules->n_answers[rule]; i++) {
      const Answer *answer = rules->answers[rule][i];
      if (answer != NULL && answer->why != NULL && answer->n > 0)
        plan_reasons_add(reasons, answer->why, answer->n);
    }
}
