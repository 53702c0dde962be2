/* Each distinct thing is costed once, so a Program's size does not matter:
 *
 *     Workload  piece × phase → items ──list_cost.h──→ TimedList ──┐
 *     Program   works      ─────────── timing_of_work ←────────────┘ → OpTime
 *               transfers  ─────────── transfer_cost.h ──────────────→ OpTime
 *
 * and what was costed before need not be again (costs.h). */
#include "timing_model.h"

#include <string.h>

#include "copy_cost.h"
#include "kernel_cost.h"
#include "list_cost.h"
#include "lowering.h"
#include "transfer_cost.h"
#include "transfer_tax.h"

typedef struct {
  Costs *costs;
  Costs *own; /* the same; NULL: they are kept by another owner */
  const Workload *workload;
  const Program *program;
  gint64 number; /* of the Timing, among all with these costs */
  const Site *site;
  const TransferCost **transfers; /* [transfers of the program] */
} Costing;

/* --- whether tp's collectives, which are inside compute ops, share their links with other transfers for long enough to
 * matter --- */

/* Below this share the other transfers are ignored. It compares the time that they take on the links of tp's
 * collectives with the time of the step's products (6 FLOPs per parameter and token) at the GPUs' peak. What either
 * side could lose to the other is less than twice that. */
static const double least_meeting = 0.005;

static double taken_by_ops_s(const OpList *list, gint32 first, gint32 end, const double *taken_s) {
  double sum_s = 0;
  for (gint32 i = first; i < end; i++)
    if (list->ops[i].kind != OP_COMPUTE && list->ops[i].kind != OP_HOST)
      sum_s += taken_s[list->ops[i].work];
  return sum_s;
}

/* The most of any pipeline rank in a step, with n_more more groups of micro-batches; repeats NULL: none. */
static double busiest_taken_s(const Program *program, const ProgramRepeats *repeats, double n_more,
                              const double *taken_s) {
  double most_s = 0;
  for (int rank = 0; rank < program->n_ranks; rank++) {
    const OpList *list = &program->ranks[rank];
    double sum_s = taken_by_ops_s(list, 0, list->n_ops, taken_s);
    for (int step = 0; repeats != NULL && step < program->n_steps; step++) {
      const RepeatedOps *own = program_repeats_of(repeats, rank, step);
      sum_s += n_more * taken_by_ops_s(list, own->first, own->first + own->n_ops, taken_s);
    }
    most_s = MAX(most_s, sum_s / program->n_steps);
  }
  return most_s;
}

/* Whether other transfers use the links of tp's collectives for long enough that each of these must be simulated.
 * This follows from the plan, not from the form of the Program, so that whole and expanded programs agree. Transfers of
 * tp alone do not count for that, but may run beside tp's collectives inside kernels. Returns `met` as in
 * timing_model_unless_met(). */
static gboolean *look_at_tp(const Costing *costing, const ProgramRepeats *repeats, double n_more) {
  const Program *program = costing->program;
  const Method *method = costing->workload->method;
  const int n = (int)program->transfers->len;
  g_autofree double *taken_s = g_new(double, n + 1);
  double sum_s = 0;
  for (int i = 0; i < n; i++) {
    const TransferCost *cost = costing->transfers[i];
    sum_s += taken_s[i] = cost->is_of_tp_alone ? 0 : cost->taken_s;
  }
  if (sum_s == 0)
    return NULL;
  const double peak_flops = costing->site->machine->cluster->gpu.peak_flops[precision_info(method->precision)->linear];
  const double tokens = (double)method->global_batch * (double)method->seq_len;
  const double least_step_s = 6 * model_parameters(costing->workload->model) * tokens / method->gpus / peak_flops;
  if (busiest_taken_s(program, repeats, n_more, taken_s) <= least_meeting * least_step_s)
    return NULL;
  gboolean *met = g_new(gboolean, n + 1);
  for (int i = 0; i < n; i++)
    met[i] = !g_array_index(program->transfers, Transfer, i).is_item && costing->transfers[i]->taken_s > 0;
  return met;
}

/* --- a Program --- */

gboolean timing_model_has_taxes(const Method *method, const Cluster *cluster) {
  const gboolean is_beside = method->overlap_grad && method->data_ranks > 1;
  return transfer_tax_is_stated(cluster) || (method->compression.kind != COMPRESS_NONE && is_beside);
}

static void time_transfers(const Costing *costing, gboolean tp_meets, Timing *timing) {
  const int n = timing->n_transfers = (int)costing->program->transfers->len;
  timing->transfers = g_new(OpTime, n);
  timing->loads = g_new(WayLoad, n + 1); /* non-NULL even without transfers: the loads are known */
  timing->loads[n] = (WayLoad){0};
  const Method *method = costing->workload->method;
  timing->taxes = timing_model_has_taxes(method, costing->site->machine->cluster) ? g_new(double, n) : NULL;
  timing->kernels_ns = method->compression.kind != COMPRESS_NONE ? g_new(gint64, n) : NULL;
  gboolean shares_servers = FALSE;
  for (int i = 0; i < n; i++)
    shares_servers |= costing->transfers[i]->server_route != 0;
  timing->server_routes = shares_servers ? g_new(guint8, n) : NULL;
  for (int bit = 0; bit < N_ROUTE_BITS && shares_servers; bit++)
    timing->server_capacity[bit] =
        (1 << bit & ROUTES_OF_SERVERS) != 0 ? server_capacity(&costing->site->servers, 1u << bit) : 1;
  for (int i = 0; i < n; i++) {
    const TransferCost *cost = costing->transfers[i];
    timing->transfers[i] = cost->time;
    timing->loads[i] = cost->load;
    if (shares_servers)
      timing->server_routes[i] = (guint8)cost->server_route;
    /* Collectives of tp alone use links only in expanded programs, and there only if anything else does; elsewhere
     * their time is part of the kernels'. (With collectives of cp, which may cross nodes beside gradients and
     * activations, a run is always expanded.) */
    if (cost->is_of_tp_alone && !tp_meets)
      memset(timing->loads[i].share, 0, sizeof timing->loads[i].share);
    if (timing->taxes != NULL)
      timing->taxes[i] = cost->tax;
    if (timing->kernels_ns != NULL)
      timing->kernels_ns[i] = cost->kernels_ns;
  }
}

static const ListCost *cost_list(const Costing *costing, gint32 lengths, Piece piece, Phase phase) {
  const Workload *workload = costing->workload;
  const WorkList *work = workload_list(workload, lengths, piece, phase);
  const Method *method = costing->workload->method;
  const WorkList *again =
      method->recompute == RECOMPUTE_SELECTIVE ? workload_list(workload, lengths, piece, PHASE_F) : NULL;
  const gboolean is_of_experts = piece_family(piece) == PIECE_LAYER && model_has_experts(costing->workload->model);
  const LaunchTimes launches =
      framework_launches(method, work, again, piece, phase, is_of_experts, costing->site->machine->gpu.host_launch_s);
  return list_cost(costing->costs, costing->site->groups, &launches, method->cuda_graphs, work->items, work->n_items);
}

/* Each distinct product counts once. */
static void count_products(const Costing *costing, const ListCost *list, Timing *timing) {
  int *counts[N_COST_SOURCES] = {[COST_MODELLED] = &timing->n_modelled,
                                 [COST_INTERPOLATED] = &timing->n_interpolated,
                                 [COST_MEASURED] = &timing->n_measured};
  for (int i = 0; i < list->n_products; i++) {
    ProductCost *product = list->products[i];
    *counts[product->source] += product->counted != costing->number;
    product->counted = costing->number;
  }
}

/* Of micro-batch `lengths`; returns the items' end. */
static TimedItem *time_lists_of(const Costing *costing, gint32 lengths, TimedList lists[N_PIECES][N_PHASES],
                                TimedItem *items, Timing *timing) {
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++) {
      if (workload_list(costing->workload, lengths, (Piece)piece, (Phase)phase)->n_items == 0)
        continue;
      const ListCost *cost = cost_list(costing, lengths, (Piece)piece, (Phase)phase);
      TimedList *list = &lists[piece][phase];
      *list = cost->list;
      list->items = items;
      memcpy(items, cost->list.items, (gsize)list->n_items * sizeof *items);
      items += list->n_items;
      if (lengths > 0 || timing->of_lengths == NULL)
        count_products(costing, cost, timing);
    }
  return items;
}

static void time_lists(const Costing *costing, Timing *timing) {
  const Workload *workload = costing->workload;
  const int n_lengths = workload->micro_batches != NULL ? workload->batch->n_micro_batches : 0;
  gsize n_items = 0;
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < N_PHASES; phase++)
      n_items += (gsize)workload->work[piece][phase].n_items;
  timing->of_lengths = n_lengths > 0 ? g_malloc0((gsize)n_lengths * sizeof *timing->of_lengths) : NULL;
  TimedItem *items = timing->items = g_new(TimedItem, n_items * (gsize)(1 + n_lengths));
  for (gint32 lengths = 0; lengths <= n_lengths; lengths++)
    items =
        time_lists_of(costing, lengths, lengths > 0 ? timing->of_lengths[lengths - 1] : timing->lists, items, timing);
}

/* Bytes of gradients read and written per parameter between the last backward and Adam; Adam's own read is part of
 * its item. If Adam uses copies, its item's read counts as that of the copying: what is added here is writing the
 * copies, unscaling them, the passes over them, and Adam's reading them. */
static double update_gradient_bytes(const Method *method) {
  const Recipe *recipe = &method->recipe;
  const double passes = method->time.gradient_passes;
  if (!method->unscales_gradients)
    return recipe->gradients * passes;
  const double unscaled = 2 * recipe->master;
  return 2 * method->copied_gradient_bytes + unscaled + recipe->master * passes;
}

/* Reading parameters and anchor for the difference, writing and reading that, and writing anchor and parameters; and a
 * pass in both directions over the momentum. */
static OpTime time_outer_step(const Costing *costing, double parameters) {
  const Method *method = costing->workload->method;
  const double wide = sizeof(float), momentum = method->outer.has_momentum ? 2 * wide : 0;
  const double of_parameters = 2 * (method->recipe.master > 0 ? method->recipe.master : method->recipe.weights);
  const WorkItem item = {.name = "outer",
                         .kind = ITEM_MEMORY,
                         .after = -1,
                         .bytes = parameters * (of_parameters + 2 * wide + 2 * wide + momentum)};
  return site_launched(kernel_cost_s(&costing->site->machine->gpu, &item, NULL), costing->site->machine->launch_ns);
}

static OpTime time_work(const Costing *costing, const Timing *timing, const Work *work) {
  if (work->phase != PHASE_OPTIMIZER)
    return timing_of_work(timing, work);
  const Site *site = costing->site;
  const Method *method = costing->workload->method;
  if (work->parameters == 0) /* nothing on this rank is trained */
    return (OpTime){0};
  if (work->is_outer)
    return time_outer_step(costing, work->parameters);
  WorkItem item = workload_optimizer_item(costing->workload, work->parameters);
  if (work->on_host) {
    const double update_s = copy_cost_update_s(site->machine->cluster, site->n_sharing, item.bytes);
    return (OpTime){.run_ns = site_ns(update_s), .tail_ns = site_ns(update_s)};
  }
  item.bytes += update_gradient_bytes(method) * work->parameters + method->recipe.gradients * work->passed;
  return site_launched(kernel_cost_s(&site->machine->gpu, &item, NULL), site->machine->launch_ns);
}

static void time_works(const Costing *costing, Timing *timing) {
  const GArray *works = costing->program->works;
  timing->n_works = (int)works->len;
  timing->works = g_new(OpTime, timing->n_works);
  for (int i = 0; i < timing->n_works; i++)
    timing->works[i] = time_work(costing, timing, &g_array_index(works, Work, i));
}

static Timing *time_program(const Costing *costing, gboolean tp_meets) {
  const gint64 launch_ns = costing->site->machine->launch_ns;
  Timing *timing = g_new(Timing, 1);
  *timing = (Timing){
      .tp = costing->site->tp,
      /* reading a value back costs the host about as much as issuing a kernel: both are one call into the driver */
      .host_sync = {.run_ns = launch_ns, .tail_ns = launch_ns, .host_ns = launch_ns},
      .step_ns = site_ns(costing->workload->method->time.step_s),
  };
  time_lists(costing, timing);
  time_works(costing, timing);
  time_transfers(costing, tp_meets, timing);
  return timing;
}

static const TransferCost *cost_transfer(const Costing *costing, TransferKind *kind, const Transfer *transfer,
                                         double gathered_bytes) {
  const Method *method = costing->workload->method;
  if (!transfer_is_compressed(costing->workload, transfer))
    return transfer_cost(costing->costs, kind, transfer->bytes, gathered_bytes);
  const Compressed compressed = {method->compression, transfer_sum(costing->workload, transfer),
                                 method->gradient_sum_bytes};
  return transfer_compressed_cost(costing->costs, kind, &compressed);
}

static void costing_init(Costing *costing, const Program *program, const Workload *workload, const Cluster *cluster,
                         Costs *costs) {
  *costing = (Costing){.own = costs == NULL ? costs_new() : NULL, .workload = workload, .program = program};
  costing->costs = costs != NULL ? costs : costing->own;
  costing->number = costs_begin(costing->costs);
  costing->site = site_of(costing->costs, workload, cluster);
  const double gathered_bytes = workload->method->splits_stage_tensors
                                    ? costing->site->groups->of_axis[AXIS_TP].n * workload->boundary_bytes
                                    : -1;
  const int n = (int)program->transfers->len;
  TransferKind *const *kinds = transfer_kinds(costing->costs, costing->site, program);
  costing->transfers = g_new(const TransferCost *, n);
  for (int i = 0; i < n; i++)
    costing->transfers[i] =
        cost_transfer(costing, kinds[i], &g_array_index(program->transfers, Transfer, i), gathered_bytes);
}

static void costing_clear(Costing *costing) {
  g_free(costing->transfers);
  costs_free(costing->own);
}

Timing *timing_model_unless_met(const Program *program, const ProgramRepeats *repeats, double n_more,
                                const Workload *workload, const Cluster *cluster, Costs *costs, gboolean **met) {
  Costing costing;
  costing_init(&costing, program, workload, cluster, costs);
  *met = workload->method->contention ? look_at_tp(&costing, repeats, n_more) : NULL;
  const gboolean is_timed = *met == NULL && program->expansion == EXPANSION_NONE;
  Timing *timing = is_timed ? time_program(&costing, FALSE) : NULL;
  costing_clear(&costing);
  return timing;
}

Timing *timing_model_beyond(const Program *program, const ProgramRepeats *repeats, double n_more,
                            const Workload *workload, const Cluster *cluster, Costs *costs) {
  Costing costing;
  costing_init(&costing, program, workload, cluster, costs);
  g_autofree gboolean *met = program->expansion != EXPANSION_NONE ? look_at_tp(&costing, repeats, n_more) : NULL;
  Timing *timing = time_program(&costing, met != NULL);
  costing_clear(&costing);
  return timing;
}

Timing *timing_model(const Program *program, const Workload *workload, const Cluster *cluster, Costs *costs) {
  return timing_model_beyond(program, NULL, 0, workload, cluster, costs);
}
