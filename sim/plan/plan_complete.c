/* A plan is completed and checked in small steps, each of which may rely on those before it:
 *
 *     ranges → ranks (dp, gpus) → sizes (batch, sequence, schedule) → batch → pipeline → tensor cut → context cut
 *            → sequence → ZeRO → experts → heads → recompute → training → machine → precision → disturbances
 *            → size of the simulation
 *
 * A value that makes no sense by itself is bad usage (INPUT); values that clash are IMPOSSIBLE, and both are
 * named. */
#include <math.h>
#include <string.h>

#include "error.h"
#include "pipeline_layout.h"
#include "plan.h"
#include "plan_fields.h"
#include "plan_schedule.h"
#include "rank_map.h"
#include "units.h"

enum { MOST_MICRO_BATCHES = 1000000, DEFAULT_SEQ_LEN = 2048, MOST_DEFAULT_SEQ_LEN = 4096 };
/* The second step starts from the first one's end state; the third repeats it. */
enum { STEPS_TO_STEADY = 3 };
static const gint64 most_micro_batch_tokens = G_MAXINT32;
/* Passes of layers with their own ops (some 700 bytes each), in addition to PLAN_MOST_PASSES; and on ranks apart, which
 * share ops and have records of them. */
static const double most_layer_passes = 8e6, most_passes_apart = 40e6;
/* A thousand such steps at a thousandth of the peak still fit in int64 nanoseconds. */
static const double most_step_s_at_peak = 1e6;

typedef gboolean (*Step)(Plan *plan, const Model *model, const Cluster *cluster, GError **error);

/* "tp 2 × cp 4 × pp 8", cp only if above 1; owned by the caller. */
static char *model_ranks_text(const Plan *plan) {
  g_autofree char *cp = plan->cp > 1 ? g_strdup_printf(" × cp %d", plan->cp) : g_strdup("");
  return g_strdup_printf("tp %d%s × pp %d", plan->tp, cp, plan->pp);
}

static gboolean fail_ranks(const Plan *plan, double model_ranks, gboolean is_divided, GError **error) {
  g_autofree char *text = model_ranks_text(plan);
  const double ranks = model_ranks * plan->dp;
  if (!is_divided)
    return fail_impossible(error, "gpus %d is not a multiple of %s = %.0f", plan->gpus, text, model_ranks);
  if (plan->gpus != 0 && ranks != plan->gpus)
    return fail_impossible(error, "%s × dp %d = %.0f is not gpus %d", text, plan->dp, ranks, plan->gpus);
  return fail_impossible(error, "%s × dp %d = %.0f GPUs, at most %d are modelled", text, plan->dp, ranks,
                         PLAN_MOST_RANKS);
}

static gboolean complete_ranks(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  const double model_ranks = (double)plan->tp * plan->cp * plan->pp;
  const gboolean is_divided = plan->dp != 0 || fmod(plan->gpus, model_ranks) == 0;
  if (plan->dp == 0)
    plan->dp = MAX(1, (int)(plan->gpus / model_ranks));
  const double ranks = model_ranks * plan->dp;
  if (!is_divided || (plan->gpus != 0 && ranks != plan->gpus) || ranks > PLAN_MOST_RANKS)
    return fail_ranks(plan, model_ranks, is_divided, error);
  plan->gpus = (int)ranks;
  if (plan->islands == 0)
    plan->islands = plan->local_steps > 1 ? plan->dp : 1;
  return plan->dp % plan->islands == 0 ||
         fail_impossible(error, "islands %d does not divide dp %d", plan->islands, plan->dp);
}

/* What the plan says of kernels and loss takes the place of what its framework does, with what that holds in memory. */
static void choose_kernels(Plan *plan) {
  static const double plain_norm_bytes = 4; /* of transformers' operations: deepspeed-transformers.yaml */
  FrameworkMemory *memory = &plan->memory;
  if (plan->layer_kernels >= 0)
    plan->time.kernels = memory->kernels = plan->layer_kernels;
  if (plan->layer_kernels >= 0 || plan->norm_kernel >= 0)
    memory->norm_bytes = !plan_has_plain_norm(plan) ? 0
                         : memory->norm_bytes > 0   ? memory->norm_bytes
                                                    : plain_norm_bytes;
  plan->layer_kernels = plan->time.kernels;
  if (plan->loss >= 0 && plan->loss != plan->time.loss) {
    plan->time.loss = plan->loss;
    memory->logits = plan->loss == LOSS_PLAIN ? LOGITS_WHOLE : LOGITS_SPLIT;
    memory->logit_bytes = 0;
  }
  plan->loss = plan->time.loss;
}

/* Workers of asynchronous servers drift apart until the bound on that holds the first ones. */
static int steps_apart(const Plan *plan) {
  enum { FEW = 11, MOST = 100 };
  return plan->servers.is_async ? MIN(FEW + 2 * MAX(plan->servers.staleness, 0), MOST) : 0;
}

/* By default four micro-batches per pipeline rank: that keeps the bubble, (p − 1)/m, below a quarter. */
static gboolean complete_sizes(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  if (plan->micro_batch == 0)
    plan->micro_batch = 1;
  if (plan->global_batch == 0)
    plan->global_batch = plan->micro_batch * plan->dp * (plan->pp > 1 ? 4 * (gint64)plan->pp : 1);
  if (plan->seq_len == 0) {
    gint64 positions = model != NULL && model->max_positions > 0 ? model->max_positions : DEFAULT_SEQ_LEN;
    plan->seq_len = MIN(positions, MOST_DEFAULT_SEQ_LEN);
  }
  plan_default_schedule(plan);
  if (plan->chunks == 0)
    plan->chunks = 1;
  if (plan->overlap_p2p < 0)
    plan->overlap_p2p = FALSE;
  if (plan->time.data_parallel == DP_ALONE)
    plan->overlap_grad = plan->overlap_param = FALSE;
  if (plan_overlaps_shards(plan))
    plan->overlap_grad = plan->overlap_param = TRUE;
  choose_kernels(plan);
  plan->norm_kernel = plan_has_plain_norm(plan) ? FRAMEWORK_KERNELS_PLAIN : FRAMEWORK_KERNELS_FUSED;
  plan_complete_experts(plan, model, cluster);
  if (plan->grad_norm_barrier < 0)
    plan->grad_norm_barrier = TRUE;
  if (plan->steps == 0)
    plan->steps = ((plan->grad_norm_barrier || plan->pp == 1) && plan->data.sample_bytes == 0 ? 1 : STEPS_TO_STEADY) +
                  plan_steps_before_outer(plan) + steps_apart(plan);
  if (plan->bucket_parameters == 0) /* Megatron-LM's DDP default, core v0.5 (2024-02) */
    plan->bucket_parameters = MAX(40000000, 1000000 * (gint64)plan_data_ranks(plan));
  return TRUE;
}

static gboolean check_batch(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  gint64 batch_at_once = plan->micro_batch * plan->dp;
  if (plan->global_batch % batch_at_once != 0)
    return fail_impossible(error,
                           "global-batch %" INT64 " is not a multiple of micro-batch %" INT64 " × dp %d = %" INT64,
                           plan->global_batch, plan->micro_batch, plan->dp, batch_at_once);
  plan->n_micro_batches = plan->global_batch / batch_at_once;
  if (plan->n_micro_batches > MOST_MICRO_BATCHES)
    return fail_impossible(error,
                           "global-batch %" INT64 " / (micro-batch %" INT64 " × dp %d) = %" INT64
                           " micro-batches, at most %d are modelled",
                           plan->global_batch, plan->micro_batch, plan->dp, plan->n_micro_batches, MOST_MICRO_BATCHES);
  if (plan->micro_batch * plan->seq_len > most_micro_batch_tokens)
    return fail_impossible(error, "micro-batch %" INT64 " × seq-len %" INT64 " tokens, at most %" INT64 " are modelled",
                           plan->micro_batch, plan->seq_len, most_micro_batch_tokens);
  return TRUE;
}

static gboolean check_layout(const Plan *plan, const Model *model, int n_stages, GError **error) {
  const PipelineCounts counts = {(int)model->n_layers, plan->mtp_layers, n_stages};
  g_autofree int *layers = g_new(int, (gsize)n_stages);
  return pipeline_layout_deal(plan->pipeline_layout, &counts, layers, error);
}

gboolean plan_check_pipeline(const Plan *plan, const Model *model, GError **error) {
  if (plan->pipeline_layout != NULL && !pipeline_layout_check(plan->pipeline_layout, error)) {
    g_prefix_error(error, "pipeline-layout: ");
    return FALSE;
  }
  gint64 n_stages = (gint64)plan->pp * plan->chunks / plan->n_pipes;
  if (model == NULL)
    return TRUE;
  /* two more stages than layers is Megatron's other split, embedding and head as stages of their own; an explicit
   * layout may also have one more */
  const gboolean is_open = pipeline_layout_is_open(plan->pipeline_layout);
  if (n_stages > model->n_layers && n_stages != model->n_layers + 2 && (is_open || n_stages > model->n_layers + 2))
    return fail_impossible(
        error, "pp %d × chunks %d = %" INT64 " stages are more than the %" INT64 " layers of model %s%s", plan->pp,
        plan->chunks, n_stages, model->n_layers, model->name,
        n_stages == model->n_layers + 1 ? "; with pipeline-layout loss the head is one of them" : "");
  return is_open || check_layout(plan, model, (int)n_stages, error);
}

static gboolean check_pipeline(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  return plan_check_pipeline(plan, model, error);
}

static gboolean check_tensor_cut(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  if (model == NULL)
    return TRUE;
  const struct {
    const char *what;
    gint64 count;
  } cut[] = {{"attention heads", model->n_heads},
             {"hidden size", model->hidden},
             {"MLP hidden size", model_has_experts(model) ? model->hidden : model->ffn_hidden}};
  for (size_t i = 0; i < G_N_ELEMENTS(cut); i++)
    if (cut[i].count % plan->tp != 0)
      return fail_impossible(error, "tp %d does not divide the %s %" INT64 " of model %s", plan->tp, cut[i].what,
                             cut[i].count, model->name);
  /* With fewer key-value heads than ranks, tp / n_kv_heads ranks hold each head, as in Megatron-LM. */
  if (model->n_kv_heads % plan->tp != 0 && plan->tp % model->n_kv_heads != 0)
    return fail_impossible(error,
                           "tp %d neither divides nor is a multiple of the key-value heads %" INT64 " of model %s",
                           plan->tp, model->n_kv_heads, model->name);
  return TRUE;
}

/* Ulysses gives each cp rank the same number of heads of Q and, of K and V, either some or, if there are fewer heads
 * than ranks, a copy of one. */
static gboolean check_heads_dealt(const Plan *plan, const Model *model, GError **error) {
  const gint64 heads = model->n_heads / plan->tp, kv_heads = MAX(1, model->n_kv_heads / plan->tp);
  if (heads % plan->cp == 0 && (kv_heads % plan->cp == 0 || plan->cp % kv_heads == 0))
    return TRUE;
  return fail_impossible(
      error,
      "cp-comm ulysses deals out heads: cp %d does not divide the %" INT64 " heads that tp %d leaves "
      "a rank of model %s, or is neither a divisor nor a multiple of its %" INT64 " key-value heads; %s",
      plan->cp, heads, plan->tp, model->name, kv_heads,
      model_window(model, plan->seq_len) > 0 ? "expected a cp that does and is" : "use ring or all_gather");
}

/* Attention cut by cp needs a kernel that handles blocks of keys and returns what it takes to merge them. Under a
 * causal mask all ranks have equal work if each has one early and one late piece of the sequence's 2·cp. */
static gboolean check_context(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  if (plan->cp == 1)
    return TRUE;
  if (plan->attention != ATTENTION_FLASH)
    return fail_impossible(error, "cp %d needs --attention flash: found %s", plan->cp,
                           attention_names()[plan->attention]);
  if (plan->seq_len % (2 * (gint64)plan->cp) != 0)
    return fail_impossible(error,
                           "seq-len %" INT64 " is not a multiple of 2 × cp %d: each rank takes one early and one late "
                           "piece of a sequence, so that a causal mask leaves all the same work",
                           plan->seq_len, plan->cp);
  return model == NULL || plan->cp_comm != CP_ULYSSES || check_heads_dealt(plan, model, error);
}

static gboolean check_sequence(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  if (plan->sequence_parallel && plan->cp > 1 && plan->seq_len / plan->cp % plan->tp != 0)
    return fail_impossible(error, "sequence-parallel on: tp %d does not divide seq-len %" INT64 " / cp %d = %" INT64,
                           plan->tp, plan->seq_len, plan->cp, plan->seq_len / plan->cp);
  if (plan->sequence_parallel && plan->seq_len % plan->tp != 0)
    return fail_impossible(error, "sequence-parallel on: tp %d does not divide seq-len %" INT64, plan->tp,
                           plan->seq_len);
  if (model == NULL)
    return TRUE;
  if (model->positions == POSITIONS_LEARNED && plan->seq_len > model->max_positions)
    return fail_impossible(error, "seq-len %" INT64 " is beyond the %" INT64 " learned positions of model %s",
                           plan->seq_len, model->max_positions, model->name);
  const gint64 window = model_window(model, plan->seq_len);
  if (window > 0 && model->some_windowed)
    return fail_impossible(error,
                           "seq-len %" INT64 " is beyond the attention window %" INT64
                           " of some layers of model %s: layers that attend differently are not modelled",
                           plan->seq_len, window, model->name);
  if (window > 0 && plan->cp > 1 && plan->cp_comm == CP_RING)
    return fail_impossible(error,
                           "cp-comm %s: seq-len %" INT64 " is beyond the attention window %" INT64
                           " of model %s, whose keys are not all other ranks'; expected cp-comm all_gather or ulysses",
                           cp_comm_names()[plan->cp_comm], plan->seq_len, window, model->name);
  return TRUE;
}

static gboolean check_zero(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  int data_ranks = plan_data_ranks(plan);
  if (!zero_shards_optimizer(plan->zero) && plan->zero_ranks != 0 && plan->zero_ranks != data_ranks)
    return fail_impossible(error, "zero-ranks %d says how far shards span, but zero 0 shards nothing",
                           plan->zero_ranks);
  if (plan->zero_ranks == 0)
    plan->zero_ranks = data_ranks;
  if (plan->cp > 1 && plan->zero_ranks % plan->cp != 0)
    return fail_impossible(error, "zero-ranks %d is not a multiple of cp %d: shards span the ranks of cp first",
                           plan->zero_ranks, plan->cp);
  if (data_ranks % plan->zero_ranks != 0)
    return fail_impossible(error, "zero-ranks %d does not divide dp%s %d", plan->zero_ranks,
                           plan->cp > 1 ? " × cp" : "", data_ranks);
  return TRUE;
}

static gboolean check_islands(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  return plan_check_islands(plan, error) && plan_check_servers(plan, cluster, error);
}

static gboolean check_experts(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  return plan_check_experts(plan, model, error);
}

static gboolean check_mtp(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  if (model != NULL && plan->mtp_layers > model->n_next_layers)
    return fail_impossible(error, "mtp-layers %d: the config of model %s has %" INT64 " multi-token prediction layers",
                           plan->mtp_layers, model->name, model->n_next_layers);
  if (model != NULL && plan->mtp_layers > 0 && model->other_next_layers)
    return fail_impossible(error,
                           "mtp-layers %d: what predicts a token further in model %s is not one more layer of its last "
                           "kind, and not modelled",
                           plan->mtp_layers, model->name);
  return TRUE;
}

static gboolean check_recompute(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  return plan_complete_recompute(plan, model, error);
}

static gboolean check_training(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  return plan_check_training(plan, model, error);
}

static gboolean check_machine(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  if (plan->rank_map != NULL && !rank_map_check(plan->rank_map, plan->gpus, cluster, error))
    return FALSE;
  if (cluster == NULL)
    return TRUE;
  if (plan->rank_map == NULL && plan->gpus > cluster->gpus_per_node && plan->gpus % cluster->gpus_per_node != 0)
    return fail_impossible(error, "gpus %d is not whole nodes: cluster %s has %d GPUs per node", plan->gpus,
                           cluster->name, cluster->gpus_per_node);
  if (plan->rank_map == NULL && plan->gpus > cluster->domain_gpus && cluster->nics_per_node == 0)
    return fail_impossible(error, "gpus %d need a network: cluster %s joins %d GPUs and has no NICs", plan->gpus,
                           cluster->name, cluster->domain_gpus);
  if (cluster->max_gpus > 0 && plan->gpus > cluster->max_gpus)
    return fail_impossible(error, "gpus %d is more than the %" INT64 " GPUs of cluster %s", plan->gpus,
                           cluster->max_gpus, cluster->name);
  return cluster_check_joined(cluster, error); /* what faults leave depends on the job's GPUs, known from here on */
}

static gboolean check_peaks(const Plan *plan, const Gpu *gpu, const Cluster *cluster, GError **error) {
  const PrecisionInfo *info = precision_info(plan->precision);
  const Number needed[] = {info->linear, info->element};
  for (size_t i = 0; i < G_N_ELEMENTS(needed); i++)
    if (!(gpu->peak_flops[needed[i]] > 0))
      return fail_impossible(error, "precision %s multiplies in %s, which GPU %s of cluster %s has no peak rate for",
                             info->name, number_name(needed[i]), gpu->name, cluster->name);
  return TRUE;
}

static gboolean check_precision(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  if (cluster == NULL)
    return TRUE;
  gboolean ok = check_peaks(plan, &cluster->gpu, cluster, error);
  for (int i = 0; ok && i < cluster_other_gpus(cluster, rank_map_extent(plan->rank_map, plan->gpus)); i++)
    ok = check_peaks(plan, &g_array_index(cluster->other_gpus, GpuRange, i).gpu, cluster, error);
  return ok;
}

/* Ranks that differ cannot be folded into one representative. */
static gboolean check_disturbances(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  for (guint i = 0; i < plan->slow_ranks->len; i++) {
    const SlowRank *slow = &g_array_index(plan->slow_ranks, SlowRank, i);
    if (slow->rank < 0 || slow->rank >= plan->gpus)
      return fail_impossible(error, "slow-rank %d is not one of gpus %d (ranks 0 to %d)", slow->rank, plan->gpus,
                             plan->gpus - 1);
    if (!(slow->factor >= 0.1 && slow->factor <= 100))
      return fail_input(error, "slow-rank %d: found factor %g, expected 0.1 to 100", slow->rank, slow->factor);
  }
  gboolean is_mixed = cluster != NULL && cluster_other_gpus(cluster, rank_map_extent(plan->rank_map, plan->gpus)) > 0;
  if (plan->jitter > 0 || plan->slow_ranks->len > 0 || is_mixed)
    plan->fold = FALSE;
  return TRUE;
}

/* Every run has the passes of every stage. */
static gboolean check_passes(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  if (cluster == NULL)
    return TRUE; /* nothing will run */
  double passes = (double)plan->pp * plan->chunks * plan->n_micro_batches * plan->steps;
  if (passes <= PLAN_MOST_PASSES && passes / plan->steps * plan->pp <= PLAN_MOST_LOOKS)
    return TRUE;
  return fail_impossible(error,
                         "pp %d × chunks %d × %" INT64 " micro-batches × steps %d = %.4g forward passes: at most %d "
                         "are simulated, at pp %d at most %d in a step",
                         plan->pp, plan->chunks, plan->n_micro_batches, plan->steps, passes, PLAN_MOST_PASSES, plan->pp,
                         MIN(PLAN_MOST_PASSES, PLAN_MOST_LOOKS / plan->pp));
}

/* A layer has its own ops where its gradients are reduced or its parameters gathered: in every micro-batch from
 * ZeRO-2 on, and if cp cuts attention or ep the experts; without folding, on every rank. */
static gboolean check_layer_passes(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  if (cluster == NULL || model == NULL)
    return TRUE;
  double layers = (double)model->n_layers * plan->steps;
  const gboolean of_replicas = plan->fold && plan_has_unequal(plan) && plan->dp > 1;
  gint64 micro_batches = zero_shards_gradients(plan->zero) || plan->cp > 1 || plan->ep > 1 || !plan->fold ||
                                 of_replicas || plan->offload.activations != TIER_GPU
                             ? plan->n_micro_batches
                             : 1;
  const double ranks = of_replicas ? plan->dp : plan->fold ? 1 : (double)plan->tp * plan_data_ranks(plan);
  const double most = plan->fold && !of_replicas ? most_layer_passes : most_passes_apart;
  if (plan->cp_comm == CP_RING)
    layers *= plan->cp; /* each step of the ring has its own ops */
  if (layers * micro_batches * ranks <= most)
    return TRUE;
  g_autofree char *ring =
      plan->cp_comm == CP_RING && plan->cp > 1 ? g_strdup_printf(" × %d steps of the ring", plan->cp) : g_strdup("");
  const char *why = of_replicas  ? "every rank of dp apart (--seq-lengths)"
                    : plan->fold ? "layer by layer"
                                 : "every rank apart (--fold off, --jitter or --slow-rank)";
  return fail_impossible(error,
                         "%s: %" INT64 " layers%s × %" INT64
                         " micro-batches × steps %d × %.0f ranks = %.4g, at most %.0f "
                         "are simulated; use fewer micro-batches or steps%s",
                         why, model->n_layers, ring, micro_batches, plan->steps, ranks, layers * micro_batches * ranks,
                         most, plan->fold ? "" : ", or fold the run");
}

/* Two FLOPs per parameter and token, plus attention; forward once, backward twice that. */
static gboolean check_length(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  if (cluster == NULL || model == NULL)
    return TRUE;
  double attention = 2.0 * model->n_layers * model->n_heads * model->head_dim * plan->seq_len;
  double flops = 6 * (model_active_parameters(model) + attention) * plan->global_batch * plan->seq_len;
  double step_s = flops / plan->gpus / cluster->gpu.peak_flops[precision_info(plan->precision)->linear];
  if (step_s <= most_step_s_at_peak)
    return TRUE;
  return fail_impossible(error,
                         "global-batch %" INT64 " × seq-len %" INT64 " of model %s keep %d GPUs busy for %.3g days at "
                         "their peak: at most %.3g days are simulated",
                         plan->global_batch, plan->seq_len, model->name, plan->gpus, step_s / 86400,
                         most_step_s_at_peak / 86400);
}

static gboolean check_offload(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  if (plan->offload.optimizer != TIER_GPU && plan_reduces_once(plan))
    return fail_impossible(error,
                           "offload-optimizer is not modelled with the whole gradients that framework %s keeps %s "
                           "(zero %d, pp %d): use zero 1",
                           plan->framework, plan->pp > 1 ? "in a pipeline" : "over micro-batches", plan->zero,
                           plan->pp);
  return plan_check_offload(plan, cluster, error) && plan_check_data(plan, cluster, error) &&
         plan_check_compression(plan, error);
}

static gboolean check_lengths(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  return plan_check_lengths(plan, error);
}

gboolean plan_complete_ranks(Plan *plan, GError **error) {
  return plan_fields_check_ranges(plan, error) && complete_ranks(plan, NULL, NULL, error);
}

gboolean plan_complete_batch(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  return plan_complete_ranks(plan, error) && complete_sizes(plan, model, cluster, error) &&
         check_batch(plan, model, cluster, error);
}

gboolean plan_complete(Plan *plan, const Model *model, const Cluster *cluster, GError **error) {
  static const Step steps[] = {
      complete_ranks, complete_sizes,     check_batch,     check_pipeline,     check_tensor_cut, check_context,
      check_sequence, check_islands,      check_zero,      check_experts,      check_mtp,        check_recompute,
      check_training, check_machine,      check_precision, check_disturbances, check_offload,    check_lengths,
      check_passes,   check_layer_passes, check_length,
  };
  if (!plan_fields_check_ranges(plan, error) || !plan_open_schedule(plan, error))
    return FALSE;
  for (size_t i = 0; i < G_N_ELEMENTS(steps); i++)
    if (!steps[i](plan, model, cluster, error))
      return FALSE;
  return TRUE;
}

double plan_gpu_power_W(const Plan *plan, const Cluster *cluster) {
  const int n_others = cluster_other_gpus(cluster, rank_map_extent(plan->rank_map, plan->gpus));
  for (int i = 0; i < n_others; i++)
    if (g_array_index(cluster->other_gpus, GpuRange, i).gpu.power_W != cluster->gpu.power_W)
      return 0;
  return cluster->gpu.power_W;
}
