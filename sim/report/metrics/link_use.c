#include "link_use.h"

#include "link_timeline.h"

typedef struct {
  double out_ns[TIMING_MAX_WAYS], in_ns[TIMING_MAX_WAYS];
} Taken;

static void add(Taken *taken, const WayLoad *load, double out_ns, double in_ns) {
  for (int way = 0; way < TIMING_MAX_WAYS; way++) {
    taken->out_ns[way] += out_ns * load->share[way] / TIMING_WHOLE_WAY;
    taken->in_ns[way] += in_ns * load->share[way] / TIMING_WHOLE_WAY;
  }
}

static void add_transfer(Taken *taken, const Timing *timing, const Op *op) {
  const WayLoad *load = &timing->loads[op->work];
  gint64 run_ns = timing->transfers[op->work].run_ns;
  double wire_ns = (double)(run_ns - MIN(load->latency_ns, run_ns));
  add(taken, load, op->kind == OP_RECV ? 0 : wire_ns, op->kind == OP_SEND ? 0 : wire_ns);
}

/* What collectives of tp inside a work take alone; a run of kernels has none. */
static double tp_inside_ns(const Timing *timing, const Work *work) {
  int counts[N_PIECES];
  work_pieces(work, counts);
  double sum_ns = 0;
  for (int piece = 0; piece < N_PIECES && work->phase != PHASE_OPTIMIZER; piece++) {
    const TimedList *list = &timing->lists[piece][work->phase];
    for (int i = 0; i < list->n_items && counts[piece] > 0; i++)
      if (list->items[i].is_collective && list->items[i].axis == AXIS_TP)
        sum_ns += counts[piece] * (double)list->items[i].duration_ns;
  }
  return sum_ns;
}

/* [works]; NULL where none is needed. Owned by the caller. */
static double *tp_inside_works(const Trace *trace) {
  const Program *program = trace->program;
  if (program->expansion != EXPANSION_BESIDE)
    return NULL;
  double *inside_ns = g_new(double, program->works->len + 1);
  for (guint w = 0; w < program->works->len; w++)
    inside_ns[w] = tp_inside_ns(trace->timing, &g_array_index(program->works, Work, w));
  return inside_ns;
}

/* Of the last step. Collectives of tp take no more than they would alone: where they are slowed, or wait for a member,
 * they are under way for longer. */
static Taken taken_by(const Trace *trace, const Metrics *metrics, int rank, const double *tp_inside_ns) {
  const OpList *list = trace_list(trace, rank);
  Taken taken = {{0}};
  double tp_ns = 0;
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->step != trace->program->n_steps - 1 || op->kind == OP_HOST)
      continue;
    if (op->kind == OP_COMPUTE)
      tp_ns += tp_inside_ns != NULL ? tp_inside_ns[op->work] : 0;
    else if (link_is_of_tp(trace->program, op))
      tp_ns += (double)trace->timing->transfers[op->work].run_ns;
    else
      add_transfer(&taken, trace->timing, op);
  }
  const RankBreakdown *breakdown = &metrics->ranks[rank];
  const double under_way_ns = (double)(breakdown->hidden_ns[AXIS_TP] + breakdown->exposed_ns[AXIS_TP]);
  tp_ns = trace->program->expansion != EXPANSION_NONE ? MIN(tp_ns, under_way_ns) : under_way_ns;
  add(&taken, &trace->timing->tp, tp_ns, tp_ns);
  return taken;
}

/* Over the ranks of a stage as they come: where all are alike the mean is what each has, to the last bit, so that it is
 * that of a folded run. */
typedef struct {
  double mean[TIMING_MAX_WAYS];
  int n;
} StageUse;

static void add_to_stage(StageUse *stage, const double use[TIMING_MAX_WAYS]) {
  stage->n++;
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    stage->mean[way] += (use[way] - stage->mean[way]) / stage->n;
}

static void take_busiest(const Trace *trace, int rank, const double use[TIMING_MAX_WAYS], LinkUse *uses) {
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    if (use[way] > uses[way].most) {
      uses[way].most = use[way];
      uses[way].busiest = trace_first_rank(trace, rank);
    }
}

gboolean link_use_of(const Trace *trace, const Metrics *metrics, LinkUse *uses) {
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    uses[way] = (LinkUse){.busiest = -1};
  if (trace->timing == NULL || trace->timing->loads == NULL || metrics->step_ns <= 0)
    return FALSE;
  const int n_stages = trace->program->n_ranks;
  g_autofree double *tp_inside_ns = tp_inside_works(trace);
  g_autofree StageUse *stages = g_new0(StageUse, n_stages);
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    const Taken taken = taken_by(trace, metrics, rank, tp_inside_ns);
    double use[TIMING_MAX_WAYS];
    for (int way = 0; way < TIMING_MAX_WAYS; way++)
      use[way] = MAX(taken.out_ns[way], taken.in_ns[way]) / (double)metrics->step_ns;
    add_to_stage(&stages[trace->pipeline_rank[rank]], use);
    take_busiest(trace, rank, use, uses);
  }
  for (int stage = 0; stage < n_stages; stage++)
    for (int way = 0; way < TIMING_MAX_WAYS; way++)
      uses[way].mean += stages[stage].mean[way] / n_stages;
  return TRUE;
}

char *link_use_name(const Cluster *cluster, int way) {
  if (way == 0)
    return g_strdup("scale-up links");
  if (way == 1)
    return g_strdup("NICs");
  const FabricTier *below = &cluster->tiers[way - 2];
  return g_strdup_printf("uplinks of %" G_GINT64_FORMAT " GPUs", below->span_gpus);
}
