/* Filling in the struct. The traffic of a step is counted from the Program: every transfer op once, and for whole
 * pieces (not expanded programs) the collectives listed in the pieces' work. */
#include "step_report.h"

#include <math.h>
#include <string.h>

#include "lowering.h"

static double least_bubble_s(const Metrics *metrics) {
  gint64 least_ns = metrics->step_ns;
  for (int rank = 0; rank < metrics->n_ranks; rank++)
    least_ns = MIN(least_ns, metrics->ranks[rank].ns[BREAKDOWN_BUBBLE]);
  return 1e-9 * (double)least_ns;
}

void step_report_set_metrics(StepReport *report, const Metrics *metrics) {
  memcpy(report->breakdown_s, metrics->mean_s, sizeof report->breakdown_s);
  memcpy(report->hidden_s, metrics->hidden_s, sizeof report->hidden_s);
  memcpy(report->exposed_s, metrics->exposed_s, sizeof report->exposed_s);
  report->bubble_fraction = metrics->bubble_fraction;
  report->bubble_overhead = metrics->bubble_overhead;
  report->uneven_s = MAX(metrics->mean_s[BREAKDOWN_BUBBLE] - least_bubble_s(metrics), 0);
}

void step_report_set_memory(StepReport *report, const MemoryProfile *profile, double reserved_bytes,
                            double capacity_bytes) {
  report->peak_bytes = profile->peak_bytes;
  report->reserved_bytes = reserved_bytes;
  report->capacity_bytes = capacity_bytes;
  report->fits = capacity_bytes == 0 || profile->peak_bytes + reserved_bytes <= capacity_bytes;
  report->worst_rank = profile->worst_first;
  memcpy(report->memory_bytes, profile->at_peak.bytes, sizeof report->memory_bytes);
}

gboolean step_report_fits_gpu(const StepReport *report) {
  return report->capacity_bytes == 0 || report->peak_bytes + report->reserved_bytes <= report->capacity_bytes;
}

/* Bytes one GPU sends for the collectives of an axis in one run of a piece. */
static double piece_bytes(const Workload *workload, Axis axis, Piece piece, const Work *work) {
  const WorkList *list = workload_list(workload, work->lengths, piece, (Phase)work->phase);
  double sum = 0;
  for (int i = 0; i < list->n_items; i++) {
    const WorkItem *item = &list->items[i];
    if (item->kind != ITEM_COLLECTIVE || item->axis != axis)
      continue;
    const int n = layout_group_size(&workload->layout, work_item_axes(item));
    sum += collective_sent_bytes((Collective)item->collective, n, item->bytes);
  }
  return sum;
}

static double work_bytes(const Workload *workload, Axis axis, const Work *work) {
  if (work->phase == PHASE_OPTIMIZER)
    return 0;
  int counts[N_PIECES];
  double sum = 0;
  work_pieces(work, counts);
  for (Piece piece = 0; piece < N_PIECES; piece++)
    sum += counts[piece] > 0 ? counts[piece] * piece_bytes(workload, axis, piece, work) : 0;
  return sum;
}

static int group_members(const Layout *layout, const Group *group, int n_pipeline_ranks) {
  int n = layout_group_size(layout, group->axes);
  if (!group->spans_pp)
    return n;
  if (group->pp_first < 0)
    return n * n_pipeline_ranks;
  return group->pp_first == group->pp_last ? n : 2 * n;
}

/* Of one sum of compressed gradients over so many ranks. */
static double compressed_bytes(const Workload *workload, const Transfer *transfer, int n) {
  const Method *method = workload->method;
  const CompressedSum sum = transfer_sum(workload, transfer);
  return compressed_sent_bytes(&method->compression, &sum, method->gradient_sum_bytes, n);
}

static void add_op_traffic(double traffic_bytes[N_MOVERS], const Program *program, const Workload *workload,
                           const Op *op, double times) {
  const Layout *layout = &workload->layout;
  const Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work);
  if (op->kind == OP_SEND) {
    traffic_bytes[AXIS_PP] += times * transfer->bytes;
  } else if (op->kind == OP_COLLECTIVE && op->action != ACTION_NORM) { /* one number, over all axes */
    const Group *group = &g_array_index(program->groups, Group, transfer->group);
    int n = group_members(layout, group, program->n_ranks);
    if (group->route & (ROUTE_STORAGE | ROUTE_SERVE | ROUTE_PULL)) /* a GPU does not send it */
      return;
    if (group->route == ROUTE_PUSH) {
      traffic_bytes[AXIS_DP] += times * transfer->bytes;
      return;
    }
    if (group->route != 0) {
      traffic_bytes[MOVER_OFFLOAD] += times * transfer->bytes;
      return;
    }
    traffic_bytes[group->charge] +=
        times * (transfer_is_compressed(workload, transfer)
                     ? compressed_bytes(workload, transfer, n)
                     : collective_sent_bytes((Collective)transfer->collective, n, transfer->bytes));
  }
}

/* How often a step of the run occurs in so many that it stands for. `method` NULL: each once. */
static double times_of_step(const Program *program, const Method *method, int step, double *of) {
  const gboolean has_periods = method != NULL && method->islands > 1;
  *of = has_periods ? method->outer_period : program->n_steps;
  return has_periods ? (double)method_step_stands_for(method, step) : 1;
}

void step_report_set_islands(StepReport *report, const Metrics *metrics, const Program *program,
                             const Workload *workload) {
  const Method *method = workload->method;
  IslandReport *islands = &report->islands;
  *islands = (IslandReport){0};
  if (method->islands == 1)
    return;
  islands->period = metrics->period;
  islands->plain_step_s = 1e-9 * (double)metrics->plain_step_ns;
  islands->outer_s = 1e-9 * (double)(metrics->window_ns - metrics->window * metrics->plain_step_ns);
  if (metrics->period == metrics->window) { /* every step has its share of it */
    islands->plain_step_s = NAN;
    islands->outer_s = NAN;
  }
  double sent_bytes = 0;
  for (int rank = 0; rank < program->n_ranks; rank++)
    sent_bytes += collective_sent_bytes(COLLECTIVE_ALL_REDUCE, method->islands,
                                        method->outer.bytes * lowering_outer_parameters(workload, rank)) /
                  method->outer.fragments;
  islands->sent_bytes = sent_bytes * method->gpus / method->islands / program->n_ranks;
}

void step_report_set_traffic(StepReport *report, const Program *program, const Workload *workload) {
  double *traffic = report->traffic_bytes;
  memset(traffic, 0, sizeof report->traffic_bytes);
  if (!workload)
    return;
  double n_steps = program->n_steps;
  g_autofree double *inside = g_new0(double, N_ITEM_AXES *(program->works->len + 1)); /* of each distinct work */
  for (guint w = 0; w < program->works->len; w++)
    for (int axis = 0; axis < N_ITEM_AXES; axis++)
      inside[w * N_ITEM_AXES + (guint)axis] = work_bytes(workload, (Axis)axis, &g_array_index(program->works, Work, w));
  for (int pp = 0; pp < program->n_ranks; pp++) {
    const OpList *list = &program->ranks[pp];
    for (int i = 0; i < list->n_ops; i++) {
      const Op *op = &list->ops[i];
      const double times = times_of_step(program, workload->method, op->step, &n_steps);
      for (int axis = 0; axis < N_ITEM_AXES && op->kind == OP_COMPUTE; axis++)
        traffic[axis] += times * inside[op->work * N_ITEM_AXES + axis];
      if (op->kind == OP_COMPUTE)
        continue;
      if (op->kind != OP_HOST)
        add_op_traffic(traffic, program, workload, op, times);
    }
  }
  for (int mover = 0; mover < N_MOVERS; mover++)
    traffic[mover] /= (double)program->n_ranks * n_steps;
}

/* [micro-batches] kernels' time of one step, in rank `variant` of dp. */
static void sum_micro_batches(const Program *program, const Timing *timing, int variant, double *sums_ns) {
  const OpTime *works = &timing->works[(gsize)variant * program->works->len];
  for (int m = 0; m < program->n_micro_batches; m++)
    sums_ns[m] = 0;
  for (int rank = 0; rank < program->n_ranks; rank++) {
    const OpList *list = &program->ranks[rank];
    for (int i = 0; i < list->n_ops; i++)
      if (list->ops[i].kind == OP_COMPUTE && list->ops[i].micro_batch >= 0 && list->ops[i].step == 0)
        sums_ns[list->ops[i].micro_batch] += (double)works[list->ops[i].work].run_ns;
  }
}

void step_report_set_lengths(StepReport *report, const Program *program, const Timing *timing, const Batch *batch,
                             int n_ranks) {
  if (batch == NULL)
    return;
  const int n = program->n_micro_batches;
  g_autofree double *sums_ns = g_new(double, n);
  double all_ns = 0, slowest_ns = 0, slowest_rank_ns = 0;
  for (int variant = 0; variant < n_ranks; variant++) {
    double of_rank_ns = 0;
    sum_micro_batches(program, timing, variant, sums_ns);
    for (int m = 0; m < n; m++) {
      of_rank_ns += sums_ns[m];
      slowest_ns = MAX(slowest_ns, sums_ns[m]);
    }
    all_ns += of_rank_ns;
    slowest_rank_ns = MAX(slowest_rank_ns, of_rank_ns);
  }
  report->lengths = (LengthsReport){.n_sequences = batch->n_sequences,
                                    .tokens = batch->tokens,
                                    .n_cut = batch->n_cut,
                                    .padding_share = 1 - (double)batch->tokens / (double)batch->computed,
                                    .slowest_micro_batch = all_ns > 0 ? slowest_ns * n * n_ranks / all_ns : 1,
                                    .slowest_dp_rank = all_ns > 0 ? slowest_rank_ns * n_ranks / all_ns : 1};
}

void step_report_set_data(StepReport *report, const Program *program, const Timing *timing) {
  report->data_s = 0;
  for (int rank = 0; rank < program->n_ranks && report->plan->data.sample_bytes > 0; rank++) {
    const OpList *list = &program->ranks[rank];
    gint64 sum_ns = 0;
    for (int i = 0; i < list->n_ops; i++)
      if (list->ops[i].action == ACTION_DATA && list->ops[i].step == program->n_steps - 1)
        sum_ns += timing->transfers[list->ops[i].work].run_ns;
    report->data_s = MAX(report->data_s, 1e-9 * (double)sum_ns);
  }
}

void step_report_set_compression(StepReport *report, const Program *program, const Workload *workload,
                                 const Timing *timing) {
  report->compression = (CompressionUse){0};
  for (int rank = 0; rank < program->n_ranks && timing->kernels_ns != NULL; rank++) {
    const OpList *list = &program->ranks[rank];
    for (int i = 0; i < list->n_ops; i++) {
      const Op *op = &list->ops[i];
      if (op->kind != OP_COLLECTIVE)
        continue;
      const Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work);
      if (!transfer_is_compressed(workload, transfer))
        continue;
      const int n =
          group_members(&workload->layout, &g_array_index(program->groups, Group, transfer->group), program->n_ranks);
      const double g = workload->method->gradient_sum_bytes, share = 1.0 / program->n_ranks / program->n_steps;
      report->compression.kernels_s += share * 1e-9 * (double)timing->kernels_ns[op->work];
      report->compression.sent_bytes += share * compressed_bytes(workload, transfer, n);
      report->compression.plain_bytes +=
          share *
          collective_sent_bytes(COLLECTIVE_ALL_REDUCE, n, transfer->bytes / g * workload->method->recipe.gradients);
    }
  }
}

void step_report_set_kernels(StepReport *report, const Workload *workload, const Timing *timing,
                             const double *peak_flops) {
  static const Phase phases[] = {PHASE_F, PHASE_B};
  LayerKernels kernels = {0};
  for (gsize p = 0; p < G_N_ELEMENTS(phases); p++) {
    const WorkList *list = &workload->work[PIECE_LAYER][phases[p]];
    for (int i = 0; i < list->n_items; i++) {
      const WorkItem *item = &list->items[i];
      const double duration_s = 1e-9 * (double)timing->lists[PIECE_LAYER][phases[p]].items[i].duration_ns;
      kernels.total_s += item->kind == ITEM_COLLECTIVE ? 0 : duration_s;
      kernels.attention_s += item->kind == ITEM_ATTENTION ? duration_s : 0;
      kernels.products_s += item->kind == ITEM_MATMUL ? duration_s : 0;
      kernels.products_at_peak_s += item->kind == ITEM_MATMUL ? item->flops / peak_flops[item->number] : 0;
    }
  }
  report->layer_kernels = kernels;
}

static void append_training(GString *line, const TrainedParts *training) {
  g_autofree char *train = training_train_text(training), *freeze = training_freeze_text(training);
  if (training->rank > 0)
    g_string_append_printf(line, "; %s", train);
  if (training->frozen != 0 || training->frozen_layers > 0)
    g_string_append_printf(line, "; frozen: %s", freeze);
}

/* What is done with so many layers. */
static const char *recompute_share(Recompute recompute) {
  return recompute == RECOMPUTE_FULL ? " at once" : recompute == RECOMPUTE_BLOCK ? " of a stage" : " apart";
}

static void append_offload(GString *line, const Offload *offload) {
  const struct {
    const char *what;
    MemoryTier tier;
  } parts[] = {{"optimizer", offload->optimizer}, {"weights", offload->weights}, {"activations", offload->activations}};
  for (gsize i = 0; i < G_N_ELEMENTS(parts); i++) {
    if (parts[i].tier == TIER_GPU)
      continue;
    g_string_append_printf(line, ", %s", parts[i].what);
    if (i == 0 && offload->share > 0)
      g_string_append_printf(line, " of %g %% of the parameters", 100 * offload->share);
    g_string_append_printf(line, " on %s", parts[i].tier == TIER_HOST ? "the host" : "NVMe");
  }
}

char *step_report_plan_line(const Plan *plan) {
  GString *line = g_string_new(NULL);
  g_string_append_printf(line, "tp %d, pp %d", plan->tp, plan->pp);
  if (plan->chunks > 1)
    g_string_append_printf(line, " × %d chunks", plan->chunks);
  if (plan->pipeline_layout != NULL)
    g_string_append_printf(line, " (layers %s)", plan->pipeline_layout);
  if (plan->cp > 1)
    g_string_append_printf(line, ", cp %d (%s)", plan->cp, cp_comm_names()[plan->cp_comm]);
  if (plan->ep > 1)
    g_string_append_printf(line, ", ep %d%s", plan->ep, plan_dispatches_once(plan) ? " (deepep)" : "");
  if (plan_gathers_tokens(plan))
    g_string_append(line, ", tokens gathered for experts");
  if (plan->expert_tp > 0 && plan->expert_tp < plan->tp)
    g_string_append(line, ", experts whole");
  if (plan->expert_load > 1)
    g_string_append_printf(line, ", fullest rank of ep at %g times the mean", plan->expert_load);
  g_string_append_printf(line, ", dp %d", plan->dp);
  if (plan->islands > 1)
    g_string_append_printf(line, " in %d islands, %d local step%s", plan->islands, plan->local_steps,
                           plan->local_steps > 1 ? "s" : "");
  if (servers_are_used(&plan->servers))
    g_string_append_printf(line, ", parameter servers %s", servers_text(&plan->servers));
  if (plan->mtp_layers > 0)
    g_string_append_printf(line, ", %d MTP layer%s", plan->mtp_layers, plan->mtp_layers > 1 ? "s" : "");
  if (zero_shards_optimizer(plan->zero))
    g_string_append_printf(line, ", ZeRO-%d", plan->zero);
  if (zero_shards_optimizer(plan->zero) && plan->zero_ranks > 0 && plan->zero_ranks < plan_data_ranks(plan))
    g_string_append_printf(line, " within %d ranks", plan->zero_ranks);
  append_offload(line, &plan->offload);
  if (plan->compression.kind != COMPRESS_NONE)
    g_string_append_printf(line, ", gradients by %s", grad_compression_text(&plan->compression));
  if (plan->rank_map != NULL)
    g_string_append(line, ", ranks by map");
  if (plan->sequence_parallel)
    g_string_append(line, ", sequence parallel");
  if (plan->schedule)
    g_string_append_printf(line, "; %s", plan->schedule);
  append_training(line, &plan->training);
  const guint modules = plan_recompute_modules(plan);
  g_autofree char *names = recompute_modules_text(modules, " + ");
  g_string_append_printf(line, "; %s, recompute %s", precision_info(plan->precision)->name,
                         recompute_names()[plan->recompute]);
  if (plan->recompute_layers > 1 || plan->recompute > RECOMPUTE_FULL)
    g_string_append_printf(line, " (%d layer%s%s)", plan->recompute_layers, plan->recompute_layers > 1 ? "s" : "",
                           recompute_share(plan->recompute));
  if (modules != 0 && modules != MODULE_BIT(MODULE_CORE_ATTN))
    g_string_append_printf(line, " (%s)", names);
  g_string_append_printf(line, ", %s attention", attention_names()[plan->attention]);
  if (plan_takes_turns(plan) && (plan->chunks > 1 || plan->pp == 1))
    g_string_append(line, ", exchanges with experts overlapped");
  if (plan->cuda_graphs != CUDA_GRAPHS_NONE)
    g_string_append_printf(line, ", CUDA graphs %s", cuda_graphs_names()[plan->cuda_graphs]);
  if (plan->framework != NULL)
    g_string_append_printf(line, "; as %s", plan->framework);
  g_autofree char *file = g_strconcat(plan->framework_file, ".yaml", NULL);
  if (plan->framework != NULL && strcmp(plan->framework, plan->framework_file) != 0 &&
      strcmp(plan->framework, file) != 0)
    g_string_append_printf(line, " (%s)", file);
  return g_string_free(line, FALSE);
}
