/* Steps with one cost removed, axes and their links, one plan on several sizes. */
#include "error.h"
#include "explanation.h"
#include "run_suite.h"
#include "step_of_prediction.h"

#include <check.h>
#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

#include "case_clusters.h"
#include "plan_cases.h"
#include "plan_with.h"

enum { N_PLANS = 200, MAX_GPUS = 64 };

/* --- what if --- */

/* Every op starts when the last of what it waits for has ended: less time anywhere never ends anything later. */
TEST(nothing_taken_away_changes_nothing_and_anything_never_lengthens) {
  int n_shorter[N_WHAT_IFS] = {0};
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = random_case(seed, clusters, MAX_GPUS);
    if (seed % 3 == 0)
      add_cp(&drawn);
    else if (seed % 3 == 1)
      add_experts(&drawn);
    drawn.plan->fold = seed % 4 != 0;       /* expanded programs too */
    drawn.plan->contention = seed % 2 == 0; /* with it, who meets whom changes with times, and shares with that */
    if (seed % 5 == 0 && drawn.cluster->host.link_efficiency > 0 && training_is_of_all(&drawn.plan->training))
      drawn.plan->offload = (Offload){.optimizer = TIER_HOST, .activations = TIER_HOST};
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    g_autoptr(Metrics) same = what_if_times(prediction, 0, 0);
    if (same->step_ns != prediction->metrics->step_ns)
      ck_abort_msg("seed %u: %d ns apart", seed, (int)(same->step_ns - prediction->metrics->step_ns));
    for (int what = 0; what < N_WHAT_IFS; what++) {
      g_autoptr(Metrics) without = what_if_times(prediction, 1u << what, 0);
      if (!drawn.plan->contention && without->step_ns > same->step_ns) {
        g_autofree char *text = case_text(&drawn);
        ck_abort_msg("%s\n%s: %d ns longer", text, what_if_name((WhatIf)what), (int)(without->step_ns - same->step_ns));
      }
      n_shorter[what] += without->step_ns < same->step_ns;
    }
  }
  for (int what = 0; what < N_WHAT_IFS; what++) /* or the property would be empty */
    ck_assert_msg(n_shorter[what] > 0, "%s shortened nothing", what_if_name((WhatIf)what));
}

/* Neither does it where a step's time is a mean: over a period of islands, or over workers that do not wait. */
TEST(nothing_taken_away_changes_no_mean) {
  static const char *const ways[] = {"--islands 2 --local-steps 4", "--parameter-servers 2",
                                     "--parameter-servers 2+async --slow-rank 0=2"};
  for (gsize i = 0; i < G_N_ELEMENTS(ways); i++) {
    g_autoptr(Plan) plan = plan_said("--dp 16 --seq-len 512 --global-batch 64 %s", ways[i]);
    g_autoptr(Prediction) prediction = predict_plan(shipped_model("gpt2"), shipped_cluster("dgx-h100"), plan);
    g_autoptr(Metrics) same = what_if_times(prediction, 0, 0);
    ck_assert_msg(same->step_ns == prediction->metrics->step_ns, "%s: %g ns, expected %g ns", ways[i],
                  (double)same->step_ns, (double)prediction->metrics->step_ns);
  }
}

static Case lone_gpu(void) {
  Case lone = llama_case(1, 1, 1, 8, 1024);
  lone.plan->micro_batch = 2;
  return lone;
}

/* What is left of one GPU's step when all else is taken away is products and attention at the peak: all FLOPs of the
 * step over the peak, each kernel rounded up to a nanosecond. Every kernel of the model takes some nanoseconds; there
 * are fewer than 100 with FLOPs in a layer, 8 layers, 4 micro-batches. */
TEST(with_all_costs_away_flops_over_peak_are_left) {
  g_auto(Case) lone = lone_gpu();
  g_autoptr(Prediction) prediction = predict_case(&lone);
  g_autoptr(Metrics) least = what_if_times(prediction, (1u << N_WHAT_IFS) - 1, 0);
  double flops = 0;
  const Workload *workload = prediction->workload;
  const int counts[N_PIECES] = {
      [PIECE_EMBEDDING] = 1, [PIECE_LAYER] = (int)workload->model->n_layers, [PIECE_HEAD] = 1};
  for (int piece = 0; piece < N_PIECES; piece++)
    flops += counts[piece] * (workload->work[piece][PHASE_F].flops + workload->work[piece][PHASE_B].flops);
  double expected_ns = 1e9 * 4 * flops / prediction->cluster->gpu.peak_flops[NUMBER_BF16];
  ck_assert_double_gt(expected_ns, 1e6);
  ck_assert_double_eq_tol((double)least->step_ns, expected_ns, 8 * 4 * 100);
}

TEST(what_is_taken_away_is_no_part_of_the_step_any_more) {
  g_auto(Case) drawn = llama_case(4, 4, 4, 32, 2048);
  drawn.plan->overlap_grad = FALSE;
  g_autoptr(Prediction) prediction = predict_case(&drawn);
  static const struct {
    WhatIf what;
    BreakdownKind kind;
  } parts[] = {{WHAT_IF_FREE_TP, BREAKDOWN_TP},
               {WHAT_IF_FREE_DP, BREAKDOWN_DP},
               {WHAT_IF_FREE_PP, BREAKDOWN_PP},
               {WHAT_IF_FREE_OPTIMIZER, BREAKDOWN_OPTIMIZER}};
  for (gsize i = 0; i < G_N_ELEMENTS(parts); i++) {
    g_autoptr(Metrics) without = what_if_times(prediction, 1u << parts[i].what, 0);
    double before_s = prediction->metrics->mean_s[parts[i].kind], after_s = without->mean_s[parts[i].kind];
    ck_assert_msg(before_s > 0 && after_s < 0.02 * before_s, "%s: %g s of %g s left", what_if_name(parts[i].what),
                  after_s, before_s);
  }
}

TEST(the_chain_takes_away_more_and_more) {
  g_auto(Case) lone = lone_gpu();
  g_autoptr(Prediction) prediction = predict_case(&lone);
  g_autoptr(GArray) each = what_if_each(prediction), chain = what_if_chain(prediction, 0.001);
  ck_assert_uint_ge(each->len, 2);
  ck_assert_uint_ge(chain->len, 2);
  /* the first link is the best alone */
  ck_assert_uint_eq(g_array_index(chain, WhatIfStep, 0).without, g_array_index(each, WhatIfStep, 0).without);
  for (guint i = 1; i < chain->len; i++) {
    const WhatIfStep *before = &g_array_index(chain, WhatIfStep, i - 1), *after = &g_array_index(chain, WhatIfStep, i);
    ck_assert_int_lt(after->step_ns, before->step_ns);
    ck_assert_uint_eq(after->without & before->without, before->without);
  }
}

/* --- axes --- */

static const AxisLinks *find_axis(const GArray *axes, Axis axis) {
  for (guint i = 0; i < axes->len; i++)
    if (g_array_index(axes, AxisLinks, i).axis == axis)
      return &g_array_index(axes, AxisLinks, i);
  return NULL;
}

/* selene: domains of 8, full bisection. tp 4 · dp 2 fill a domain; the pipeline crosses from domain to domain. A GPU of
 * a stage but the last sends each micro-batch's activation down, of a stage but the first its gradient up: 2(p − 1)/p
 * boundary tensors per micro-batch on average. */
TEST(axes_inside_a_domain_take_its_links_and_others_the_network) {
  g_auto(Case) drawn = llama_case(4, 4, 2, 16, 1024);
  g_autoptr(Prediction) prediction = predict_case(&drawn);
  g_autoptr(GArray) axes = axis_links_new(prediction);
  ck_assert_uint_eq(axes->len, 3);
  ck_assert_uint_eq(find_axis(axes, AXIS_TP)->ways, 1);
  ck_assert_uint_eq(find_axis(axes, AXIS_DP)->ways, 1);
  ck_assert_uint_eq(find_axis(axes, AXIS_PP)->ways, 2);
  ck_assert_double_eq(find_axis(axes, AXIS_TP)->link_Bps, 300e9);
  ck_assert_double_eq(find_axis(axes, AXIS_PP)->link_Bps, 25e9);
  double boundary_bytes = prediction->workload->boundary_bytes;
  ck_assert_double_eq_tol(find_axis(axes, AXIS_PP)->sent_bytes, 8 * 2 * 0.75 * boundary_bytes, 1);
  ck_assert_ptr_null(find_axis(axes, AXIS_CP));
}

/* Pods of 3,072 GPUs behind uplinks of a seventh: 8,192 of dp leave them. */
TEST(an_axis_wider_than_a_pod_takes_its_uplinks) {
  const Cluster *llama3 = clusters[4];
  ck_assert_str_eq(llama3->name, "llama3-h100");
  g_auto(Case) drawn = {.model = llama, .cluster = llama3, .plan = plan_new()};
  drawn.plan->dp = 8192;
  drawn.plan->zero = 1;
  drawn.plan->seq_len = 1024;
  g_autoptr(Prediction) prediction = predict_case(&drawn);
  g_autoptr(GArray) axes = axis_links_new(prediction);
  const AxisLinks *dp = find_axis(axes, AXIS_DP);
  g_autofree char *names = axis_links_names(llama3, dp->ways);
  ck_assert_str_eq(names, "scale-up links, NICs and uplinks of 3072 GPUs");
}

/* --- sizes --- */

static Scaling *scale(const Plan *plan, const gint64 *gpus, guint n, gboolean is_weak) {
  g_autoptr(GArray) sizes = g_array_new(FALSE, FALSE, sizeof(gint64));
  g_array_append_vals(sizes, gpus, n);
  g_autoptr(GError) error = NULL;
  Scaling *scaling = scaling_new(&(SpacePoint){&llama, clusters[0], plan}, sizes, is_weak, &error);
  ck_assert_msg(scaling != NULL, "%s", error != NULL ? error->message : "");
  return scaling;
}

/* FLOPs per token and peak stay, so MFU falls by the factor that GPU time per token grows by, which is the sum of what
 * its parts grew by. From 64 micro-batches per pipeline to 8 the bubble is what grew most. */
TEST(strong_scaling_of_a_pipeline_loses_to_the_bubble) {
  g_autoptr(Plan) plan = plan_with("pp=4 tp=2 seq-len=2048 global-batch=128");
  const gint64 gpus[] = {16, 32, 128};
  g_autoptr(Scaling) scaling = scale(plan, gpus, 3, FALSE);
  const ScalingSize *first = &g_array_index(scaling->sizes, ScalingSize, 0);
  const ScalingSize *last = &g_array_index(scaling->sizes, ScalingSize, 2);
  ck_assert_int_eq(first->n_micro_batches, 64);
  ck_assert_int_eq(last->n_micro_batches, 8);
  ck_assert_double_eq_tol(first->mfu / last->mfu, scaling->factor, 1e-9);
  double grew = 0, gpu_s = 0;
  for (int kind = 0; kind < N_BREAKDOWN; kind++) {
    grew += scaling->grew[kind];
    gpu_s += last->gpu_s_per_token[kind];
  }
  ck_assert_double_eq_tol(grew, scaling->factor - 1, 1e-6);
  ck_assert_double_eq_tol(gpu_s, last->gpus / last->tokens_per_s, 1e-6 * gpu_s);
  ck_assert_double_gt(scaling->factor, 1.1);
  ck_assert_int_eq(scaling->order[0], BREAKDOWN_BUBBLE);
  g_autoptr(GPtrArray) verdict = scaling_verdict(scaling, plan, 8);
  ck_assert_uint_ge(verdict->len, 2);
  ck_assert_ptr_nonnull(strstr(verdict->pdata[1], "is bubble: a pipeline has 8 micro-batches where it had 64"));
}

/* (5 − 1)/2 of a micro-batch's work is added to 64 micro-batches, then to 8: 3.1 % and 25 %. Stages are 160 GPUs apart
 * where they were 20. What grew by less than a tenth of all is left out. */
TEST(the_verdict_says_what_the_plan_makes_of_it) {
  g_autoptr(Plan) plan = plan_with("pp=5 chunks=2");
  const ScalingSize sizes[] = {{.gpus = 100, .n_micro_batches = 64, .dp = 20, .mfu = 0.5},
                               {.gpus = 800, .n_micro_batches = 8, .dp = 160, .mfu = 0.25}};
  g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(ScalingSize));
  g_array_append_vals(all, sizes, 2);
  Scaling scaling = {.sizes = all, .factor = 2};
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    scaling.order[kind] = kind;
  scaling.grew[BREAKDOWN_BUBBLE] = 0.5;
  scaling.grew[BREAKDOWN_PP] = 0.4;
  scaling.grew[BREAKDOWN_DP] = 0.09;
  g_autoptr(GPtrArray) verdict = scaling_verdict(&scaling, plan, 8);
  ck_assert_uint_eq(verdict->len, 3);
  const char *of_size = verdict->pdata[0];
  ck_assert_ptr_nonnull(strstr(of_size, "50.00 % on 100 GPUs to 25.00 % on 800: a token takes 2.000 times"));
  for (guint i = 1; i < verdict->len; i++) {
    const char *text = verdict->pdata[i];
    const gboolean is_bubble = strstr(text, "50 % of it is bubble") != NULL;
    const char *words = is_bubble ? "waiting adds 25.0 % to the work where it added 3.1 %"
                                  : "whose neighbours are 160 GPUs apart instead of 20 (a domain has 8)";
    ck_assert_msg(is_bubble || strstr(text, "40 % of it is pp") != NULL, "%s", text);
    ck_assert_msg(strstr(text, words) != NULL, "%s", text);
  }
}

/* Each pipeline keeps its micro-batches; only dp's collectives grow. */
TEST(weak_scaling_keeps_the_work_of_a_gpu) {
  g_autoptr(Plan) plan = plan_with("pp=4 seq-len=2048 global-batch=128");
  const gint64 gpus[] = {64, 256}; /* stages lie beyond a domain from each other at both */
  g_autoptr(Scaling) scaling = scale(plan, gpus, 2, TRUE);
  const ScalingSize *first = &g_array_index(scaling->sizes, ScalingSize, 0);
  const ScalingSize *last = &g_array_index(scaling->sizes, ScalingSize, 1);
  ck_assert_int_eq(last->global_batch, 512);
  ck_assert_int_eq(last->n_micro_batches, first->n_micro_batches);
  ck_assert_double_eq_tol(scaling->grew[BREAKDOWN_COMPUTE], 0, 1e-6);
  ck_assert_int_eq(scaling->order[0], BREAKDOWN_DP);
}

TEST(a_size_that_cannot_be_is_named) {
  g_autoptr(Plan) plan = plan_with("pp=4 global-batch=32");
  g_autoptr(GArray) sizes = g_array_new(FALSE, FALSE, sizeof(gint64));
  const gint64 gpus[] = {16, 24, 1024};
  g_array_append_vals(sizes, gpus, 3);
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(scaling_new(&(SpacePoint){&llama, clusters[0], plan}, sizes, FALSE, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  ck_assert_msg(g_str_has_prefix(error->message, "on 24 GPUs: "), "%s", error->message);
}

/* --- faster parts --- */

/* The step with a part twice as fast; 0: it is not said. */
static double faster_s(const Prediction *prediction, const Plan *plan, const char *what) {
  g_autoptr(GArray) steps = faster_hardware_new(prediction, plan, 2);
  for (guint i = 0; i < steps->len; i++)
    if (strcmp(g_array_index(steps, FasterStep, i).what, what) == 0)
      return g_array_index(steps, FasterStep, i).step_time_s;
  return 0;
}

/* Twice the rate takes half the bytes' time and none of the latency: gradients of 16 GPUs in 2 nodes, nothing beside
 * them, give up to half of what they are waited for, here about a fifth: a node's NICs carry 0.93 · 8 · 25 = 186 GB/s,
 * a GPU's NVLinks, narrowest then, 0.765 · 300 = 230. Products give up to half of all computing. One GPU has no link.
 */
TEST(a_part_twice_as_fast_saves_at_most_half_of_what_it_takes) {
  g_auto(Case) drawn = llama_case(1, 1, 16, 16, 512);
  drawn.plan->overlap_grad = FALSE;
  g_autoptr(Prediction) prediction = predict_case(&drawn);
  const double step_s = prediction->step_time_s, dp_s = prediction->metrics->mean_s[BREAKDOWN_DP];
  const double nics_s = faster_s(prediction, drawn.plan, "NICs and their slots twice as fast");
  ck_assert_double_gt(dp_s, 0.1 * step_s);
  ck_assert_double_lt(nics_s, step_s - 0.1 * dp_s);
  ck_assert_double_ge(nics_s, step_s - 0.5 * dp_s);
  const double products_s = faster_s(prediction, drawn.plan, "matrix units twice as fast");
  ck_assert_double_lt(products_s, step_s);
  ck_assert_double_ge(products_s, step_s - 0.5 * prediction->metrics->mean_s[BREAKDOWN_COMPUTE]);
  g_auto(Case) lone = lone_gpu();
  g_autoptr(Prediction) alone = predict_case(&lone);
  ck_assert_double_eq(faster_s(alone, lone.plan, "NICs and their slots twice as fast"), 0);
  ck_assert_double_eq(faster_s(alone, lone.plan, "scale-up links twice as fast"), 0);
  ck_assert_double_lt(faster_s(alone, lone.plan, "GPU memory twice as fast"), alone->step_time_s);
}

/* --- all of it --- */

TEST(text_and_json_say_the_same) {
  g_autoptr(Plan) plan = plan_with("tp=2 pp=2 gpus=16 seq-len=2048 global-batch=32");
  const gint64 gpus[] = {16, 64};
  g_autoptr(Scaling) scaling = scale(plan, gpus, 2, FALSE);
  g_autoptr(Prediction) prediction = predict(&llama, clusters[0], plan, NULL);
  g_autofree int *in_flight = g_new0(int, prediction->program->n_ranks);
  StepReport step = step_of_prediction(prediction, in_flight);
  g_autoptr(Explanation) explanation = explanation_new(prediction, &step, plan, NULL, 1);
  explanation->scaling = scaling;
  g_autoptr(MeasuredGap) gap = measured_gap_new(prediction, plan, 1.2 * prediction->step_time_s, 1);
  explanation->gap = gap;
  g_autofree char *json = explain_json(explanation);
  g_autoptr(JsonNode) root = json_from_string(json, NULL);
  ck_assert_ptr_nonnull(root);
  JsonObject *object = json_node_get_object(root);
  ck_assert_double_eq(json_object_get_double_member(object, "step_time_s"), prediction->step_time_s);
  ck_assert_uint_eq(json_array_get_length(json_object_get_array_member(object, "axes")), 3);
  ck_assert_uint_eq(json_array_get_length(json_object_get_array_member(object, "what_if")), explanation->each->len);
  ck_assert_double_lt(json_object_get_double_member(object, "no_bubble_s"), prediction->step_time_s);
  ck_assert_double_lt(json_object_get_double_member(object, "large_batch_s"), prediction->step_time_s);
  ck_assert_uint_eq(json_array_get_length(json_object_get_array_member(object, "faster")), explanation->faster->len);
  ck_assert_uint_ge(explanation->faster->len, 3);
  JsonObject *scaled = json_object_get_object_member(object, "scaling");
  ck_assert_double_eq(json_object_get_double_member(scaled, "gpu_time_factor"), scaling->factor);
  g_autoptr(GString) text = g_string_new(NULL);
  explain_text(text, explanation);
  ck_assert_uint_eq(json_array_get_length(json_object_get_array_member(object, "sensitivity")),
                    explanation->steps->len);
  ck_assert_ptr_nonnull(strstr(text->str, "\n  --tp                 2 → 4 "));
  JsonObject *measured = json_object_get_object_member(object, "measured");
  ck_assert_double_eq(json_object_get_double_member(measured, "step_time_s"), gap->measured_s);
  JsonArray *found = json_object_get_array_member(measured, "costs");
  ck_assert_uint_eq(json_array_get_length(found), gap->costs->len);
  for (guint i = 0; i < gap->costs->len; i++)
    ck_assert_ptr_nonnull(
        strstr(text->str, json_object_get_string_member(json_array_get_object_element(found, i), "cost")));
  JsonArray *verdict = json_object_get_array_member(scaled, "verdict");
  for (guint i = 0; i < json_array_get_length(verdict); i++)
    ck_assert_ptr_nonnull(strstr(text->str, json_array_get_string_element(verdict, i)));
  for (guint i = 0; i < explanation->chain->len; i++) /* every name of a cost stands in the text */
    ck_assert_ptr_nonnull(strstr(
        text->str, what_if_name((WhatIf)g_bit_nth_lsf(g_array_index(explanation->chain, WhatIfStep, i).without, -1))));
}

/* What a step to a framework or precision says is what the plan simulated with it says. */
TEST(frameworks_and_precisions_are_a_step_away) {
  g_autoptr(Plan) plan = plan_with("dp=8 zero=3 seq-len=2048 global-batch=8");
  Framework framework;
  ck_assert(framework_read("torchtitan", &framework, NULL));
  plan_set_framework(plan, "torchtitan", &framework);
  g_autoptr(Prediction) prediction = predict(&llama, clusters[1], plan, NULL);
  g_autofree int *in_flight = g_new0(int, prediction->program->n_ranks);
  StepReport step = step_of_prediction(prediction, in_flight);
  g_autoptr(Explanation) explanation = explanation_new(prediction, &step, plan, NULL, 1);
  ck_assert(framework_read("torchtitan-compile", &framework, NULL));
  plan_set_framework(plan, "torchtitan-compile", &framework);
  g_autoptr(Prediction) compiled = predict(&llama, clusters[1], plan, NULL);
  gboolean has_framework = FALSE, has_precision = FALSE;
  for (guint i = 0; i < explanation->steps->len; i++) {
    const Variant *at = &g_array_index(explanation->steps, Variant, i);
    if (strcmp(at->option, "--framework") == 0) {
      ck_assert_str_eq(at->to, "torchtitan-compile");
      ck_assert_double_eq(at->outcome->step_time_s, compiled->step_time_s);
      has_framework = TRUE;
    }
    has_precision |= strcmp(at->option, "--precision") == 0 && strcmp(at->to, "fp8") == 0;
  }
  ck_assert(has_framework && has_precision);
  ck_assert_double_lt(compiled->step_time_s, prediction->step_time_s);
  static const char *const variants[][2] = {{"torchtitan-compile", "torchtitan-compile-async-tp"},
                                            {"torchtitan-compile-async-tp", NULL},
                                            {"kempnerforge", "kempnerforge-compile"},
                                            {"megatron-lm", "megatron-core"},
                                            {"megatron-lm-2023", NULL},
                                            {"megatron-core-2023", NULL},
                                            {"nemo", NULL},
                                            {"nemo-tp-apart", "nemo"}};
  for (gsize i = 0; i < G_N_ELEMENTS(variants); i++) {
    g_autofree char *variant = framework_variant(variants[i][0]);
    ck_assert_pstr_eq(variant, variants[i][1]);
  }
}

/* Ranks apart and one of them slow: without it the step is the folded plan's, to the nanosecond. A plan that has none
 * says nothing. */
TEST(what_slow_ranks_and_jitter_cost_is_said) {
  g_autoptr(Plan) plan = plan_with("tp=2 dp=2 seq-len=2048 global-batch=8");
  g_autoptr(Prediction) even = predict(&llama, clusters[0], plan, NULL);
  for (int is_slow = 0; is_slow < 2; is_slow++) {
    g_autoptr(Plan) uneven = plan_copy(plan);
    const SlowRank slow = {.rank = 1, .factor = 1.3};
    if (is_slow)
      g_array_append_val(uneven->slow_ranks, slow);
    else
      uneven->jitter = 0.05;
    uneven->fold = FALSE;
    g_autoptr(Prediction) prediction = predict(&llama, clusters[0], uneven, NULL);
    g_autofree int *in_flight = g_new0(int, prediction->program->n_ranks);
    const StepReport step = step_of_prediction(prediction, in_flight);
    g_autoptr(Explanation) explanation = explanation_new(prediction, &step, uneven, NULL, 1);
    ck_assert_double_eq(explanation->even_ranks_s, even->step_time_s);
    ck_assert_double_gt(prediction->step_time_s, even->step_time_s);
    g_autoptr(GString) text = g_string_new(NULL);
    explain_text(text, explanation);
    ck_assert_ptr_nonnull(strstr(text->str, "\n  all ranks equally fast "));
  }
  g_autofree int *in_flight = g_new0(int, even->program->n_ranks);
  const StepReport step = step_of_prediction(even, in_flight);
  g_autoptr(Explanation) explanation = explanation_new(even, &step, plan, NULL, 1);
  ck_assert_double_eq(explanation->even_ranks_s, 0);
}

int main(void) {
  tcase_add_checked_fixture(listed_tests(), set_up, tear_down);
  return run_tests();
}
