/* Every rank sends three times per op, converted to rank 0's clock:
 *
 *     rank 1's CLOCK_MONOTONIC + offset = rank 0's;   trace time = that − the earliest issue time of all */
#include "measured_trace.h"

#include <string.h>

static void put_on_one_clock(Trace *trace) {
  const gsize n = trace->first[trace->n_ranks];
  gint64 zero_ns = G_MAXINT64;
  for (gsize i = 0; i < n; i++)
    zero_ns = MIN(zero_ns, trace->issue_ns[i]);
  for (gsize i = 0; i < n; i++) {
    trace->issue_ns[i] = MAX(0, trace->issue_ns[i] - zero_ns);
    trace->start_ns[i] = MAX(0, trace->start_ns[i] - zero_ns);
    trace->end_ns[i] = MAX(trace->start_ns[i], trace->end_ns[i] - zero_ns);
  }
}

/* Stores one rank's three tables. */
static void take_records(Trace *trace, int rank, const gint64 *sent) {
  const gsize first = trace->first[rank], n = trace->first[rank + 1] - first;
  gint64 *const tables[] = {trace->start_ns, trace->end_ns, trace->issue_ns};
  for (gsize i = 0; i < G_N_ELEMENTS(tables); i++)
    memcpy(tables[i] + first, sent + i * n, n * sizeof *sent);
}

Trace *measured_trace(World *world, const Workload *workload, const Program *program, const ExecutionResult *result) {
  const gint64 offset_ns = world_clock_offset(world);
  const gsize n = (gsize)result->n_ops;
  g_autofree gint64 *own = g_new(gint64, 3 * n + 1);
  const gint64 *const tables[] = {result->start_ns, result->end_ns, result->issue_ns};
  for (gsize t = 0; t < G_N_ELEMENTS(tables); t++)
    for (gsize i = 0; i < n; i++)
      own[t * n + i] = tables[t][i] + offset_ns;
  g_autofree gsize *sizes = NULL;
  g_autofree guint8 *all = world_gather(world, own, 3 * n * sizeof *own, &sizes);
  if (all == NULL)
    return NULL;
  Trace *trace = trace_new(program, &workload->layout, FALSE);
  gsize at = 0;
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    g_assert(sizes[rank] == 3 * (trace->first[rank + 1] - trace->first[rank]) * sizeof(gint64));
    take_records(trace, rank, (const gint64 *)(const void *)(all + at));
    at += sizes[rank];
  }
  put_on_one_clock(trace);
  return trace;
}

static gboolean is_first(const Layout *layout, int rank) {
  const Coordinates at = layout_coordinates(layout, rank);
  return at.at[AXIS_TP] == 0 && at.at[AXIS_CP] == 0;
}

/* Every tp rank has the whole loss of its tokens, and every cp rank that of its sequences: only the first of each
 * counts. */
double *measured_losses(World *world, const Workload *workload, int n_steps, const ExecutionResult *result) {
  const Layout *layout = &workload->layout;
  g_autofree gsize *sizes = NULL;
  g_autofree double *all = world_gather(world, result->losses, sizeof(double) * (gsize)n_steps, &sizes);
  if (all == NULL)
    return NULL;
  double *sums = g_new0(double, n_steps);
  for (int rank = 0; rank < layout->n_ranks; rank++)
    for (int step = 0; step < n_steps && is_first(layout, rank); step++)
      sums[step] += all[rank * n_steps + step] / workload->method->islands;
  return sums;
}

HostLead host_lead_of_rank(const OpList *list, int n_steps, const ExecutionResult *result) {
  HostLead lead = {0};
  for (int i = 0; i < list->n_ops; i++) {
    if (list->ops[i].kind != OP_COMPUTE || (n_steps > 1 && list->ops[i].step == 0))
      continue;
    const gint64 start_ns = result->start_ns[i], end_ns = result->end_ns[i];
    lead.n_ops++;
    if (start_ns >= result->issued_ns[i])
      continue;
    lead.n_late++;
    lead.late_s += (double)(end_ns - start_ns) * 1e-9;
    lead.launch_s += (double)(MIN(end_ns, result->issued_ns[i]) - start_ns) * 1e-9;
  }
  return lead;
}

HostLead measured_host_lead(World *world, const Workload *workload, const Program *program,
                            const ExecutionResult *result) {
  const int pp = layout_coordinates(&workload->layout, world_rank(world)).at[AXIS_PP];
  const HostLead own = host_lead_of_rank(&program->ranks[pp], program->n_steps, result);
  g_autofree gsize *sizes = NULL;
  g_autofree HostLead *all = world_gather(world, &own, sizeof own, &sizes);
  HostLead sum = {0};
  const int n_ranks = world_size(world), n_counted = n_ranks * MAX(program->n_steps - 1, 1);
  for (int rank = 0; all != NULL && rank < n_ranks; rank++) {
    sum.n_ops += all[rank].n_ops;
    sum.n_late += all[rank].n_late;
    sum.late_s += all[rank].late_s / n_counted;
    sum.launch_s += all[rank].launch_s / n_counted;
  }
  return sum;
}

gint64 *measured_steps_ns(const Trace *trace) {
  const int n_steps = trace->program->n_steps;
  gint64 *steps_ns = g_new(gint64, n_steps), before_ns = 0;
  for (int step = 0; step < n_steps; step++) {
    const gint64 end_ns = trace_step_end(trace, step);
    steps_ns[step] = end_ns - before_ns;
    before_ns = end_ns;
  }
  return steps_ns;
}

static int compare_times(gconstpointer a, gconstpointer b) {
  const gint64 x = *(const gint64 *)a, y = *(const gint64 *)b;
  return (x > y) - (x < y);
}

gint64 measured_median_ns(const gint64 *steps_ns, int n_steps) {
  const int n_warm = n_steps > 1 ? 1 : 0, n = n_steps - n_warm;
  g_autofree gint64 *sorted = g_memdup2(steps_ns + n_warm, sizeof *steps_ns * (gsize)n);
  qsort(sorted, (gsize)n, sizeof *sorted, compare_times);
  return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}
