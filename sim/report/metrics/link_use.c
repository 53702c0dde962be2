/* Sums are over integers, ns · share, in long doubles: exact for weeks of transfers. */
#include "link_use.h"

#include <string.h>

#include "link_timeline.h"

typedef struct {
  double out_ns[TIMING_MAX_WAYS], in_ns[TIMING_MAX_WAYS];
} Taken;

/* [transfers] how often one goes out and comes in; sums over them are exact in any order of ops */
typedef struct {
  gint64 out, in;
} Moves;

static gint64 wire_ns(const Timing *timing, gint32 transfer) {
  const gint64 run_ns = timing->transfers[transfer].run_ns;
  return run_ns - MIN(timing->loads[transfer].latency_ns, run_ns);
}

/* [works]: how long the bytes of the tp collectives in each move, alone. Owned by the caller. */
static gint64 *tp_wire_in_works(const Trace *trace) {
  const Program *program = trace->program;
  gint64 *inside_ns = g_new(gint64, program->works->len + 1);
  for (guint w = 0; w < program->works->len; w++) {
    gint64 latency_ns;
    inside_ns[w] = timing_collectives_ns(trace->timing, &g_array_index(program->works, Work, w), AXIS_TP, &latency_ns);
    inside_ns[w] -= latency_ns;
  }
  return inside_ns;
}

/* Removes tp collectives from the moves; returns how long their bytes move, alone. */
static gint64 take_tp(const Trace *trace, Moves *moves) {
  gint64 tp_ns = 0;
  for (guint t = 0; t < trace->program->transfers->len; t++) {
    if (!link_is_of_tp(trace->program, (gint32)t))
      continue;
    tp_ns += moves[t].in * wire_ns(trace->timing, (gint32)t);
    moves[t] = (Moves){0};
  }
  return tp_ns;
}

/* A rank's work in the last step, and how long the bytes of its tp collectives move, alone. */
static void count_moves(const Trace *trace, const Omitted *omitted, int rank, const gint64 *tp_inside_ns, Moves *moves,
                        gint64 *tp_ns) {
  const OpList *list = trace_list(trace, rank);
  const int last_step = trace->program->n_steps - 1;
  memset(moves, 0, sizeof *moves * trace->program->transfers->len);
  *tp_ns = 0;
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->step != last_step || op->kind == OP_HOST)
      continue;
    const gint64 times = omitted_op_times(omitted, rank, last_step, i);
    if (op->kind == OP_COMPUTE) {
      *tp_ns += times * tp_inside_ns[op->work];
      continue;
    }
    moves[op->work].out += op->kind == OP_RECV ? 0 : times;
    moves[op->work].in += op->kind == OP_SEND ? 0 : times;
  }
  *tp_ns += take_tp(trace, moves);
}

/* tp collectives use no more than they would alone: if they are slowed down, or wait for a member, they just take
 * longer. */
static Taken taken_by(const Trace *trace, const Moves *moves, gint64 tp_ns) {
  const Timing *timing = trace->timing;
  long double out[TIMING_MAX_WAYS], in[TIMING_MAX_WAYS];
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    out[way] = in[way] = (long double)tp_ns * timing->tp.share[way];
  for (guint t = 0; t < trace->program->transfers->len; t++) {
    if (moves[t].out == 0 && moves[t].in == 0)
      continue;
    const long double ns = (long double)wire_ns(timing, (gint32)t);
    for (int way = 0; way < TIMING_MAX_WAYS; way++) {
      out[way] += ns * (long double)moves[t].out * timing->loads[t].share[way];
      in[way] += ns * (long double)moves[t].in * timing->loads[t].share[way];
    }
  }
  Taken taken;
  for (int way = 0; way < TIMING_MAX_WAYS; way++) {
    taken.out_ns[way] = (double)(out[way] / TIMING_WHOLE_WAY);
    taken.in_ns[way] = (double)(in[way] / TIMING_WHOLE_WAY);
  }
  return taken;
}

/* Running mean over the ranks of a stage: if all are alike the mean equals each of them to the last bit, so it
 * matches that of a folded run. */
typedef struct {
  double mean[TIMING_MAX_WAYS];
  int n;
} StageUse;

static void add_to_stage(StageUse *stage, const double asked[TIMING_MAX_WAYS]) {
  stage->n++;
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    stage->mean[way] += (MIN(asked[way], 1) - stage->mean[way]) / stage->n;
}

static void take_busiest(const Trace *trace, int rank, const double asked[TIMING_MAX_WAYS], LinkUse *uses) {
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    if (asked[way] > uses[way].asked) {
      uses[way].asked = asked[way];
      uses[way].most = MIN(asked[way], 1);
      uses[way].busiest = trace_first_rank(trace, rank);
    }
}

gboolean link_use_of(const Trace *trace, const Metrics *metrics, const Omitted *omitted, LinkUse *uses) {
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    uses[way] = (LinkUse){.busiest = -1};
  if (trace->timing == NULL || trace->timing->loads == NULL || metrics->step_ns <= 0)
    return FALSE;
  const int n_stages = trace->program->n_ranks;
  g_autofree gint64 *tp_inside_ns = tp_wire_in_works(trace);
  g_autofree StageUse *stages = g_new0(StageUse, n_stages);
  g_autofree Moves *moves = g_new(Moves, trace->program->transfers->len + 1);
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    gint64 tp_ns;
    count_moves(trace, omitted, rank, tp_inside_ns, moves, &tp_ns);
    const Taken taken = taken_by(trace, moves, tp_ns);
    double asked[TIMING_MAX_WAYS];
    for (int way = 0; way < TIMING_MAX_WAYS; way++)
      asked[way] = MAX(taken.out_ns[way], taken.in_ns[way]) / (double)metrics->step_ns;
    add_to_stage(&stages[trace->pipeline_rank[rank]], asked);
    take_busiest(trace, rank, asked, uses);
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
  if (way == TIMING_HOST_WAY)
    return g_strdup("host memory");
  return g_strdup_printf("uplinks of %" G_GINT64_FORMAT " GPUs", cluster_level(cluster, way - 2).span_gpus);
}
