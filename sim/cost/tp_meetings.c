/* Whether tp's collectives, which are inside compute ops, share their links with other transfers for long enough to
 * matter. */
#include "costing.h"

/* Below this share the other transfers are ignored. It compares the time that they take on the links of tp's
 * collectives with the time of the step's products (6 FLOPs per parameter and token) at the GPUs' peak. What either
 * side could lose to the other is less than twice that. */
static const double least_meeting = 0.005;

static gboolean shares_ways(const WayLoad *load, const WayLoad *tp) {
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    if (tp->share[way] > 0 && load->share[way] > 0)
      return TRUE;
  return FALSE;
}

static gboolean send_may_share(const Costing *costing, const Transfer *transfer, const WayLoad *tp) {
  WayLoad load;
  for (SendPlace at = {0}; costing_next_place(costing, transfer, &at);) {
    send_way_load(costing->cluster, at.from, at.to, &load);
    if (shares_ways(&load, tp))
      return TRUE;
  }
  return FALSE;
}

static gboolean collective_may_share(const Costing *costing, const Group *group, const GroupShape *shape,
                                     const WayLoad *tp) {
  for (int direct = 0; direct < 2 && group->route == 0; direct++) {
    WayLoad load = {0};
    collective_way_load(costing->cluster, shape, direct, &load);
    if (shares_ways(&load, tp))
      return TRUE;
  }
  return group->route != 0;
}

/* Whether a transfer uses any way of tp's collectives, in any place and by any algorithm. Usually none does, as tp
 * fills a domain and other transfers leave it; then their time need not be computed. */
static gboolean may_share(const Costing *costing, const Program *program, const Transfer *transfer, const WayLoad *tp) {
  if (transfer->group < 0)
    return send_may_share(costing, transfer, tp);
  return collective_may_share(costing, &g_array_index(program->groups, Group, transfer->group),
                              &costing->shapes[transfer->group], tp);
}

/* What a transfer takes of the ways of tp's collectives, in seconds of a whole way. */
static double taken_of_tp_s(const Costing *costing, const Program *program, const Transfer *transfer,
                            const WayLoad *tp) {
  WayLoad load = {0};
  double time_s, tax;
  if (!may_share(costing, program, transfer, tp))
    return 0;
  if (transfer->group < 0)
    time_s = costing_send_s(costing, transfer, &load, &tax);
  else
    time_s = costing_collective_s(costing, program, transfer, &load, &tax);
  double taken = 0;
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    if (tp->share[way] > 0)
      taken = MAX(taken, load.share[way]);
  return time_s * taken / TIMING_WHOLE_WAY;
}

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

static gboolean is_of_tp_alone(const Program *program, const Transfer *transfer) {
  return transfer->group >= 0 && costing_is_tp_alone(&g_array_index(program->groups, Group, transfer->group));
}

/* Whether other transfers use the links of tp's collectives for long enough that each of these must be simulated.
 * This follows from the plan, not from the form of the Program, so that whole and expanded programs agree. Fills
 * `met`, [transfers]. */
static gboolean meets_tp(const Costing *costing, const Program *program, const ProgramRepeats *repeats, double n_more,
                         gboolean *met) {
  if (costing->groups[AXIS_TP].n < 2)
    return FALSE;
  const Method *method = costing->workload->method;
  const double peak_flops = costing->cluster->gpu.peak_flops[precision_info(method->precision)->linear];
  const double tokens = (double)method->global_batch * (double)method->seq_len;
  const double least_step_s = 6 * model_parameters(costing->workload->model) * tokens / method->gpus / peak_flops;
  const int n = (int)program->transfers->len;
  WayLoad tp;
  collective_way_load(costing->cluster, &costing->groups[AXIS_TP], FALSE, &tp);
  g_autofree double *taken_s = g_new(double, n + 1);
  double sum_s = 0;
  for (int i = 0; i < n; i++) {
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, i);
    const double all_s = taken_of_tp_s(costing, program, transfer, &tp);
    met[i] = !transfer->is_item && all_s > 0;
    sum_s += taken_s[i] = is_of_tp_alone(program, transfer) ? 0 : all_s;
  }
  return sum_s > 0 && busiest_taken_s(program, repeats, n_more, taken_s) > least_meeting * least_step_s;
}

gboolean *costing_look_at_tp(Costing *costing, const Program *program, const ProgramRepeats *repeats, double n_more) {
  g_autofree gboolean *met = g_new(gboolean, program->transfers->len + 1);
  costing->tp_meets = TRUE; /* so that transfers of tp alone count too: they may run beside tp's collectives inside
                               kernels */
  return meets_tp(costing, program, repeats, n_more, met) ? g_steal_pointer(&met) : NULL;
}
