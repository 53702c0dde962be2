/* How many times as long a cost must take is looked for between two numbers with the measured step between theirs, by
 * the secant through their ends; an end that stays twice weighs half from then on (the Illinois rule), so that a step
 * which only begins to grow late, as hidden communication makes it, is found as well. Only numbers as printed, of four
 * digits, are tried: what is printed is what was predicted. Where the step jumps from one to the next, as rows of
 * experts that begin another wave of tiles make it, the nearer one is taken. */
#include "measured_gap.h"

#include <math.h>
#include <string.h>

#include "options.h"
#include "parallel.h"
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

/* NULL: the plan cannot be. */
static Prediction *predict_otherwise(const Search *search, const Plan *plan) {
  return predict_numbers(search->prediction->workload->model, search->prediction->cluster, plan, NULL);
}

static double step_of_experts(const Search *search, double times) {
  g_autoptr(Plan) plan = predicted_plan(search);
  plan->expert_load = times;
  g_autoptr(Prediction) other = predict_otherwise(search, plan);
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

gboolean gap_cost_is_near(const GapCost *cost, const MeasuredGap *gap) {
  return fabs(cost->step_time_s - gap->measured_s) < least_change * gap->measured_s;
}

gboolean gap_cost_is_of_rows(const GapCost *cost) {
  return cost->of == FULLEST_EXPERTS;
}

gboolean gap_cost_has_peak(const GapCost *cost) {
  return (cost->of & 1u << WHAT_IF_AT_PEAK) != 0;
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

/* Sets an option to the other value, and gives that; NULL: there is none. */
typedef struct {
  const char *option;
  const char *(*turn)(Plan *plan, const Plan *complete); /* `complete`: as it was predicted */
} Turn;

static const char *turn_switch(gboolean *is_on) {
  *is_on = !*is_on;
  return *is_on ? "on" : "off";
}

static const char *turn_attention(Plan *plan, const Plan *complete) {
  plan->attention = plan->attention == ATTENTION_FLASH ? ATTENTION_UNFUSED : ATTENTION_FLASH;
  return attention_names()[plan->attention];
}

static const char *turn_norm(Plan *plan, const Plan *complete) {
  plan->norm_kernel = plan_has_plain_norm(plan) ? FRAMEWORK_KERNELS_FUSED : FRAMEWORK_KERNELS_PLAIN;
  return norm_kernel_names()[plan->norm_kernel];
}

static const char *turn_recompute_on(Plan *plan, const Plan *complete) {
  const gboolean has_none = plan->recompute == RECOMPUTE_NONE;
  plan->recompute = RECOMPUTE_FULL;
  plan->recompute_modules = 0;
  return has_none ? recompute_names()[plan->recompute] : NULL;
}

static const char *turn_recompute_off(Plan *plan, const Plan *complete) {
  const gboolean has_some = plan->recompute != RECOMPUTE_NONE;
  plan->recompute = RECOMPUTE_NONE;
  plan->recompute_modules = 0;
  return has_some ? recompute_names()[plan->recompute] : NULL;
}

static const char *turn_recompute_selective(Plan *plan, const Plan *complete) {
  const gboolean is_other = plan->recompute != RECOMPUTE_SELECTIVE;
  plan->recompute = RECOMPUTE_SELECTIVE;
  plan->recompute_modules = 0;
  return is_other ? recompute_names()[plan->recompute] : NULL;
}

static const char *turn_graphs(Plan *plan, const Plan *complete) {
  plan->cuda_graphs = complete->cuda_graphs == CUDA_GRAPHS_NONE ? CUDA_GRAPHS_FULL : CUDA_GRAPHS_NONE;
  return cuda_graphs_names()[plan->cuda_graphs];
}

static const char *turn_dispatch(Plan *plan, const Plan *complete) {
  plan->expert_dispatch = complete->expert_dispatch == DISPATCH_DEEPEP ? DISPATCH_ALL_TO_ALL : DISPATCH_DEEPEP;
  return complete->ep > 1 ? expert_dispatch_names()[plan->expert_dispatch] : NULL;
}

static const char *turn_sequence_parallel(Plan *plan, const Plan *complete) {
  return plan->tp > 1 ? turn_switch(&plan->sequence_parallel) : NULL;
}

static const char *turn_overlap_grad(Plan *plan, const Plan *complete) {
  return turn_switch(&plan->overlap_grad);
}

static const char *turn_overlap_param(Plan *plan, const Plan *complete) {
  return zero_shards_optimizer(plan->zero) ? turn_switch(&plan->overlap_param) : NULL;
}

static const char *turn_overlap_p2p(Plan *plan, const Plan *complete) {
  gboolean is_on = complete->overlap_p2p > 0;
  const char *value = turn_switch(&is_on);
  plan->overlap_p2p = is_on;
  return plan->pp > 1 ? value : NULL;
}

/* Without its chunks. */
static const char *turn_chunks(Plan *plan, const Plan *complete) {
  const gboolean has_chunks = plan->pp > 1 && plan->chunks > 1 && schedule_is_default(plan->schedule);
  plan->chunks = 1;
  g_clear_pointer(&plan->schedule, g_free);
  return has_chunks && plan->pipeline_layout == NULL ? "1" : NULL;
}

static const char *turn_precision(Plan *plan, const Plan *complete) {
  const gboolean is_narrow = plan->precision > PRECISION_FP32;
  plan->precision = PRECISION_BF16;
  return is_narrow ? precision_info(plan->precision)->name : NULL;
}

static const Turn turns[] = {
    {"--attention", turn_attention},       {"--norm-kernel", turn_norm},
    {"--recompute", turn_recompute_on},    {"--recompute", turn_recompute_selective},
    {"--recompute", turn_recompute_off},   {"--cuda-graphs", turn_graphs},
    {"--expert-dispatch", turn_dispatch},  {"--sequence-parallel", turn_sequence_parallel},
    {"--overlap-grad", turn_overlap_grad}, {"--overlap-param", turn_overlap_param},
    {"--overlap-p2p", turn_overlap_p2p},   {"--chunks", turn_chunks},
    {"--precision", turn_precision},
};

static void try_option(Search *search, const Turn *turn) {
  g_autoptr(Plan) plan = predicted_plan(search);
  const char *value = turn->turn(plan, search->prediction->workload->plan);
  if (value == NULL || !plan_options_check_model(plan, search->prediction->workload->model, NULL))
    return;
  g_autoptr(Prediction) other = predict_otherwise(search, plan);
  if (other == NULL || (search->prediction->fits && !other->fits)) /* a run that does not fit was not measured */
    return;
  const double change_s = other->step_time_s - search->predicted_s, gap_s = search->measured_s - search->predicted_s;
  const GapOption option = {turn->option, value, other->step_time_s};
  if (change_s * gap_s > 0 && fabs(change_s) >= least_change * search->predicted_s)
    g_array_append_val(search->options, option);
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
  for (gsize i = 0; i < G_N_ELEMENTS(turns); i++)
    try_option(&search, &turns[i]);
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
