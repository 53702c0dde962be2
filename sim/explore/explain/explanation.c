#include "explanation.h"

#include <math.h>

#include "json_values.h"
#include "link_use.h"
#include "units.h"

static const double least_gain = 0.005; /* of the step, for a link of the chain */

/* At a large batch everything a step does once (bubble, gradients, optimizer) counts an eighth; without slow ranks and
 * jitter ranks may be folded. */
static void vary_batch_and_ranks(Explanation *explanation, const Plan *plan, int n_threads) {
  const Workload *workload = explanation->prediction->workload;
  const gboolean is_uneven = plan->slow_ranks->len > 0 || plan->jitter > 0;
  g_autoptr(GArray) variants = variants_new();
  for (int i = 0; i <= is_uneven; i++)
    variants_add(variants, workload->model, explanation->prediction->cluster, plan_copy(plan));
  Plan *large = variants_get(variants, 0)->plan, *even = is_uneven ? variants_get(variants, 1)->plan : NULL;
  large->gpus = workload->plan->gpus;
  large->global_batch = EXPLAIN_BATCH_FACTOR * workload->plan->global_batch;
  if (even != NULL) {
    g_array_set_size(even->slow_ranks, 0);
    even->jitter = 0;
  }
  variants_predict(variants, &(VaryHow){.n_threads = n_threads}, NULL);
  const PlanOutcome *of_large = variants_get(variants, 0)->outcome,
                    *of_even = even != NULL ? variants_get(variants, 1)->outcome : NULL;
  explanation->large_batch_s = of_large != NULL ? of_large->step_time_s / EXPLAIN_BATCH_FACTOR : 0;
  explanation->even_ranks_s = of_even != NULL ? of_even->step_time_s : 0;
}

/* Ranks that run apart are too many to run them so often. */
static void take_steps(Explanation *explanation, const Plan *plan, int n_threads) {
  const Prediction *prediction = explanation->prediction;
  if (!prediction->workload->plan->fold)
    return;
  explanation->faster = faster_hardware_new(prediction, plan, n_threads);
  const PlannerRequest request = {
      .scoring = {OBJECTIVE_TOKENS_PER_S, -1}, .framework = PLANNER_ANY_FRAMEWORK, .n_threads = n_threads};
  explanation->outcome =
      plan_outcome_new(NULL, prediction->workload->model, prediction->cluster, plan, &request.scoring, NULL);
  if (explanation->outcome != NULL)
    explanation->steps = sensitivity_new(explanation->outcome, &request);
}

Explanation *explanation_new(const Prediction *prediction, const StepReport *step, const Plan *plan,
                             const Scaling *scaling, int n_threads) {
  Explanation *explanation = g_new0(Explanation, 1);
  explanation->prediction = prediction;
  explanation->step = step;
  explanation->axes = axis_links_new(prediction);
  explanation->each = what_if_each(prediction);
  explanation->chain = what_if_chain(prediction, least_gain);
  explanation->no_bubble_ns = what_if_no_bubble_ns(prediction->metrics);
  vary_batch_and_ranks(explanation, plan, n_threads);
  explanation->scaling = scaling;
  if (scaling == NULL)
    take_steps(explanation, plan, n_threads);
  return explanation;
}

void explanation_free(Explanation *explanation) {
  if (explanation == NULL)
    return;
  g_clear_pointer(&explanation->steps, g_array_unref);
  g_clear_pointer(&explanation->faster, g_array_unref);
  plan_outcome_free(explanation->outcome);
  g_array_unref(explanation->axes);
  g_array_unref(explanation->each);
  g_array_unref(explanation->chain);
  g_free(explanation);
}

/* --- text --- */

/* Where a step was measured, what makes up the difference; then sections (a) axes and links, (b) where the time goes,
 * in sentences, (c) what if, (d) sizes. */

/* Of the step, for a sentence of its own. */
static const double least_share = 0.002;
/* … and for a row of the what-ifs. */
static const double least_row = 0.0001;

static double percent(double share) {
  return 100 * share;
}

static void append_quantity(GString *out, double value, UnitKind unit) {
  g_autofree char *text = units_format(value, unit);
  g_string_append(out, text);
}

static void append_title(GString *out, const Explanation *e) {
  const StepReport *step = e->step;
  g_autofree char *plan = step_report_plan_line(step->plan);
  g_string_append_printf(out, "%s on %d × %s (%s)\n  plan       %s\n  step time  ", step->model_name, step->plan->gpus,
                         step->gpu_name, step->cluster_name, plan);
  append_quantity(out, step->step_time_s, UNIT_SECONDS);
  interval_append(out, &step->interval);
  g_string_append_printf(out, ", MFU %.2f %%%s\n", percent(step->mfu), step->fits ? "" : "; does not fit in memory");
}

/* --- (a) --- */

static void append_axis(GString *out, const Explanation *e, const AxisLinks *links) {
  g_autofree char *names = axis_links_names(e->prediction->cluster, links->ways);
  g_autofree char *narrowest = link_use_name(e->prediction->cluster, links->narrowest);
  g_string_append_printf(out, "  %s %d uses %s: a GPU sends ", axis_name(links->axis), links->size, names);
  append_quantity(out, links->sent_bytes, UNIT_BYTES);
  g_string_append(out, " a step in ");
  append_quantity(out, links->transfer_s, UNIT_SECONDS);
  g_string_append(out, " of transfers, ");
  append_quantity(out, links->transfer_s > 0 ? links->sent_bytes / links->transfer_s : 0, UNIT_BYTES_PER_SECOND);
  const gboolean several = (links->ways & (links->ways - 1)) != 0; /* each carries a part: the rate is of them all */
  g_string_append_printf(out, "%s (narrowest: %s, ", several ? " over all of these" : "", narrowest);
  append_quantity(out, links->link_Bps, UNIT_BYTES_PER_SECOND);
  g_string_append(out, " as specified); hidden ");
  append_quantity(out, links->hidden_s, UNIT_SECONDS);
  g_string_append(out, ", exposed ");
  append_quantity(out, links->exposed_s, UNIT_SECONDS);
  g_string_append(out, ".\n");
}

static void append_axes(GString *out, const Explanation *e) {
  g_string_append(out, "\nWhich axis uses which link\n");
  for (guint i = 0; i < e->axes->len; i++)
    append_axis(out, e, &g_array_index(e->axes, AxisLinks, i));
  if (e->axes->len == 0)
    g_string_append(out, "  nothing: one GPU\n");
}

/* --- (b) --- */

static void say_compute(const Explanation *e, GString *out) {
  const StepReport *step = e->step;
  double running_s = step->breakdown_s[BREAKDOWN_COMPUTE] + step->breakdown_s[BREAKDOWN_RECOMPUTE];
  g_string_append_printf(out, "kernels run at %.1f %% of the %s peak%s",
                         percent(step->hfu * step->step_time_s / running_s), step->peak_number,
                         running_s > step->breakdown_s[BREAKDOWN_COMPUTE] ? " (recomputed work counted)" : "");
}

static void say_recompute(const Explanation *e, GString *out) {
  g_string_append_printf(out, "repeats forward work (recompute %s)", recompute_names()[e->step->plan->recompute]);
}

static void say_bubble(const Explanation *e, GString *out) {
  const Plan *plan = e->step->plan;
  g_string_append(out, plan->pp == 1 ? "waits for the slowest rank" : "waits for other stages");
  if (plan->pp == 1)
    return;
  g_string_append_printf(out, " (pp %d, ", plan->pp);
  units_append_count(out, plan->n_micro_batches, "micro-batch", "micro-batches");
  if (plan->chunks > 1)
    g_string_append_printf(out, " × %d chunks", plan->chunks);
  g_string_append_printf(out, "; equal stages of 1f1b or interleaved would wait %.1f %% of their work)",
                         percent((double)(plan->pp - 1) / plan->chunks / (double)plan->n_micro_batches));
  const double uneven = e->step->uneven_s / e->step->step_time_s;
  if (uneven >= least_row)
    g_string_append_printf(out, ", %.1f %% of the step because stages are unequal", percent(uneven));
}

static void say_optimizer(const Explanation *e, GString *out) {
  const gboolean is_out = e->step->plan->offload.optimizer != TIER_GPU;
  g_string_append(out, is_out ? "updates parameters on the node's CPUs" : "updates parameters");
}

/* By a function, or what it waits for while an axis, or MOVER_OFFLOAD, moves bytes, of which some are hidden. */
static const struct {
  void (*say)(const Explanation *e, GString *out);
  const char *what;
  int mover;
} sentences[N_BREAKDOWN] = {
    [BREAKDOWN_COMPUTE] = {say_compute},
    [BREAKDOWN_RECOMPUTE] = {say_recompute},
    [BREAKDOWN_BUBBLE] = {say_bubble},
    [BREAKDOWN_OPTIMIZER] = {say_optimizer},
    [BREAKDOWN_TP] = {NULL, "tensor-parallel collectives inside layers", AXIS_TP},
    [BREAKDOWN_DP] = {NULL, "gradient reductions and parameter gathers", AXIS_DP},
    [BREAKDOWN_PP] = {NULL, "transfers between stages", AXIS_PP},
    [BREAKDOWN_CP] = {NULL, "context-parallel transfers", AXIS_CP},
    [BREAKDOWN_EP] = {NULL, "token exchanges with experts", AXIS_EP},
    [BREAKDOWN_OFFLOAD] = {NULL, "copies to and from the node's memory or drives", MOVER_OFFLOAD},
};

static void append_sentence(GString *out, const Explanation *e, BreakdownKind kind) {
  if (sentences[kind].say != NULL) {
    sentences[kind].say(e, out);
  } else if (sentences[kind].what != NULL) {
    g_string_append_printf(out, "waits for %s; ", sentences[kind].what);
    append_quantity(out, e->step->hidden_s[sentences[kind].mover], UNIT_SECONDS);
    g_string_append(out, " more is hidden behind kernels");
  } else {
    g_string_append(out, kind == BREAKDOWN_HOST ? "waits for the host to launch kernels"
                         : e->step->data_s > 0  ? "waits for data, gradient norm and other small work"
                                                : "gradient norm and other small work");
  }
}

static gint by_time(gconstpointer a, gconstpointer b, gpointer data) {
  const double *breakdown_s = data;
  double x = breakdown_s[*(const int *)a], y = breakdown_s[*(const int *)b];
  return x != y ? (x > y ? -1 : 1) : *(const int *)a - *(const int *)b;
}

static void append_breakdown(GString *out, const Explanation *e) {
  int order[N_BREAKDOWN];
  double shown = 0;
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    order[kind] = kind;
  g_qsort_with_data(order, N_BREAKDOWN, sizeof *order, by_time, (gpointer)e->step->breakdown_s);
  g_string_append(out, "\nWhere the time goes, mean over ranks\n");
  for (int i = 0; i < N_BREAKDOWN; i++) {
    double share = e->step->breakdown_s[order[i]] / e->step->step_time_s;
    if (share < least_share)
      break;
    g_string_append_printf(out, "  %5.1f %%, ", percent(share));
    append_quantity(out, e->step->breakdown_s[order[i]], UNIT_SECONDS);
    g_string_append_printf(out, ", %s: ", breakdown_name((BreakdownKind)order[i]));
    append_sentence(out, e, (BreakdownKind)order[i]);
    g_string_append(out, ".\n");
    shown += share;
  }
  if (shown < 1 - least_share)
    g_string_append_printf(out, "  %5.1f %% is spread over smaller parts.\n", percent(1 - shown));
}

/* --- (c) --- */

/* The greatest part that is not computing. */
static BreakdownKind next_bound(const double *breakdown_s) {
  int most = -1;
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    if (kind != BREAKDOWN_COMPUTE && (most < 0 || breakdown_s[kind] > breakdown_s[most]))
      most = kind;
  return (BreakdownKind)most;
}

static void append_row(GString *out, const Explanation *e, const char *what, double step_s, const double *breakdown_s) {
  g_autofree char *time = units_format(step_s, UNIT_SECONDS);
  int padding = 34 - (int)g_utf8_strlen(what, -1); /* printf counts bytes */
  g_string_append_printf(out, "  %s%*s %10s %+7.2f %%", what, MAX(padding, 0), "", time,
                         units_percent(step_s / e->step->step_time_s - 1));
  if (breakdown_s != NULL) {
    BreakdownKind next = next_bound(breakdown_s);
    g_string_append_printf(out, "   %s %.1f %%", breakdown_name(next), percent(breakdown_s[next] / step_s));
  }
  g_string_append_c(out, '\n');
}

static void append_faster(GString *out, const Explanation *e) {
  for (guint i = 0; e->faster != NULL && i < e->faster->len; i++) {
    const FasterStep *step = &g_array_index(e->faster, FasterStep, i);
    if (fabs(step->step_time_s / e->step->step_time_s - 1) >= least_row)
      append_row(out, e, step->what, step->step_time_s, NULL);
  }
}

static void append_what_ifs(GString *out, const Explanation *e) {
  g_string_append(
      out, "\nWhat if (simulated again without one cost): step, change, then the largest part besides compute\n");
  append_row(out, e, "as it is", e->step->step_time_s, e->step->breakdown_s);
  for (guint i = 0; i < e->each->len; i++) {
    const WhatIfStep *step = &g_array_index(e->each, WhatIfStep, i);
    int what = g_bit_nth_lsf(step->without, -1);
    if (1 - 1e-9 * (double)step->step_ns / e->step->step_time_s < least_row)
      continue;
    append_row(out, e, what_if_name((WhatIf)what), 1e-9 * (double)step->step_ns, step->breakdown_s);
  }
  if (e->step->plan->pp > 1)
    append_row(out, e, "the fullest stage never waits", 1e-9 * (double)e->no_bubble_ns, NULL);
  if (e->even_ranks_s > 0)
    append_row(out, e, "all ranks equally fast", e->even_ranks_s, NULL);
  if (e->large_batch_s > 0) {
    g_autofree char *what = g_strdup_printf("%d × the batch, same tokens", EXPLAIN_BATCH_FACTOR);
    append_row(out, e, what, e->large_batch_s, NULL);
  }
  append_faster(out, e);
}

static void append_chain(GString *out, const Explanation *e) {
  if (e->chain->len == 0)
    return;
  g_string_append(out, "\nCumulatively, each time without what then gains most\n");
  guint before = 0;
  for (guint i = 0; i < e->chain->len; i++) {
    const WhatIfStep *step = &g_array_index(e->chain, WhatIfStep, i);
    int what = g_bit_nth_lsf(step->without & ~before, -1);
    append_row(out, e, what_if_name((WhatIf)what), 1e-9 * (double)step->step_ns, step->breakdown_s);
    before = step->without;
  }
}

/* --- (d) --- */

/* One end of each size's interval, at `offset` in it. */
static void append_ends(GString *out, const char *label, size_t offset, const Scaling *scaling) {
  g_string_append_printf(out, "\n  %-12s", label);
  for (guint i = 0; i < scaling->sizes->len; i++) {
    const Interval *interval = &g_array_index(scaling->sizes, ScalingSize, i).interval;
    g_autofree char *end = interval_end_text(*(const double *)((const char *)interval + offset));
    g_string_append_printf(out, " %10s", end);
  }
}

static void append_sizes(GString *out, const Scaling *scaling) {
  g_string_append_printf(out, "  %-12s", "GPUs");
  for (guint i = 0; i < scaling->sizes->len; i++)
    g_string_append_printf(out, " %10d", g_array_index(scaling->sizes, ScalingSize, i).gpus);
  g_string_append_printf(out, "\n  %-12s", "micro-batches");
  for (guint i = 0; i < scaling->sizes->len; i++)
    g_string_append_printf(out, " %*" INT64, i == 0 ? 9 : 10,
                           g_array_index(scaling->sizes, ScalingSize, i).n_micro_batches);
  g_string_append_printf(out, "\n  %-12s", "step");
  for (guint i = 0; i < scaling->sizes->len; i++) {
    g_autofree char *time = units_format(g_array_index(scaling->sizes, ScalingSize, i).step_time_s, UNIT_SECONDS);
    g_string_append_printf(out, " %10s", time);
  }
  append_ends(out, "  80 % from", offsetof(Interval, low_s), scaling);
  append_ends(out, "  to", offsetof(Interval, high_s), scaling);
  g_string_append_printf(out, "\n  %-12s", "MFU, %");
  for (guint i = 0; i < scaling->sizes->len; i++)
    g_string_append_printf(out, " %10.2f", percent(g_array_index(scaling->sizes, ScalingSize, i).mfu));
}

/* GPU time per token by part of the step, the first size's whole being 100. */
static void append_parts(GString *out, const Scaling *scaling) {
  double whole = 0;
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    whole += g_array_index(scaling->sizes, ScalingSize, 0).gpu_s_per_token[kind];
  g_string_append(out, "\n  GPU time per token, the first size's = 100\n");
  for (int kind = 0; kind < N_BREAKDOWN; kind++) {
    double most = 0;
    for (guint i = 0; i < scaling->sizes->len; i++)
      most = MAX(most, g_array_index(scaling->sizes, ScalingSize, i).gpu_s_per_token[kind] / whole);
    if (most < least_share)
      continue;
    g_string_append_printf(out, "  %-12s", breakdown_name((BreakdownKind)kind));
    for (guint i = 0; i < scaling->sizes->len; i++)
      g_string_append_printf(out, " %10.2f",
                             percent(g_array_index(scaling->sizes, ScalingSize, i).gpu_s_per_token[kind] / whole));
    g_string_append_c(out, '\n');
  }
}

static void append_scaling(GString *out, const Explanation *e) {
  if (e->scaling == NULL)
    return;
  g_string_append_printf(out, "\n%s scaling of the same plan: dp grows with the GPUs, the batch %s\n",
                         e->is_weak ? "Weak" : "Strong", e->is_weak ? "too" : "stays");
  append_sizes(out, e->scaling);
  append_parts(out, e->scaling);
  g_autoptr(GPtrArray) verdict =
      scaling_verdict(e->scaling, e->prediction->workload->plan, e->prediction->cluster->domain_gpus);
  for (guint i = 0; i < verdict->len; i++)
    g_string_append_printf(out, "  %s\n", (const char *)verdict->pdata[i]);
}

static void append_steps(GString *out, const Explanation *e) {
  if (e->steps == NULL)
    return;
  g_string_append(out, "\nOne option changed: time for the same tokens, where it goes\n");
  planner_text_steps(out, e->outcome, e->steps);
}

void explain_text(GString *out, const Explanation *explanation) {
  append_title(out, explanation);
  if (explanation->gap != NULL)
    measured_gap_text(out, explanation->gap);
  append_axes(out, explanation);
  append_breakdown(out, explanation);
  append_what_ifs(out, explanation);
  append_chain(out, explanation);
  append_steps(out, explanation);
  append_scaling(out, explanation);
}

/* --- JSON --- */

/* {step…, measured, axes[], what_if[], faster[], chain[], sensitivity[], scaling}. */

static void add_axis(JsonBuilder *builder, const Cluster *cluster, const AxisLinks *links) {
  g_autofree char *names = axis_links_names(cluster, links->ways),
                  *narrowest = link_use_name(cluster, links->narrowest);
  json_begin_object(builder, NULL);
  json_add_text(builder, "axis", axis_name(links->axis));
  json_add_count(builder, "size", links->size);
  json_add_text(builder, "links", names);
  json_add_text(builder, "narrowest", narrowest);
  json_add_number(builder, "link_Bps", links->link_Bps);
  json_add_number(builder, "sent_bytes", links->sent_bytes);
  json_add_number(builder, "transfer_s", links->transfer_s);
  json_add_number(builder, "hidden_s", links->hidden_s);
  json_add_number(builder, "exposed_s", links->exposed_s);
  json_builder_end_object(builder);
}

static void add_what_ifs(JsonBuilder *builder, const char *key, const GArray *steps) {
  json_begin_list(builder, key);
  for (guint i = 0; i < steps->len; i++) {
    const WhatIfStep *step = &g_array_index(steps, WhatIfStep, i);
    json_begin_object(builder, NULL);
    json_begin_list(builder, "without");
    for (int what = 0; what < N_WHAT_IFS; what++)
      if ((step->without & (1u << what)) != 0)
        json_builder_add_string_value(builder, what_if_name((WhatIf)what));
    json_builder_end_array(builder);
    json_add_number(builder, "step_time_s", 1e-9 * (double)step->step_ns);
    json_add_breakdown(builder, "breakdown_s", step->breakdown_s);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
}

static void add_size(JsonBuilder *builder, const ScalingSize *size) {
  json_begin_object(builder, NULL);
  json_add_count(builder, "gpus", size->gpus);
  json_add_count(builder, "dp", size->dp);
  json_add_count(builder, "global_batch", size->global_batch);
  json_add_count(builder, "micro_batches", size->n_micro_batches);
  json_add_number(builder, "step_time_s", size->step_time_s);
  json_add_interval(builder, &size->interval);
  json_add_number(builder, "tokens_per_s", size->tokens_per_s);
  json_add_number(builder, "mfu", size->mfu);
  json_add_flag(builder, "fits", size->fits);
  json_add_breakdown(builder, "gpu_s_per_token", size->gpu_s_per_token);
  json_builder_end_object(builder);
}

static void add_scaling(JsonBuilder *builder, const Explanation *e) {
  if (e->scaling == NULL)
    return;
  json_begin_object(builder, "scaling");
  json_add_flag(builder, "weak", e->is_weak);
  json_add_number(builder, "gpu_time_factor", e->scaling->factor);
  json_add_breakdown(builder, "grew", e->scaling->grew);
  json_begin_list(builder, "sizes");
  for (guint i = 0; i < e->scaling->sizes->len; i++)
    add_size(builder, &g_array_index(e->scaling->sizes, ScalingSize, i));
  json_builder_end_array(builder);
  g_autoptr(GPtrArray) verdict =
      scaling_verdict(e->scaling, e->prediction->workload->plan, e->prediction->cluster->domain_gpus);
  json_add_texts(builder, "verdict", verdict);
  json_builder_end_object(builder);
}

static void add_faster(JsonBuilder *builder, const GArray *faster) {
  json_begin_list(builder, "faster");
  for (guint i = 0; i < faster->len; i++) {
    json_begin_object(builder, NULL);
    json_add_text(builder, "what", g_array_index(faster, FasterStep, i).what);
    json_add_number(builder, "step_time_s", g_array_index(faster, FasterStep, i).step_time_s);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
}

char *explain_json(const Explanation *e) {
  JsonBuilder *builder = json_builder_new();
  json_builder_begin_object(builder);
  json_add_number(builder, "step_time_s", e->step->step_time_s);
  json_add_interval(builder, &e->step->interval);
  json_add_number(builder, "tokens_per_s", e->step->tokens_per_s);
  json_add_number(builder, "mfu", e->step->mfu);
  planner_json_plan(builder, e->step->plan);
  json_add_flag(builder, "fits", e->step->fits);
  json_add_breakdown(builder, "breakdown_s", e->step->breakdown_s);
  if (e->gap != NULL)
    measured_gap_json(builder, e->gap);
  json_begin_list(builder, "axes");
  for (guint i = 0; i < e->axes->len; i++)
    add_axis(builder, e->prediction->cluster, &g_array_index(e->axes, AxisLinks, i));
  json_builder_end_array(builder);
  add_what_ifs(builder, "what_if", e->each);
  add_what_ifs(builder, "chain", e->chain);
  json_add_number(builder, "no_bubble_s", 1e-9 * (double)e->no_bubble_ns);
  json_add_number(builder, "large_batch_s", e->large_batch_s > 0 ? e->large_batch_s : NAN);
  json_add_number(builder, "even_ranks_s", e->even_ranks_s > 0 ? e->even_ranks_s : NAN);
  if (e->faster != NULL)
    add_faster(builder, e->faster);
  if (e->steps != NULL)
    planner_json_steps(builder, e->outcome, e->steps);
  add_scaling(builder, e);
  json_builder_end_object(builder);
  return json_finish(builder);
}
