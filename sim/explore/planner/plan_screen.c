#include "plan_screen.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "pipeline_layout.h"
#include "plan_bound.h"
#include "plan_schedule.h"
#include "plan_shards.h"
#include "plan_space.h"
#include "suggest.h"

/* Whether an axis has a value, however it is spelled; one that is not given has its default. */
static gboolean has_value(const Space *space, const char *name, const char *value, gboolean is_default) {
  const char *const names[] = {value, NULL};
  if (space_given(space, name) == NULL)
    return is_default;
  for (int axis = 0; axis < space_n_axes(space); axis++)
    for (int i = 0; i < space_axis_n_values(space, axis) && strcmp(space_axis_name(space, axis), name) == 0; i++)
      if (suggest_same(space_axis_nth(space, axis, i), names) >= 0)
        return TRUE;
  return FALSE;
}

PlanScreen plan_screen_of(const PlannerRequest *request) {
  const Space *space = request->space;
  return (PlanScreen){.request = request,
                      .has_no_sequence_parallel = has_value(space, "sequence-parallel", "off", TRUE),
                      .has_cut_experts = has_value(space, "expert-tp", "0", TRUE),
                      .has_plain_p2p = has_value(space, "overlap-p2p", "off", FALSE),
                      .has_auto_layout = has_value(space, "pipeline-layout", "auto", TRUE),
                      .has_no_recompute = has_value(space, "recompute", "none", TRUE),
                      .has_full_recompute = has_value(space, "recompute", "full", TRUE),
                      .has_1f1b = has_value(space, "schedule", schedule_default(1), FALSE),
                      .has_two_chunks = has_value(space, "chunks", "2", FALSE),
                      .has_interleaved = has_value(space, "schedule", schedule_default(2), FALSE),
                      .has_no_zero = has_value(space, "zero", "0", TRUE)};
}

/* The framework asked for can run it. */
static gboolean check_framework(const PlanScreen *screen, const Workload *workload, GError **error) {
  const LaunchFramework framework = (LaunchFramework)screen->request->framework;
  return launch_check(framework, workload, error) &&
         (screen->request->zero_is_given || launch_check_tried(framework, workload, error));
}

/* The layout asked for deals layers out as auto does. */
static gboolean is_auto_layout(const Workload *workload) {
  const int n_stages = workload->n_stages / workload->placement->n_pipes;
  const PipelineCounts counts = {(int)workload->model->n_layers, workload->plan->mtp_layers, n_stages};
  g_autofree int *layers = g_new(int, (gsize)n_stages);
  gboolean is_same = workload->plan->pipeline_layout != NULL && pipeline_layout_deal(NULL, &counts, layers, NULL);
  for (int stage = 0; stage < n_stages && is_same; stage++)
    is_same = workload->stages[stage].layers.n_layers == layers[stage];
  return is_same;
}

/* As many as a stage has, dealt out evenly: all. */
static gboolean recomputes_all_by_block(const Plan *plan, const Model *model) {
  const gint64 n_stages = (gint64)plan->pp * plan->chunks / plan->n_pipes;
  return plan->recompute == RECOMPUTE_BLOCK && plan->recompute_layers * n_stages >= model->n_layers &&
         plan->mtp_layers == 0 && plan->pipeline_layout == NULL && model->n_layers % n_stages == 0;
}

/* Of a complete plan. */
static gboolean is_same(const PlanScreen *screen, const Plan *plan, const Model *model) {
  return (screen->has_no_sequence_parallel && plan->sequence_parallel && plan->tp == 1) ||
         (screen->has_no_zero && zero_shards_optimizer(plan->zero) && plan_data_ranks(plan) == 1 &&
          !offload_is_any(&plan->offload)) ||
         (screen->has_no_recompute && plan->recompute == RECOMPUTE_SELECTIVE && plan_recomputes_nothing(plan)) ||
         (screen->has_full_recompute && recomputes_all_by_block(plan, model)) ||
         (screen->has_cut_experts && plan->expert_tp > 0 && plan->expert_tp == plan->tp) ||
         (screen->has_1f1b && plan->chunks == 1 && schedule_is_default(plan->schedule) &&
          plan_schedule(plan)->most_chunks > 1);
}

/* Configurations that duplicate another one under a different name, and are impossible under this name or not worth
 * building a workload for: 1f1b with chunks is interleaved; a V schedule with other than two chunks is the one with
 * two; whole experts in a model without experts; a balanced layout, or overlapped sends, with one pipeline rank. */
static gboolean is_misnamed(const PlanScreen *screen, const SpacePoint *point) {
  const Plan *plan = point->plan;
  return (screen->has_interleaved && plan->chunks > 1 && schedule_is_default(plan->schedule) &&
          plan_schedule(plan)->most_chunks == 1) ||
         (screen->has_two_chunks && plan->chunks != 2 && plan->schedule != NULL &&
          plan_space_only_chunks(plan->schedule) == 2) ||
         (screen->has_cut_experts && plan->expert_tp > 0 && !model_has_experts(point->model)) ||
         (screen->has_auto_layout && plan->pp == 1 && pipeline_layout_is_balanced(plan->pipeline_layout)) ||
         (screen->has_plain_p2p && plan->pp == 1 && plan->overlap_p2p > 0);
}

static gboolean seeks_shards(const PlanScreen *screen, const Plan *plan) {
  return screen->request->seeks_shards && zero_shards_weights(plan->zero);
}

static gint64 bound_step_ns(const Workload *workload, const Cluster *cluster, gboolean of_any_shards,
                            const PlanScreener *screener) {
  Cluster placed = *cluster; /* shares all with it */
  cluster_place_job(&placed, workload->plan->gpus, workload->plan->rank_map != NULL);
  return plan_bound_step_ns(workload, &placed, of_any_shards, screener->costs);
}

static double bound_score(const PlanScreen *screen, const Workload *workload, const Cluster *cluster, gint64 bound_ns) {
  return plan_score(&screen->request->scoring, workload, cluster, bound_ns,
                    goodput_most_share(workload->model, cluster, workload->plan));
}

static Screened screen_workload(const PlanScreen *screen, Workload *workload, const PlanScreener *screener,
                                const SpacePoint *point, double *number) {
  const Cluster *cluster = point->cluster;
  MemoryBound memory;
  if (screen->has_auto_layout && is_auto_layout(workload))
    return SCREENED_SAME;
  if (!memory_bound_fits(workload, cluster, screener->order, &memory)) {
    *number = memory.least_bytes - memory.room_bytes;
    return SCREENED_TOO_LARGE;
  }
  workload_add_lists(workload);
  const gint64 bound_ns = bound_step_ns(workload, cluster, seeks_shards(screen, workload->plan), screener);
  *number = plan_tokens_per_s(workload, bound_ns);
  if (*number < screen->request->least_tokens_per_s)
    return SCREENED_LATE;
  *number = bound_score(screen, workload, cluster, bound_ns);
  return SCREENED_CANDIDATE;
}

/* What a framework cannot run is not the same as what it can. */
static Screened screen_plan(const PlanScreen *screen, const SpacePoint *point, const Plan *asked,
                            const PlanScreener *screener, double *number, GError **error) {
  g_autoptr(Method) method = method_complete(point->model, point->cluster, asked, error);
  if (method == NULL)
    return SCREENED_IMPOSSIBLE;
  const gboolean is_same_plan = is_same(screen, method->plan, point->model),
                 is_any = screen->request->framework == PLANNER_ANY_FRAMEWORK;
  if (is_same_plan && is_any)
    return SCREENED_SAME; /* and needs no workload */
  g_autoptr(Workload) workload = workload_outline_of_method(point->model, g_steal_pointer(&method));
  if (!is_any && !check_framework(screen, workload, error))
    return SCREENED_IMPOSSIBLE;
  return is_same_plan ? SCREENED_SAME : screen_workload(screen, workload, screener, point, number);
}

/* Of two of auto's candidates. Throughput is the only number of which more is better. */
static gboolean is_nearer(Screened screened, double number, Screened nearest, double least) {
  static const int ranks[] = {[SCREENED_IMPOSSIBLE] = 0,
                              [SCREENED_SAME] = 1,
                              [SCREENED_TOO_LARGE] = 2,
                              [SCREENED_LATE] = 3,
                              [SCREENED_CANDIDATE] = 4};
  if (screened != nearest)
    return ranks[screened] > ranks[nearest];
  return screened == SCREENED_LATE ? number > least : number < least;
}

/* No framework makes auto's order, nor would it know which schedule that stands for: there auto is what it is called,
 * the first of its candidates. */
static Screened screen_candidates(const PlanScreen *screen, const SpacePoint *point, const PlanScreener *screener,
                                  double *number, GError **error) {
  g_autoptr(GPtrArray) plans = plan_candidates(point->plan);
  g_autoptr(GError) reason = NULL;
  Screened nearest = screen_plan(screen, point, plans->pdata[0], screener, number, &reason);
  const guint n = screen->request->framework == PLANNER_ANY_FRAMEWORK ? plans->len : 1;
  for (guint i = 1; i < n; i++) {
    double other = 0;
    const Screened screened = screen_plan(screen, point, plans->pdata[i], screener, &other, NULL);
    if (!is_nearer(screened, other, nearest, *number))
      continue;
    nearest = screened;
    *number = other;
  }
  if (nearest == SCREENED_IMPOSSIBLE)
    g_propagate_error(error, g_steal_pointer(&reason));
  return nearest;
}

Screened plan_screen(const PlanScreen *screen, const PlanScreener *screener, gint64 index, double *number,
                     GError **error) {
  SpacePoint point;
  if (!space_reader_read(screener->reader, index, &point, error))
    return SCREENED_IMPOSSIBLE;
  if (is_misnamed(screen, &point))
    return SCREENED_SAME;
  return screen_candidates(screen, &point, screener, number, error);
}

/* Of one of auto's candidates, or of the plan itself, with shards over so many ranks: all if 0. INFINITY: it is
 * impossible or does not fit. */
static double score_with_shards(const PlanScreen *screen, const SpacePoint *point, const Plan *asked, int zero_ranks,
                                const PlanScreener *screener) {
  g_autoptr(Plan) plan = plan_copy(asked);
  plan->zero_ranks = zero_ranks > 0 ? zero_ranks : plan->zero_ranks;
  g_autoptr(Workload) workload = workload_complete(point->model, point->cluster, plan, NULL);
  MemoryBound memory;
  if (workload == NULL || !memory_bound_fits(workload, point->cluster, screener->order, &memory))
    return INFINITY;
  return bound_score(screen, workload, point->cluster, bound_step_ns(workload, point->cluster, FALSE, screener));
}

/* The least of those over all ranks and over fewer. */
static double least_of_shards(const PlanScreen *screen, const SpacePoint *point, const Plan *asked,
                              const PlanScreener *screener) {
  g_autoptr(Method) method = method_complete(point->model, point->cluster, asked, NULL);
  if (method == NULL)
    return INFINITY;
  g_autoptr(GArray) narrower = plan_shards_narrower(method->plan, point->cluster);
  double least = score_with_shards(screen, point, asked, 0, screener);
  for (guint i = 0; i < narrower->len; i++)
    least = MIN(least, score_with_shards(screen, point, asked, g_array_index(narrower, int, i), screener));
  return least;
}

double plan_screen_tighter(const PlanScreen *screen, const PlanScreener *screener, gint64 index, double number) {
  SpacePoint point;
  if (!screen->request->seeks_shards || !space_reader_read(screener->reader, index, &point, NULL) ||
      !zero_shards_weights(point.plan->zero))
    return number;
  g_autoptr(GPtrArray) plans = plan_candidates(point.plan);
  double least = INFINITY;
  for (guint i = 0; i < plans->len; i++)
    least = MIN(least, least_of_shards(screen, &point, plans->pdata[i], screener));
  return MAX(least, number);
}

/* --- rules --- */

/* Each rule has a table of its answers, by the place that the digits of what counts make in mixed radix. An answer is
 * found when it is first asked for; two threads may find the same one, and the first to write it down is believed. */

/* IMPOSSIBLE: the configuration is; any other way out: the rule says nothing. The plan is the rule's to complete. */
typedef gboolean (*Holds)(const PlanScreen *screen, const SpacePoint *point, Plan *plan, GError **error);

typedef struct {
  Screened says;
  char *why; /* owned; NULL: not impossible */
  gint n;    /* configurations of which it said so; atomic */
} Answer;

enum { MOST_OTHERS = 16, MOST_ANSWERS = 1 << 22 };

static gboolean has_own_name(const PlanScreen *screen, const SpacePoint *point, Plan *plan, GError **error) {
  return !is_misnamed(screen, point);
}

static gboolean deals_batch(const PlanScreen *screen, const SpacePoint *point, Plan *plan, GError **error) {
  return plan_complete_batch(plan, point->model, point->cluster, error);
}

static gboolean has_layers(const PlanScreen *screen, const SpacePoint *point, Plan *plan, GError **error) {
  if (is_misnamed(screen, point))
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
     {"gpus", "tp", "dp", "cp", "ep", "micro-batch", "zero", "recompute", "recompute-num-layers", "sequence-parallel",
      NULL}},
    {deals_batch,
     SCREENED_IMPOSSIBLE,
     {"ep", "expert-tp", "chunks", "schedule", "pipeline-layout", "zero", "recompute", "recompute-num-layers",
      "sequence-parallel", "overlap-p2p", NULL}},
    {has_layers,
     SCREENED_IMPOSSIBLE,
     {"gpus", "tp", "dp", "cp", "ep", "expert-tp", "micro-batch", "zero", "recompute", "recompute-num-layers",
      "sequence-parallel", "overlap-p2p", NULL}},
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

void plan_rules_count(const PlanRules *rules, GHashTable *reasons) {
  for (int rule = 0; rule < N_RULES; rule++)
    for (gint64 i = 0; i < rules->n_answers[rule]; i++) {
      const Answer *answer = rules->answers[rule][i];
      if (answer != NULL && answer->why != NULL && answer->n > 0)
        reasons_add(reasons, answer->why, answer->n);
    }
}
