/* How many times as long a cost must take is looked for between two numbers with the measured step between theirs, by
 * the secant through their ends; an end that stays twice weighs half from then on (the Illinois rule), so that a step
 * which only begins to grow late, as hidden communication makes it, is found as well. Only numbers as printed, of four
 * digits, are tried: what is printed is what was predicted. Where the step jumps from one to the next, as rows of
 * experts that begin another wave of tiles make it, the nearer one is taken. */
#include "measured_gap.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "error.h"
#include "json_values.h"
#include "options.h"
#include "parallel.h"
#include "plan_fields.h"
#include "units.h"
#include "vary.h"
#include "what_if.h"

static const double least_change = 0.0005; /* of the step: what counts as none, and how near a search comes */
enum { MOST_TRIES = 40 };

enum {
  ALL_KERNELS = 1u << WHAT_IF_AT_PEAK | 1u << WHAT_IF_FUSED | 1u << WHAT_IF_FREE_OPTIMIZER,
  FULLEST_EXPERTS = 1u << N_WHAT_IFS, /* rows of the ep rank that has most */
  ONE_RANK = 0,                       /* that computes longest */
};

/* --- costs --- */

typedef struct {
  const Prediction *prediction, *apart; /* apart: the same with its ranks apart; NULL: too many */
  const Plan *plan;
  double predicted_s, measured_s;
  int busiest; /* rank of `apart` */
  GArray *costs, *options;
} Search;

/* The plan as it was predicted, of which options may be set otherwise. */
static Plan *predicted_plan(const Search *search) {
  const Plan *complete = search->prediction->workload->plan;
  Plan *plan = plan_copy(search->plan);
  plan->gpus = complete->gpus;
  plan->global_batch = complete->global_batch;
  plan->chunks = complete->chunks;
  plan_default_schedule(plan);
  return plan;
}

static double step_of_experts(const Search *search, double times) {
  g_autoptr(Plan) plan = predicted_plan(search);
  plan->expert_load = times;
  g_autoptr(Prediction) other =
      predict_numbers(NULL, search->prediction->workload->model, search->prediction->cluster, plan, NULL);
  return other != NULL ? other->step_time_s : search->predicted_s;
}

static double step_with(const Search *search, guint of, double times) {
  if (of == FULLEST_EXPERTS)
    return step_of_experts(search, times);
  g_autoptr(Metrics) metrics = of == ONE_RANK ? what_if_slow_rank(search->apart, search->busiest, times)
                                              : what_if_times(search->prediction, of, times);
  return 1e-9 * (double)metrics->step_ns;
}

typedef struct {
  double times, miss_s; /* step less the measured one */
} Try;

static Try try_times(const Search *search, guint of, double times) {
  return (Try){times, step_with(search, of, times) - search->measured_s};
}

static double as_printed(double times) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  return g_ascii_strtod(g_ascii_formatd(text, sizeof text, "%.4g", times), NULL);
}

static gboolean is_strictly_between(double times, const Try *a, const Try *b) {
  return times > MIN(a->times, b->times) && times < MAX(a->times, b->times);
}

static Try nearer(Try a, Try b) {
  return fabs(a.miss_s) <= fabs(b.miss_s) ? a : b;
}

/* Between two tries on both sides of the measured step. */
static GapCost search_between(const Search *search, guint of, Try low, Try high) {
  Try best = low.times == 1 ? high : nearer(low, high); /* 1 explains nothing */
  int stayed = 0;
  for (int i = 0; i < MOST_TRIES && fabs(best.miss_s) >= least_change * search->measured_s; i++) {
    const double share = low.miss_s / (low.miss_s - high.miss_s);
    double times = as_printed(low.times + (high.times - low.times) * share);
    if (!is_strictly_between(times, &low, &high))
      times = as_printed((low.times + high.times) / 2);
    if (!is_strictly_between(times, &low, &high))
      break;
    const Try at = try_times(search, of, times);
    best = nearer(at, best);
    const gboolean is_low = (at.miss_s < 0) == (low.miss_s < 0);
    if (is_low) {
      high.miss_s /= stayed > 0 ? 2 : 1;
      low = at;
    } else {
      low.miss_s /= stayed < 0 ? 2 : 1;
      high = at;
    }
    stayed = is_low ? MAX(stayed, 0) + 1 : MIN(stayed, 0) - 1;
  }
  return (GapCost){.of = of, .times = best.times, .step_time_s = best.miss_s + search->measured_s};
}

/* One rank of ep has at most all rows. */
static double most_times(const Search *search, guint of) {
  return of == FULLEST_EXPERTS ? MIN(search->plan->ep, GAP_MOST_TIMES) : GAP_MOST_TIMES;
}

/* Away, or twice as long and twice that, until the step is past the measured one. */
static GapCost search_cost(const Search *search, guint of) {
  const gboolean is_longer = search->measured_s > search->predicted_s;
  const double last = is_longer ? most_times(search, of) : 0;
  Try before = {1, search->predicted_s - search->measured_s};
  while (before.times != last) {
    const Try after = try_times(search, of, is_longer ? MIN(2 * before.times, last) : last);
    if ((after.miss_s < 0) != (before.miss_s < 0))
      return search_between(search, of, before, after);
    before = after;
  }
  return (GapCost){.of = of, .times = NAN, .tried = last, .step_time_s = before.miss_s + search->measured_s};
}

static void visit_cost(gint64 index, int thread, gpointer data) {
  Search *search = data;
  GapCost *cost = &g_array_index(search->costs, GapCost, index);
  *cost = search_cost(search, cost->of);
  cost->rank = search->busiest;
}

static double distance(const GapCost *cost) {
  return isnan(cost->times) ? INFINITY : fabs(log(cost->times));
}

static int by_distance(gconstpointer a, gconstpointer b, gpointer data) {
  const GapCost *x = a, *y = b;
  if (distance(x) != distance(y))
    return distance(x) < distance(y) ? -1 : 1;
  const double measured_s = *(const double *)data;
  const double miss_of_x = fabs(x->step_time_s - measured_s), miss_of_y = fabs(y->step_time_s - measured_s);
  if (isnan(x->times) && miss_of_x != miss_of_y)
    return miss_of_x < miss_of_y ? -1 : 1;
  return (x->of > y->of) - (x->of < y->of);
}

const char *gap_cost_name(const GapCost *cost) {
  if (cost->of == ONE_RANK)
    return "kernels of one GPU";
  if (cost->of == FULLEST_EXPERTS)
    return "rows of the fullest expert rank";
  return cost->of == ALL_KERNELS ? "kernels of all GPUs" : what_if_cost_name((WhatIf)g_bit_nth_lsf(cost->of, -1));
}

char *gap_cost_option(const GapCost *cost) {
  if (cost->of == ONE_RANK)
    return g_strdup_printf("--slow-rank %d=%.4g", cost->rank, cost->times);
  return cost->of == FULLEST_EXPERTS ? g_strdup_printf("--expert-load %.4g", cost->times) : NULL;
}

static void add_cost(Search *search, guint of) {
  const GapCost cost = {.of = of};
  g_array_append_val(search->costs, cost);
}

/* Of those that change nothing, the last step tried is the predicted one. */
static void search_costs(Search *search, int n_threads) {
  add_cost(search, ALL_KERNELS);
  if (search->apart != NULL)
    add_cost(search, ONE_RANK);
  if (search->plan->ep > 1 && search->plan->expert_load == 1 && search->measured_s > search->predicted_s)
    add_cost(search, FULLEST_EXPERTS);
  for (int what = 0; what < N_WHAT_IFS; what++)
    add_cost(search, 1u << what);
  parallel_for(search->costs->len, n_threads, visit_cost, search, NULL);
  for (guint i = search->costs->len; i-- > 0;) {
    const GapCost *cost = &g_array_index(search->costs, GapCost, i);
    if (isnan(cost->times) && fabs(cost->step_time_s / search->predicted_s - 1) < least_change)
      g_array_remove_index(search->costs, i);
  }
  g_array_sort_with_data(search->costs, by_distance, &search->measured_s);
}

/* --- options --- */

static gboolean recomputes_none(const Plan *plan) {
  return plan->recompute == RECOMPUTE_NONE;
}

static gboolean has_chunks(const Plan *plan) {
  return plan->pp > 1 && plan->chunks > 1 && schedule_is_default(plan->schedule) && plan->pipeline_layout == NULL;
}

static gboolean is_narrow(const Plan *plan) {
  return plan->precision > PRECISION_FP32;
}

/* An option, set to the first of these values that it does not have. */
static const struct {
  const char *option, *values[2];
  gboolean (*applies)(const Plan *plan); /* as it was predicted; NULL: always */
} turns[] = {
    {"--attention", {"flash", "unfused"}},
    {"--layer-kernels", {"plain", "fused"}},
    {"--norm-kernel", {"plain", "fused"}},
    {"--loss", {"fused", "plain"}},
    {"--recompute", {"full"}, recomputes_none},
    {"--recompute", {"selective"}},
    {"--recompute", {"none"}},
    {"--cuda-graphs", {"none", "full"}},
    {"--expert-dispatch", {"deepep", "all_to_all"}},
    {"--sequence-parallel", {"on", "off"}},
    {"--overlap-grad", {"on", "off"}},
    {"--overlap-param", {"on", "off"}},
    {"--overlap-p2p", {"on", "off"}},
    {"--chunks", {"1"}, has_chunks},
    {"--precision", {"bf16"}, is_narrow},
};

/* NULL: the option has no other value. */
static Plan *turned(const Search *search, gsize turn, const char **value) {
  const Plan *complete = search->prediction->workload->plan;
  const PlanField *field = plan_field(plan_field_find(turns[turn].option + strlen("--")));
  g_autofree char *now = plan_field_text(field, complete);
  *value = turns[turn].values[g_strcmp0(now, turns[turn].values[0]) == 0];
  if (*value == NULL || !vary_is_felt(complete, search->prediction->workload->model, field->name) ||
      (turns[turn].applies != NULL && !turns[turn].applies(complete)))
    return NULL;
  g_autoptr(Plan) plan = predicted_plan(search);
  Plan *varied = vary(plan, field->name, *value);
  if (g_str_equal(turns[turn].option, "--recompute"))
    varied->recompute_modules = 0, varied->recompute_layers = 0;
  if (g_str_equal(turns[turn].option, "--chunks"))
    g_clear_pointer(&varied->schedule, g_free); /* which follows */
  return varied;
}

/* A run that does not fit was not measured. */
static void search_options(Search *search, int n_threads) {
  const Prediction *prediction = search->prediction;
  g_autoptr(GArray) variants = variants_new();
  for (gsize i = 0; i < G_N_ELEMENTS(turns); i++) {
    const char *value;
    Plan *plan = turned(search, i, &value);
    if (plan == NULL)
      continue;
    Variant *variant = variants_add(variants, prediction->workload->model, prediction->cluster, plan);
    variant->option = turns[i].option;
    variant->to = g_strdup(value);
    plan_options_check_model(plan, variant->model, &variant->problem);
  }
  variants_predict(variants, &(VaryHow){.n_threads = n_threads}, NULL);
  const double gap_s = search->measured_s - search->predicted_s;
  for (guint i = 0; i < variants->len; i++) {
    const Variant *variant = variants_get(variants, i);
    const PlanOutcome *other = variant->outcome;
    if (other == NULL || (prediction->fits && !other->fits))
      continue;
    const double change_s = other->step_time_s - search->predicted_s;
    const GapOption option = {variant->option, g_intern_string(variant->to), other->step_time_s};
    if (change_s * gap_s > 0 && fabs(change_s) >= least_change * search->predicted_s)
      g_array_append_val(search->options, option);
  }
}

static int by_nearness(gconstpointer a, gconstpointer b, gpointer data) {
  const GapOption *x = a, *y = b;
  const double measured_s = *(const double *)data;
  const double of_x = fabs(x->step_time_s - measured_s), of_y = fabs(y->step_time_s - measured_s);
  return of_x != of_y ? (of_x < of_y ? -1 : 1) : strcmp(x->option, y->option);
}

/* --- both --- */

/* NULL: too many, or a rank is slow already. */
static Prediction *ranks_apart(const Prediction *prediction, const Plan *plan) {
  const Plan *complete = prediction->workload->plan;
  if (complete->gpus > GAP_MOST_RANKS || complete->gpus == 1 || complete->slow_ranks->len > 0)
    return NULL;
  g_autoptr(Plan) apart = plan_copy(plan);
  apart->fold = FALSE;
  return predict(prediction->workload->model, prediction->cluster, apart, NULL);
}

/* A slow rank of another stage would be waited for less. */
static int busiest_rank(const Prediction *apart) {
  int busiest = 0;
  for (int rank = 1; apart != NULL && rank < apart->metrics->n_ranks; rank++) {
    const gint64 *ns = apart->metrics->ranks[rank].ns, *most = apart->metrics->ranks[busiest].ns;
    if (ns[BREAKDOWN_COMPUTE] + ns[BREAKDOWN_RECOMPUTE] > most[BREAKDOWN_COMPUTE] + most[BREAKDOWN_RECOMPUTE])
      busiest = rank;
  }
  return busiest;
}

MeasuredGap *measured_gap_new(const Prediction *prediction, const Plan *plan, double measured_s, int n_threads) {
  g_assert(measured_s > 0);
  g_autoptr(Prediction) apart = ranks_apart(prediction, plan);
  MeasuredGap *gap = g_new0(MeasuredGap, 1);
  gap->predicted_s = prediction->step_time_s;
  gap->interval = prediction->interval;
  gap->measured_s = measured_s;
  gap->has_framework = plan->framework != NULL;
  gap->options = g_array_new(FALSE, TRUE, sizeof(GapOption));
  gap->costs = g_array_new(FALSE, TRUE, sizeof(GapCost));
  Search search = {.prediction = prediction,
                   .apart = apart,
                   .busiest = busiest_rank(apart),
                   .plan = plan,
                   .predicted_s = gap->predicted_s,
                   .measured_s = measured_s,
                   .costs = gap->costs,
                   .options = gap->options};
  if (fabs(measured_s / gap->predicted_s - 1) < least_change)
    return gap;
  search_options(&search, n_threads);
  g_array_sort_with_data(gap->options, by_nearness, &gap->measured_s);
  search_costs(&search, n_threads);
  return gap;
}

void measured_gap_free(MeasuredGap *gap) {
  if (gap == NULL)
    return;
  g_array_unref(gap->options);
  g_array_unref(gap->costs);
  g_free(gap->origin);
  g_free(gap);
}

/* --- report --- */

/* {options in a table, costs in a table} for people and for scripts. */

/* Of the difference that an option makes up. */
static double share(const MeasuredGap *gap, const GapOption *option) {
  return (option->step_time_s - gap->predicted_s) / (gap->measured_s - gap->predicted_s);
}

static void append_options(GString *out, const MeasuredGap *gap) {
  if (gap->options->len == 0)
    return;
  g_string_append(out, "\n  If an option of the run differs: step, change, share of the difference, closest first\n");
  for (guint i = 0; i < gap->options->len; i++) {
    const GapOption *option = &g_array_index(gap->options, GapOption, i);
    g_autofree char *name = g_strdup_printf("%s %s", option->option, option->value);
    g_autofree char *time = units_format(option->step_time_s, UNIT_SECONDS);
    g_string_append_printf(out, "    %-32s %10s %+7.2f %% %7.0f %%\n", name, time,
                           units_percent(option->step_time_s / gap->predicted_s - 1), 100 * share(gap, option));
  }
}

static void append_cost(GString *out, const MeasuredGap *gap, const GapCost *cost) {
  g_autofree char *time = units_format(cost->step_time_s, UNIT_SECONDS);
  g_string_append_printf(out, "    %-32s ", gap_cost_name(cost));
  g_autofree char *option = gap_cost_option(cost);
  const char *as = cost->of == FULLEST_EXPERTS ? "many" : "long"; /* rows: there are more of them, each no slower */
  if (!isnan(cost->times)) {
    g_string_append_printf(out, "%10.4g × as %s", cost->times, as);
    if (option != NULL)
      g_string_append_printf(out, " (%s)", option);
    if (fabs(cost->step_time_s - gap->measured_s) >= least_change * gap->measured_s) /* it jumps past that */
      g_string_append_printf(out, " makes it %s, the nearest found", time);
  } else if (cost->tried > 0) {
    g_string_append_printf(out, "%10s %.3g × as %s makes it only %s", "not enough:", cost->tried, as, time);
  } else {
    g_string_append_printf(out, "%10s %s the step is still %s",
                           "not enough:", (cost->of & 1u << WHAT_IF_AT_PEAK) != 0 ? "at the peak" : "taken away", time);
  }
  g_string_append_c(out, '\n');
}

static gboolean is_inside(const MeasuredGap *gap) {
  return gap->measured_s >= gap->interval.low_s && gap->measured_s <= gap->interval.high_s;
}

void measured_gap_text(GString *out, const MeasuredGap *gap) {
  const double change = gap->measured_s / gap->predicted_s - 1;
  g_autofree char *measured = units_format(gap->measured_s, UNIT_SECONDS);
  g_autofree char *difference = units_format(fabs(gap->measured_s - gap->predicted_s), UNIT_SECONDS);
  g_string_append_printf(out, "\nMeasured %s", measured);
  if (gap->origin != NULL)
    g_string_append_printf(out, " (%s)", gap->origin);
  g_string_append(out, ": ");
  if (gap->costs->len == 0) {
    g_string_append(out, "as predicted\n");
    return;
  }
  g_string_append_printf(out, "%s %s than predicted, %+.2f %%, as %s\n", difference, change > 0 ? "longer" : "shorter",
                         units_percent(change),
                         is_inside(gap) ? "four of five cases may be" : "fewer than one of five cases is");
  if (!gap->has_framework)
    g_string_append(out, "  No --framework is given, so the prediction has no framework overheads. Give it first.\n");
  append_options(out, gap);
  g_string_append_printf(out, "\n  If none does: what alone makes the step %s, smallest factor first\n", measured);
  for (guint i = 0; i < gap->costs->len; i++)
    append_cost(out, gap, &g_array_index(gap->costs, GapCost, i));
}

void measured_gap_json(JsonBuilder *builder, const MeasuredGap *gap) {
  json_begin_object(builder, "measured");
  json_add_number(builder, "step_time_s", gap->measured_s);
  json_add_number(builder, "difference_s", gap->measured_s - gap->predicted_s);
  json_add_flag(builder, "inside_interval", is_inside(gap));
  json_begin_list(builder, "options");
  for (guint i = 0; i < gap->options->len; i++) {
    const GapOption *option = &g_array_index(gap->options, GapOption, i);
    json_begin_object(builder, NULL);
    json_add_text(builder, "option", option->option);
    json_add_text(builder, "value", option->value);
    json_add_number(builder, "step_time_s", option->step_time_s);
    json_add_number(builder, "share", share(gap, option));
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
  json_begin_list(builder, "costs");
  for (guint i = 0; i < gap->costs->len; i++) {
    const GapCost *cost = &g_array_index(gap->costs, GapCost, i);
    json_begin_object(builder, NULL);
    json_add_text(builder, "cost", gap_cost_name(cost));
    json_add_number(builder, "times", cost->times);
    json_add_number(builder, "step_time_s", cost->step_time_s);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
  if (gap->kinds != NULL)
    profile_compare_add(builder, gap->kinds);
  json_builder_end_object(builder);
}

/* --- what was measured --- */

/* A step of the same work takes longer by as much as its rate is less: time = predicted time × predicted rate / rate.
 */

typedef struct {
  MeasuredKind kind;
  const char *ending;  /* of the text */
  gsize predicted;     /* where a StepReport has it */
  double in_predicted; /* one of ours in units of that */
} Form;

/* As Megatron-LM ("TFLOP/s/GPU"), DeepSpeed ("TFLOPS"), torchtitan ("tokens/s") and others print them. The first whose
 * ending fits is taken: the time, which any text ends with, is last. */
static const Form forms[] = {
    {MEASURED_MFU, "%", offsetof(StepReport, mfu), 1},
    {MEASURED_TOKENS_PER_GPU, "tokens/s/GPU", offsetof(StepReport, tokens_per_s_per_gpu), 1},
    {MEASURED_TOKENS, "tokens/s", offsetof(StepReport, tokens_per_s), 1},
    {MEASURED_FLOPS, "FLOP/s/GPU", offsetof(StepReport, tflops_per_gpu), 1e-12},
    {MEASURED_FLOPS, "FLOP/s", offsetof(StepReport, tflops_per_gpu), 1e-12},
    {MEASURED_FLOPS, "FLOPS", offsetof(StepReport, tflops_per_gpu), 1e-12},
    {MEASURED_FLOPS, "FLOPs", offsetof(StepReport, tflops_per_gpu), 1e-12},
    {MEASURED_TIME, "", offsetof(StepReport, step_time_s), 1},
};

static const Form *form_of_text(const char *text) {
  const Form *form = forms;
  while (!g_str_has_suffix(text, form->ending))
    form++;
  return form;
}

/* A count of "38%", which is `text` without its unit. */
static gboolean parse_number(const char *text, const char *number, double *value, GError **error) {
  return units_parse_count(number, value, NULL) ||
         fail_input(error, "found \"%.80s\", expected a number above 0 ahead of the unit", text);
}

static gboolean parse_share(const char *text, const char *number, double *share, GError **error) {
  double percent;
  if (!parse_number(text, number, &percent, error))
    return FALSE;
  *share = percent / 100;
  return percent <= 100 || fail_input(error, "found \"%.80s\", expected an MFU of at most 100 %%", text);
}

/* Whatever the ending is, the unit is FLOP/s of a GPU, with its prefix. */
static gboolean parse_rate(const char *text, const char *number, double *rate, GError **error) {
  g_autofree char *plain = g_strconcat(number, "FLOP/s", NULL);
  return (units_parse(plain, UNIT_FLOPS_PER_SECOND, rate, NULL) && *rate > 0) ||
         fail_input(error, "found \"%.80s\", expected a rate above 0", text);
}

static gboolean parse_value(const char *text, const Form *form, double *value, GError **error) {
  g_autofree char *number = g_strndup(text, strlen(text) - strlen(form->ending));
  switch (form->kind) {
  case MEASURED_TIME:
    return units_parse(text, UNIT_SECONDS, value, error) &&
           (*value > 0 || fail_input(error, "found \"%.80s\", expected a time above 0", text));
  case MEASURED_MFU:
    return parse_share(text, number, value, error);
  case MEASURED_FLOPS:
    return parse_rate(text, number, value, error);
  default:
    return parse_number(text, number, value, error);
  }
}

gboolean measured_step_parse(const char *text, MeasuredStep *measured, GError **error) {
  const Form *form = form_of_text(text);
  g_autoptr(GError) problem = NULL;
  measured->kind = form->kind;
  return parse_value(text, form, &measured->value, &problem) ||
         fail_input(error,
                    "%s; a step is given by its time (21s), its MFU (38%%), a GPU's model FLOPs (\"375 TFLOP/s\") or "
                    "tokens (\"961 tokens/s/GPU\", or of all \"61.5k tokens/s\")",
                    problem->message);
}

double measured_step_time_s(const MeasuredStep *measured, const StepReport *predicted) {
  if (measured->kind == MEASURED_TIME)
    return measured->value;
  const Form *form = forms;
  while (form->kind != measured->kind)
    form++;
  const double rate = G_STRUCT_MEMBER(double, predicted, form->predicted);
  return predicted->step_time_s * rate / (measured->value * form->in_predicted);
}

char *measured_step_origin(const MeasuredStep *measured, const StepReport *predicted) {
  if (measured->kind == MEASURED_TIME)
    return NULL;
  if (measured->kind == MEASURED_TOKENS || measured->kind == MEASURED_TOKENS_PER_GPU)
    return g_strdup_printf("%g tokens/s%s", measured->value, measured->kind == MEASURED_TOKENS ? "" : " per GPU");
  g_autofree char *peak = units_format(predicted->peak_flops, UNIT_FLOPS_PER_SECOND);
  g_autofree char *flops = units_format(measured->value, UNIT_FLOPS_PER_SECOND);
  const char *convention = flops_convention_names()[predicted->plan->flops];
  if (measured->kind == MEASURED_FLOPS)
    return g_strdup_printf("%s per GPU, model FLOPs by convention \"%s\"", flops, convention);
  return g_strdup_printf("%.2f %% MFU of %s, model FLOPs by convention \"%s\"", units_percent(measured->value), peak,
                         convention);
}
