/* A table of rules, one per part of the step: if the part's share exceeds a threshold, its rule says why and what
 * would change it. Numbers come from the report itself:
 *
 *     bubble    for most orders and equal stages, the idle time is that of a fixed number of micro-batches (p − 1 for
 *               1F1B, divided by v with v chunks). Of the bubble b, the part due to uneven stages, u, recurs with
 *               every micro-batch. With r the rest of the step, doubling the micro-batches or the chunks leaves
 *               (u + (b − u)/2) / (r + u + (b − u)/2)  of the step idle.
 *     kernels   hfu · step / (compute + recompute) is the share of peak reached while kernels run. */
#include "advice.h"

#include "pipeline_layout.h"
#include "units.h"

typedef struct {
  const StepReport *report;
  double share; /* of the step */
} Case;

typedef struct {
  BreakdownKind kind;
  double threshold; /* share of the step worth mentioning */
  void (*advise)(const Case *c, GString *out);
} Rule;

static const double worth_a_word = 0.01; /* of the step: unevenness of stages, what advice gains */

/* Whether ZeRO goes with the plan. */
static gboolean may_shard(const Plan *plan) {
  return !servers_are_used(&plan->servers) && plan->compression.kind == COMPRESS_NONE;
}

static gboolean may_offload(const Plan *plan) {
  return may_shard(plan) && plan->islands <= 1 && plan->data.sample_bytes == 0 && plan->batching == BATCHING_PADDED &&
         training_is_of_all(&plan->training);
}

static double percent(double share) {
  return 100 * share;
}

/* Whether layers are redistributed for other numbers of stages: an explicit list fits only its own number. */
static gboolean has_any_layout(const Plan *plan) {
  return plan->pipeline_layout == NULL || pipeline_layout_is_balanced(plan->pipeline_layout);
}

/* Whether doubling the chunks halves the bubble. Not for zero-bubble orders, whose bubble is smaller than
 * interleaving leaves; not with fewer micro-batches than ranks, which do not fill its rounds; not if stages differ
 * (two layers may go to embedding and head), since they wait for each other. */
static gboolean may_interleave(const Case *c) {
  const Plan *plan = c->report->plan;
  const gint64 n_stages = (gint64)plan->pp * 2 * plan->chunks, n_layers = c->report->n_layers;
  return !plan_schedule(plan)->defers_w && has_any_layout(plan) && plan->n_micro_batches >= plan->pp &&
         n_stages <= n_layers + 2 && (n_layers % n_stages == 0 || (n_layers + 2) % n_stages == 0);
}

static double share_of(const Case *c, BreakdownKind kind) {
  return c->report->breakdown_s[kind] / c->report->step_time_s;
}

/* Whether the idle time is due to the order and its stages, so that its reduction can be predicted. Waits of stages
 * while hosts issue kernels, or while weights and gradients move for each micro-batch, are equally long in every
 * micro-batch and chunk; so are delays by a slow rank. Within these limits the predicted share was within 4 points in
 * 258 of 260 pieces of advice for random plans, when followed. */
static gboolean bubble_is_of_order(const Case *c) {
  const Plan *plan = c->report->plan;
  const gboolean has_slow = plan->slow_ranks != NULL && plan->slow_ranks->len > 0;
  return !has_slow && share_of(c, BREAKDOWN_HOST) < 0.03 && share_of(c, BREAKDOWN_DP) < 0.1 &&
         !zero_shards_gradients(plan->zero) && plan_schedule(plan)->bubble != BUBBLE_VARIES;
}

static void advise_bubble(const Case *c, GString *out) {
  const Plan *plan = c->report->plan;
  const double uneven = c->report->uneven_s / c->report->step_time_s;
  const double left = uneven + (c->share - uneven) / 2, halved = left / (1 - c->share + left);
  g_string_append_printf(out, "pipeline bubble: %.1f %% of the step is spent waiting for other stages (pp %d",
                         percent(c->share), plan->pp);
  if (plan->chunks > 1)
    g_string_append_printf(out, " × %d chunks", plan->chunks);
  units_append_count(g_string_append(out, ", "), plan->n_micro_batches, "micro-batch", "micro-batches");
  g_string_append_c(out, ')');
  if (plan->pp > 1 && uneven >= worth_a_word)
    g_string_append_printf(out, ", %.1f %% because stages are unequal%s", percent(uneven),
                           plan->pipeline_layout == NULL ? " (--pipeline-layout balanced deals layers out by FLOPs)"
                                                         : "");
  g_string_append_c(out, '.');
  if (plan->pp == 1) {
    g_string_append(out, " With one stage this is ranks waiting for the slowest one.");
    return;
  }
  if (plan_schedule(plan)->bubble == BUBBLE_GROWS || c->share - halved < worth_a_word)
    return;
  g_string_append_printf(out, " %" G_GINT64_FORMAT " micro-batches (smaller --micro-batch or larger --global-batch)",
                         2 * plan->n_micro_batches);
  if (may_interleave(c))
    g_string_append_printf(out, " or --schedule interleaved --chunks %d", 2 * plan->chunks);
  if (bubble_is_of_order(c))
    g_string_append_printf(out, " would leave about %.1f %%.", percent(halved));
  else
    g_string_append(out, " would leave less.");
}

/* Halving tp or cp on the same GPUs doubles dp, over which the batch must then divide. */
static gboolean may_halve(const Plan *plan, int size) {
  return size % 2 == 0 && plan->global_batch % (plan->micro_batch * plan->dp * 2) == 0;
}

/* Whether sequence parallelism is off and tp divides a rank's part of a sequence. */
static gboolean may_cut_sequences(const Plan *plan) {
  return plan->tp > 1 && !plan->sequence_parallel && plan->seq_len % plan->cp == 0 &&
         plan->seq_len / plan->cp % plan->tp == 0;
}

static void advise_tp(const Case *c, GString *out) {
  const Plan *plan = c->report->plan;
  g_string_append_printf(out, "tensor parallelism: %.1f %% of the step is exposed tp communication (tp %d).",
                         percent(c->share), plan->tp);
  if (plan->jitter > 0 || (plan->slow_ranks != NULL && plan->slow_ranks->len > 0))
    g_string_append(out, " This includes waiting for the slower ranks of a group.");
  if (c->report->domain_gpus > 0 && plan->tp > c->report->domain_gpus)
    g_string_append_printf(out, " tp %d reaches beyond the %d GPUs of a scale-up domain: keep it inside.", plan->tp,
                           c->report->domain_gpus);
  else if (may_halve(plan, plan->tp))
    g_string_append_printf(out, " --tp %d would send less and run larger products, if it fits in memory.",
                           plan->tp / 2);
  if (may_cut_sequences(plan))
    g_string_append(out, " --sequence-parallel on cuts norms and dropout by tp at the same traffic.");
}

static void advise_cp(const Case *c, GString *out) {
  const Plan *plan = c->report->plan;
  g_string_append_printf(out, "context parallelism: %.1f %% of the step is exposed cp communication (cp %d, %s).",
                         percent(c->share), plan->cp, cp_comm_names()[plan->cp_comm]);
  int reach = plan->tp * plan->cp;
  if (c->report->domain_gpus > 0 && plan->order[0] == AXIS_TP && plan->order[1] == AXIS_CP &&
      reach > c->report->domain_gpus)
    g_string_append_printf(out, " tp × cp = %d reaches beyond the %d GPUs of a scale-up domain.", reach,
                           c->report->domain_gpus);
  if (plan->cp_comm != CP_RING)
    g_string_append(out, " --cp-comm ring overlaps it with attention.");
  if (may_halve(plan, plan->cp))
    g_string_append_printf(out, " --cp %d would send less, if its activations fit in memory.", plan->cp / 2);
}

/* The most GPUs of each scale-up domain that a job of `gpus` can use in whole groups of `reach`; 0: none. */
static int largest_segment(const Cluster *cluster, int gpus, int reach) {
  Cluster cut = *cluster; /* shares all with it */
  for (int segment = cluster->domain_gpus - 1; segment > 0; segment--) {
    cut.segment_gpus = segment;
    if (segment % reach == 0 && segment % cluster->gpus_per_node == 0 && cluster_job_domain(&cut, gpus) == segment)
      return segment;
  }
  return 0;
}

/* Neighbouring ranks in groups of `reach`, if a scale-up domain does not hold a whole number of them. */
static void advise_whole_groups(const Case *c, int reach, GString *out) {
  const Plan *plan = c->report->plan;
  const Cluster *cluster = c->report->cluster;
  const int domain_gpus = c->report->domain_gpus;
  if (cluster == NULL || plan->rank_map != NULL || plan->gpus <= domain_gpus || domain_gpus % reach == 0)
    return;
  g_string_append_printf(out,
                         " Groups of %d do not divide the %d GPUs of a scale-up domain: those that lie in two domains "
                         "use the network, and all wait for them.",
                         reach, domain_gpus);
  const int segment = largest_segment(cluster, plan->gpus, reach);
  if (cluster->segment_gpus < domain_gpus)
    g_string_append_printf(out,
                           " The cluster's segment of %d is not taken: it needs a job of whole segments, and whole "
                           "domains under leaves and tiers (stepsim topology).",
                           cluster->segment_gpus);
  else if (segment > 0)
    g_string_append_printf(out, " `segment: %d` in the cluster's scale_up takes that many of each.", segment);
}

static void advise_ep(const Case *c, GString *out) {
  const Plan *plan = c->report->plan;
  const int domain_gpus = c->report->domain_gpus, reach = plan_expert_tp(plan) * plan->ep;
  g_string_append_printf(out, "experts: %.1f %% of the step waits for token exchanges (ep %d).", percent(c->share),
                         plan->ep);
  if (domain_gpus > 0 && reach > domain_gpus)
    g_string_append_printf(out,
                           " It reaches beyond the %d GPUs of a scale-up domain: a smaller --ep would stay inside, if "
                           "its experts fit in memory.",
                           domain_gpus);
  else if (plan->order[0] == AXIS_TP && plan->order[1] == AXIS_CP && plan->order[2] == AXIS_EP)
    advise_whole_groups(c, reach, out);
  if (plan_expert_tp(plan) > 1 && (domain_gpus == 0 || reach <= domain_gpus) && c->report->n_experts > 0 &&
      c->report->n_experts % reach == 0)
    g_string_append_printf(
        out, " --expert-tp 1 --ep %d keeps experts whole in as much memory, without exchanges over tp.", reach);
  if (plan->pp % 2 == 0 && !plan_schedule(plan)->has_pairs)
    g_string_append(out, " --schedule dualpipe overlaps it with the compute of another micro-batch.");
}

static void advise_dp(const Case *c, GString *out) {
  const Plan *plan = c->report->plan;
  g_string_append_printf(out, "data parallelism: %.1f %% of the step is exposed dp communication (dp %d, ZeRO-%d).",
                         percent(c->share), plan->dp, plan->zero);
  const gboolean may_overlap = plan->time.data_parallel != DP_ALONE;
  if (!may_overlap)
    g_string_append_printf(out, " %s does not overlap its collectives.", plan->framework);
  if (!plan->overlap_grad && may_overlap)
    g_string_append(out, " --overlap-grad on overlaps gradient collectives with backward.");
  if (zero_shards_optimizer(plan->zero) && !plan->overlap_param && may_overlap)
    g_string_append(out, " --overlap-param on overlaps parameter gathers with forward.");
  if (zero_shards_weights(plan->zero))
    g_string_append(out, " --zero 1 gathers parameters once a step, if the weights fit.");
  else if (plan->zero == 2 && !plan_reduces_once(plan) && plan->n_micro_batches > 1)
    g_string_append(out, " --zero 1 reduces gradients once a step instead of once a micro-batch.");
  g_string_append(out, " A larger --global-batch spreads it over more work.");
}

static void advise_pp(const Case *c, GString *out) {
  const Plan *plan = c->report->plan;
  g_string_append_printf(out, "pipeline transfers: %.1f %% of the step waits for activations on the wire.",
                         percent(c->share));
  if (plan->chunks % 2 == 0 && schedule_loops(plan_schedule(plan)) && has_any_layout(plan))
    g_string_append_printf(out, " --chunks %d sends half as often.", plan->chunks / 2);
  g_string_append(out, " Neighbouring stages on one node send over its links instead of the network (--order).");
}

static void advise_host(const Case *c, GString *out) {
  if (c->report->plan->cuda_graphs == CUDA_GRAPHS_FULL) {
    g_string_append_printf(
        out, "host: %.1f %% of the step waits for the host. A larger --global-batch replays longer steps.",
        percent(c->share));
    return;
  }
  g_string_append_printf(
      out,
      "host: %.1f %% of the step waits for kernel launches. A larger --micro-batch (now %" G_GINT64_FORMAT
      ") makes kernels longer; --cuda-graphs full%s makes launches fewer.",
      percent(c->share), c->report->plan->micro_batch,
      c->report->plan->ep > 1 && c->report->plan->cuda_graphs != CUDA_GRAPHS_ATTENTION ? " or attention" : "");
}

static void advise_offload(const Case *c, GString *out) {
  const Offload *offload = &c->report->plan->offload;
  g_string_append_printf(out, "offload: %.1f %% of the step waits for host memory or drives.", percent(c->share));
  if (offload->activations != TIER_GPU)
    g_string_append(out, " --recompute full leaves less to copy than all that layers save.");
  if (offload->weights != TIER_GPU)
    g_string_append_printf(out, " A larger --micro-batch (now %" G_GINT64_FORMAT ") fetches weights less often.",
                           c->report->plan->micro_batch);
  if (offload_uses(offload, TIER_NVME))
    g_string_append(out, " host instead of nvme is faster where it fits.");
  if (offload->optimizer != TIER_GPU)
    g_string_append(out, " A larger --global-batch does more between updates.");
}

/* Keeping every other product is not modelled with experts. */
static gboolean may_be_selective(const Plan *plan) {
  return plan->memory.selective != SELECTIVE_PRODUCTS || plan->ep == 1;
}

static void advise_recompute(const Case *c, GString *out) {
  const StepReport *report = c->report;
  g_string_append_printf(out, "recompute: %.1f %% of the step repeats forward work.", percent(c->share));
  if (!report->fits)
    return; /* recomputing less would hold more */
  if (recompute_is_of_layers(report->plan->recompute))
    g_string_append_printf(out, " --recompute %sblock:N, of N layers of a stage, repeats less.",
                           may_be_selective(report->plan) ? "selective, or " : "");
  else
    g_string_append(out, " --recompute none saves it.");
  if (report->capacity_bytes > 0)
    g_string_append_printf(out, " Memory has %.1f GB left for it.",
                           (report->capacity_bytes - report->peak_bytes - report->reserved_bytes) / 1e9);
}

/* What of an optimizer on the host the GPUs have room for, which update it sooner. */
static void advise_share(const StepReport *report, GString *out) {
  const Offload *offload = &report->plan->offload;
  const TierUse *host = &report->tiers[TIER_HOST];
  if (offload->optimizer != TIER_HOST || offload->weights != TIER_GPU || report->cluster == NULL ||
      report->capacity_bytes == 0)
    return;
  const double gpus = MIN(report->plan->gpus, report->cluster->gpus_per_node),
               there = (host->held[MEMORY_OPTIMIZER] + host->held[MEMORY_GRADIENTS]) / gpus,
               room = report->capacity_bytes - report->peak_bytes - report->reserved_bytes;
  const double share = ceil(100 * offload_share(offload) * (1 - room / there)) / 100;
  if (room >= there)
    g_string_append(out, " The GPUs have room for all of it: --offload-optimizer none.");
  else if (share < offload_share(offload) && share > 0)
    g_string_append_printf(out, " The GPUs have room for more of it: --offload-optimizer host:%g.", share);
}

static void advise_optimizer(const Case *c, GString *out) {
  const Plan *plan = c->report->plan;
  g_string_append_printf(out, "optimizer: %.1f %% of the step.", percent(c->share));
  int data_ranks = plan_data_ranks(plan);
  if (servers_are_used(&plan->servers))
    g_string_append(out, " Servers update: more of them, or faster ones, take less (--parameter-servers).");
  else if (!zero_shards_optimizer(plan->zero) && data_ranks > 1 && may_shard(plan))
    g_string_append_printf(out, " --zero 1 would split the update over %d ranks.", data_ranks);
  advise_share(c->report, out);
  g_string_append(out, " A larger --global-batch spreads it over more work.");
}

static const double low_efficiency = 0.5;

static double kernel_efficiency(const StepReport *report) {
  double running_s = report->breakdown_s[BREAKDOWN_COMPUTE] + report->breakdown_s[BREAKDOWN_RECOMPUTE];
  return running_s > 0 ? report->hfu * report->step_time_s / running_s : 0;
}

/* What a layer's kernels spend their time on, and whether larger products would be faster: not if products reach
 * half of their peak and it is attention or memory-bound kernels that slow the whole down. */
static void advise_slow_kernels(const StepReport *report, GString *out) {
  const LayerKernels *layer = &report->layer_kernels;
  g_string_append(out, " That is low:");
  if (layer->total_s > 0) {
    const double rest_s = layer->total_s - layer->products_s - layer->attention_s;
    g_string_append_printf(out, " in a layer, products take %.0f %% of the time at %.0f %% of their peak",
                           percent(layer->products_s / layer->total_s),
                           percent(layer->products_at_peak_s / layer->products_s));
    if (layer->attention_s > 0)
      g_string_append_printf(out, ", attention %.0f %%", percent(layer->attention_s / layer->total_s));
    g_string_append_printf(out, ", memory-bound kernels %.0f %% (simulate --kernels lists them).",
                           percent(rest_s / layer->total_s));
    if (layer->products_at_peak_s >= low_efficiency * layer->products_s)
      return;
  } else {
    g_string_append(out, " products are small or memory-bound.");
  }
  if (!report->fits)
    return; /* larger ones would hold more */
  g_string_append(out, " A larger --micro-batch");
  if (may_halve(report->plan, report->plan->tp))
    g_string_append_printf(out, " or --tp %d", report->plan->tp / 2);
  g_string_append(out, " makes products larger.");
}

static void advise_compute(const Case *c, GString *out) {
  const StepReport *report = c->report;
  double efficiency = kernel_efficiency(report);
  g_string_append_printf(out, "kernels: %.1f %% of the step, running at %.1f %% of the %s peak.", percent(c->share),
                         percent(efficiency), report->peak_number);
  if (efficiency >= low_efficiency)
    return;
  const double load = MAX(report->plan->expert_load, 1);
  if (load > 1)
    g_string_append_printf(out,
                           " The fullest rank of ep does %g times the mean's work on its experts (--expert-load), "
                           "and only the mean's is counted.",
                           load);
  if (efficiency * load >= low_efficiency) /* not low for the work of the busiest rank */
    return;
  advise_slow_kernels(report, out);
  if (report->plan->attention == ATTENTION_UNFUSED)
    g_string_append(out, " --attention flash fuses attention.");
}

static void advise_other(const Case *c, GString *out) {
  g_string_append_printf(out,
                         "data: %.1f %% of the step waits for readers. More of them, faster storage or smaller samples "
                         "(--data) take less.",
                         percent(c->share));
}

static const Rule rules[] = {
    {BREAKDOWN_COMPUTE, 0.5, advise_compute},
    {BREAKDOWN_BUBBLE, 0.15, advise_bubble},
    {BREAKDOWN_TP, 0.15, advise_tp},
    {BREAKDOWN_CP, 0.1, advise_cp},
    {BREAKDOWN_EP, 0.1, advise_ep},
    {BREAKDOWN_DP, 0.1, advise_dp},
    {BREAKDOWN_PP, 0.05, advise_pp},
    {BREAKDOWN_HOST, 0.05, advise_host},
    {BREAKDOWN_OFFLOAD, 0.05, advise_offload},
    {BREAKDOWN_RECOMPUTE, 0.1, advise_recompute},
    {BREAKDOWN_OPTIMIZER, 0.1, advise_optimizer},
    {BREAKDOWN_OTHER, 0.1, advise_other},
};

static void advise_state(const StepReport *report, GString *out) {
  const Plan *plan = report->plan;
  static const MemoryCategory shards[] = {MEMORY_OPTIMIZER, MEMORY_GRADIENTS, MEMORY_WEIGHTS}; /* by ZeRO stage − 1 */
  int ranks = !may_shard(plan) ? 1 : plan->zero_ranks > 0 ? plan->zero_ranks : plan_data_ranks(plan);
  /* dealt-out experts, or whole experts beside tp, span another number of ranks than the rest */
  const gboolean are_alike = plan->ep == 1 && (plan->expert_tp == 0 || plan->expert_tp == plan->tp);
  double saved = 0; /* an upper bound: buckets of gradients and gathered layers are held for a while */
  if (!are_alike && !zero_shards_weights(plan->zero) && ranks > 1)
    g_string_append_printf(out, " A --zero above %d splits more of it among ranks.", plan->zero);
  /* accumulated gradients that stay whole until their single reduction take more than ZeRO-1's shards save */
  const gboolean sums_whole = plan_sums_whole(plan);
  for (int stage = plan->zero; are_alike && stage < (sums_whole ? MIN(plan->zero + 1, 1) : 3) && ranks > 1; stage++) {
    saved += report->memory_bytes[shards[stage]] * (1 - 1.0 / ranks);
    g_string_append_printf(out, " --zero %d saves %s%.1f GB.", stage + 1, stage > 0 ? "up to " : "", saved / 1e9);
  }
  g_string_append(out, " A larger --tp or --pp puts less of the model on each GPU.");
  if (plan->ep > 1)
    g_string_append(out, " A larger --ep puts fewer experts on each GPU.");
}

/* Only if the cluster's file says how fast its hosts are; without that, offloading is refused. From ZeRO-2 on a
 * rank's reduced gradients are only its shard, and are offloaded with the optimizer. */
static void advise_offloading(const StepReport *report, GString *out) {
  const double *bytes = report->memory_bytes;
  if (report->plan->offload.optimizer == TIER_GPU && may_offload(report->plan) && report->cluster != NULL &&
      report->cluster->host.link_efficiency > 0)
    g_string_append_printf(
        out, " --offload-optimizer host saves %.1f GB.",
        (bytes[MEMORY_OPTIMIZER] + (zero_shards_gradients(report->plan->zero) ? bytes[MEMORY_GRADIENTS] : 0)) / 1e9);
}

/* Whether all micro-batches are in flight at once: with twice as many, twice as many would be. */
static gboolean holds_all(const StepReport *report) {
  const Plan *plan = report->plan;
  gboolean are_all = FALSE;
  const gboolean may_hold_all = plan->pp > 1 || plan->n_micro_batches > 1;
  for (int rank = 0; rank < plan->pp && may_hold_all && report->in_flight != NULL; rank++)
    are_all |= report->in_flight[rank] >= plan->n_micro_batches * plan->chunks;
  return are_all;
}

/* Smaller micro-batches mean more of them. */
static gboolean smaller_hold_less(const StepReport *report) {
  const Plan *plan = report->plan;
  return plan->micro_batch >= 2 && plan->global_batch % (plan->micro_batch / 2 * plan->dp) == 0 && !holds_all(report);
}

/* Doubling cp on the same GPUs halves dp, and so doubles the micro-batches, of which some schedules hold no more
 * (what those that defer W hold until then may be more); every rank then has half of each sequence. */
static gboolean may_double_cp(const StepReport *report) {
  const Plan *plan = report->plan;
  const gboolean is_bounded = !plan_schedule(plan)->holds_all && !plan_schedule(plan)->defers_w;
  return plan->attention == ATTENTION_FLASH && plan->dp % 2 == 0 && plan->seq_len % (4 * (gint64)plan->cp) == 0 &&
         is_bounded && !holds_all(report);
}

static void advise_cp_for_memory(const StepReport *report, GString *out) {
  const Plan *plan = report->plan;
  /* a ring passes whole blocks on: it has no window */
  const gboolean needs_gather = report->window > 0 && plan->cp_comm == CP_RING;
  g_string_append_printf(out, " --cp %d%s saves %.1f GB, as a rank has half of each sequence.", 2 * plan->cp,
                         needs_gather ? " --cp-comm all_gather" : "", report->memory_bytes[MEMORY_ACTIVATIONS] / 2e9);
}

static void advise_activations(const StepReport *report, GString *out) {
  const Plan *plan = report->plan;
  const gboolean is_products = plan->memory.selective == SELECTIVE_PRODUCTS;
  if (plan->recompute == RECOMPUTE_NONE && is_products)
    g_string_append_printf(out, " --recompute full drops almost all that layers save%s.",
                           may_be_selective(plan) ? ", selective every other product" : "");
  else if (plan->recompute == RECOMPUTE_NONE)
    g_string_append(out, plan->attention == ATTENTION_FLASH
                             ? " --recompute full drops almost all that layers save, selective what "
                               "--recompute-modules names."
                             : " --recompute selective drops what attention saves, full almost everything.");
  else if (plan->recompute == RECOMPUTE_SELECTIVE && is_products)
    g_string_append(out, " --recompute full keeps only the inputs of each layer.");
  else if (plan->recompute == RECOMPUTE_SELECTIVE)
    g_string_append(
        out, " --recompute-modules can name more to recompute, --recompute full keeps only the inputs of each layer.");
  else if (may_double_cp(report))
    advise_cp_for_memory(report, out);
  if (may_cut_sequences(plan))
    g_string_append_printf(out, " --sequence-parallel on divides what norms save by %d.", plan->tp);
  if (smaller_hold_less(report))
    g_string_append_printf(out, " --micro-batch %" G_GINT64_FORMAT " saves %.1f GB.", plan->micro_batch / 2,
                           report->memory_bytes[MEMORY_ACTIVATIONS] *
                               (1 - (double)(plan->micro_batch / 2) / (double)plan->micro_batch) / 1e9);
}

static char *advise_memory(const StepReport *report) {
  GString *out = g_string_new(NULL);
  const double *bytes = report->memory_bytes;
  double excess = report->peak_bytes + report->reserved_bytes - report->capacity_bytes;
  double state = bytes[MEMORY_WEIGHTS] + bytes[MEMORY_GRADIENTS] + bytes[MEMORY_OPTIMIZER];
  g_string_append_printf(out, "memory: does not fit, %.1f GB too much on rank %d.", excess / 1e9, report->worst_rank);
  if (state > excess)
    advise_state(report, out);
  if (bytes[MEMORY_ACTIVATIONS] > 0.1 * report->peak_bytes)
    advise_activations(report, out);
  if (bytes[MEMORY_OPTIMIZER] > 0.1 * report->peak_bytes)
    advise_offloading(report, out);
  return g_string_free(out, FALSE);
}

static char *advise_tier(const StepReport *report, MemoryTier tier) {
  const TierUse *use = &report->tiers[tier];
  const char *instead =
      tier == TIER_NVME || use->held[MEMORY_OPTIMIZER] == 0
          ? "more nodes, each with its part of the shards (--zero 1 or more)"
          : "--offload-optimizer nvme, or more nodes with a part of the shards each (--zero 1 or more)";
  return g_strdup_printf("memory: %s does not hold what is offloaded, %.1f GB too much on node %d: %s.",
                         tier == TIER_HOST ? "host memory" : "NVMe", (use->bytes - use->capacity_bytes) / 1e9,
                         use->node, instead);
}

static gint by_share(gconstpointer a, gconstpointer b, gpointer data) {
  const StepReport *report = data;
  double x = report->breakdown_s[((const Rule *)a)->kind], y = report->breakdown_s[((const Rule *)b)->kind];
  return x < y ? 1 : x > y ? -1 : 0;
}

GPtrArray *advice_new(const StepReport *report) {
  GPtrArray *advice = g_ptr_array_new_with_free_func(g_free);
  if (!step_report_fits_gpu(report))
    g_ptr_array_add(advice, advise_memory(report));
  for (int tier = TIER_HOST; tier < N_TIERS; tier++)
    if (report->tiers[tier].is_used && !report->tiers[tier].fits)
      g_ptr_array_add(advice, advise_tier(report, (MemoryTier)tier));
  g_autoptr(GArray) sorted = g_array_new(FALSE, FALSE, sizeof(Rule));
  g_array_append_vals(sorted, rules, G_N_ELEMENTS(rules));
  g_array_sort_with_data(sorted, by_share, (gpointer)report);
  for (guint i = 0; i < sorted->len && report->step_time_s > 0; i++) {
    const Rule *rule = &g_array_index(sorted, Rule, i);
    Case c = {report, report->breakdown_s[rule->kind] / report->step_time_s};
    if (c.share < rule->threshold || (rule->kind == BREAKDOWN_OTHER && report->data_s == 0))
      continue;
    GString *out = g_string_new(NULL);
    rule->advise(&c, out);
    g_ptr_array_add(advice, g_string_free(out, FALSE));
  }
  if (advice->len == 0)
    g_ptr_array_add(advice, g_strdup("no single part of the step stands out."));
  return advice;
}
