/* A run's key holds everything the engine reads of a Simulation. The ops themselves are represented by the number of
 * their SharedOps:
 *
 *     op lists      number, and with it groups, peers, what waits for what
 *     works         run, tail, host
 *     transfers     run, tail, host; bytes, as small sends are buffered; what they take of a rank's ways
 *     the host      what it takes to wait; when it begins
 *
 * A folded run has one rank per list: its layout matters only for names in reports, and the trace gets that of its
 * own plan. */
#include "known_runs.h"

#include "number_key.h"

#include <string.h>

typedef struct {
  EngineStats stats;
  gint64 *times_ns;    /* [3][records] start, end, issue; owned */
  gint16 *early_ticks; /* [records]; NULL: not asked for; owned */
} KnownRun;

struct KnownRuns {
  GHashTable *runs; /* number key → KnownRun; owned */
  gsize n_bytes, most_bytes;
  KnownRunsStats stats;
};

static void known_run_free(gpointer data) {
  KnownRun *run = data;
  g_free(run->times_ns);
  g_free(run->early_ticks);
  g_free(run);
}

KnownRuns *known_runs_new(gsize most_bytes) {
  KnownRuns *runs = g_new(KnownRuns, 1);
  *runs = (KnownRuns){
      .runs = g_hash_table_new_full(number_key_hash, number_key_equal, (GDestroyNotify)g_array_unref, known_run_free),
      .most_bytes = most_bytes};
  return runs;
}

void known_runs_free(KnownRuns *runs) {
  if (runs == NULL)
    return;
  g_hash_table_unref(runs->runs);
  g_free(runs);
}

KnownRunsStats known_runs_stats(const KnownRuns *runs) {
  return runs->stats;
}

static void add_times(GArray *key, const OpTime *times, int n) {
  G_STATIC_ASSERT(sizeof *times == 3 * sizeof(gint64)); /* no padding */
  number_key_add(key, n);
  if (n > 0)
    g_array_append_vals(key, times, 3 * (guint)n);
}

static gint64 bits_of(double value) {
  gint64 bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* There is one more load than there are transfers: that of a collective of tp. */
static void add_loads(GArray *key, const WayLoad *loads, int n) {
  for (int i = 0; i < n; i++) {
    number_key_add(key, loads[i].latency_ns);
    for (int way = 0; way < TIMING_MAX_WAYS; way += 3)
      number_key_add(key, (gint64)loads[i].share[way] | (gint64)loads[i].share[way + 1] << 16 |
                              (gint64)loads[i].share[way + 2] << 32);
  }
  G_STATIC_ASSERT(TIMING_MAX_WAYS % 3 == 0);
}

static GArray *key_of(const Simulation *simulation) {
  const Program *program = simulation->program;
  const Timing *timing = simulation->timing;
  GArray *key = number_key_new();
  number_key_add(key, (gint64)program->shared->number);
  number_key_add(key, (simulation->early_ticks != NULL) | simulation->contended << 1 | (timing->loads != NULL) << 2 |
                          (simulation->begin_ns != NULL) << 3);
  number_key_add(key, simulation->eager_bytes);
  number_key_add(key, timing->step_ns);
  add_times(key, &timing->host_sync, 1);
  add_times(key, timing->works, timing->n_works);
  add_times(key, timing->transfers, timing->n_transfers);
  for (guint i = 0; i < program->transfers->len; i++)
    number_key_add(key, bits_of(g_array_index(program->transfers, Transfer, i).bytes));
  if (timing->loads != NULL)
    add_loads(key, timing->loads, timing->n_transfers + 1);
  if (simulation->begin_ns != NULL)
    g_array_append_vals(key, simulation->begin_ns, (guint)program->n_ranks);
  return key;
}

static Trace *recall(const KnownRun *run, const Simulation *simulation, EngineStats *stats) {
  Trace *trace = trace_new(simulation->program, simulation->layout, TRUE);
  const gsize n = trace->first[trace->n_ranks];
  trace->timing = simulation->timing;
  memcpy(trace->start_ns, run->times_ns, n * sizeof(gint64));
  memcpy(trace->end_ns, run->times_ns + n, n * sizeof(gint64));
  memcpy(trace->issue_ns, run->times_ns + 2 * n, n * sizeof(gint64));
  if (simulation->early_ticks != NULL)
    memcpy(simulation->early_ticks, run->early_ticks, n * sizeof(gint16));
  *stats = run->stats;
  return trace;
}

/* The size of what is kept of a run of `n` records. */
static gsize bytes_of(const GArray *key, gsize n) {
  return n * (3 * sizeof(gint64) + sizeof(gint16)) + key->len * sizeof(gint64) + sizeof(KnownRun);
}

static void keep(KnownRuns *runs, const GArray *key, const Simulation *simulation, const Trace *trace,
                 const EngineStats *stats) {
  const gsize n = trace->first[trace->n_ranks], n_bytes = bytes_of(key, n);
  if (runs->n_bytes + n_bytes > runs->most_bytes) {
    g_hash_table_remove_all(runs->runs);
    runs->n_bytes = 0;
  }
  if (n_bytes > runs->most_bytes)
    return;
  GArray *kept = g_array_sized_new(FALSE, FALSE, sizeof(gint64), key->len); /* exactly as large as needed */
  g_array_append_vals(kept, key->data, key->len);
  KnownRun *run = g_new(KnownRun, 1);
  *run = (KnownRun){.stats = *stats, .times_ns = g_new(gint64, 3 * n)};
  memcpy(run->times_ns, trace->start_ns, n * sizeof(gint64));
  memcpy(run->times_ns + n, trace->end_ns, n * sizeof(gint64));
  memcpy(run->times_ns + 2 * n, trace->issue_ns, n * sizeof(gint64));
  if (simulation->early_ticks != NULL)
    run->early_ticks = g_memdup2(simulation->early_ticks, n * sizeof(gint16));
  runs->n_bytes += n_bytes;
  g_hash_table_insert(runs->runs, kept, run);
}

static gboolean may_be_known(const Simulation *simulation) {
  const SharedOps *shared = simulation->program->shared;
  return simulation->folded && shared != NULL && shared->number != 0 && simulation->jitter == 0 &&
         simulation->speed == NULL && simulation->timing->taxes == NULL;
}

Trace *known_runs_run(KnownRuns *runs, const Simulation *simulation, EngineStats *stats) {
  if (runs == NULL || !may_be_known(simulation))
    return engine_run(simulation, stats);
  g_autoptr(GArray) key = key_of(simulation);
  const KnownRun *known = g_hash_table_lookup(runs->runs, key);
  if (known != NULL) {
    runs->stats.n_known++;
    return recall(known, simulation, stats);
  }
  Trace *trace = engine_run(simulation, stats);
  runs->stats.n_made++;
  keep(runs, key, simulation, trace, stats);
  return trace;
}
