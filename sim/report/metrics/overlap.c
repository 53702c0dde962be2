/* Kernel time is a clock that stops while no kernel runs; a transfer is hidden by the amount the clock advances
 * between its start and end:
 *
 *     compute   |██ ██ ███|      |████ █|        █ kernels; two ops
 *     clock     0         7      7      12
 *     dp               [──────────────]          hidden: clock(end) − clock(start)
 *
 * Inside an op the clock is read from a table of its pieces' kernels if the host was ahead, which is nearly always
 * the case, and otherwise by replaying the op. */
#include "overlap.h"

typedef struct {
  gint64 start_ns, end_ns, clock_ns, kernels_ns; /* clock at its start, and how far it gets */
  gint32 op;
  gboolean host_is_ahead;
} Running;

typedef struct {
  gint64 start_ns, end_ns;
  guint8 stream, mover;
} Moving;

/* Kernels of one piece with the host ahead. */
typedef struct {
  gint64 *start_ns, *before_ns; /* [n], [n + 1]: when each starts, kernel time until then and in all; owned */
  int n;
  gboolean is_made;
} KernelTable;

struct Overlap {
  const Trace *trace;
  gsize first; /* record of the rank */
  const OpList *list;
  Running *running; /* as long as the longest list, as `moving` */
  Moving *moving;
  int n_running, n_moving;
  KernelTable tables[N_PIECES][N_PHASES];
};

Overlap *overlap_new(const Trace *trace) {
  Overlap *overlap = g_new0(Overlap, 1);
  int n_most = 1;
  for (int pp = 0; pp < trace->program->n_ranks; pp++)
    n_most = MAX(n_most, trace->program->ranks[pp].n_ops);
  overlap->trace = trace;
  overlap->running = g_new(Running, n_most);
  overlap->moving = g_new(Moving, n_most);
  return overlap;
}

void overlap_free(Overlap *overlap) {
  if (!overlap)
    return;
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < N_PHASES; phase++) {
      g_free(overlap->tables[piece][phase].start_ns);
      g_free(overlap->tables[piece][phase].before_ns);
    }
  g_free(overlap->running);
  g_free(overlap->moving);
  g_free(overlap);
}

void overlap_begin_rank(Overlap *overlap, int rank) {
  overlap->first = overlap->trace->first[rank];
  overlap->list = trace_list(overlap->trace, rank);
  overlap->n_running = overlap->n_moving = 0;
}

void overlap_add_op(Overlap *overlap, gint32 op, gint64 start_ns, gint64 end_ns, gint64 kernels_ns,
                    gboolean host_is_ahead) {
  const Running *last = overlap->n_running > 0 ? &overlap->running[overlap->n_running - 1] : NULL;
  gint64 clock_ns = last ? last->clock_ns + last->kernels_ns : 0;
  overlap->running[overlap->n_running++] = (Running){start_ns, end_ns, clock_ns, kernels_ns, op, host_is_ahead};
}

void overlap_add_transfer(Overlap *overlap, Stream stream, int mover, gint64 start_ns, gint64 end_ns) {
  overlap->moving[overlap->n_moving++] = (Moving){start_ns, end_ns, (guint8)stream, (guint8)mover};
}

static void note_kernel(const ItemSpan *span, gpointer data) {
  KernelTable *table = data;
  if (span->item->is_collective)
    return;
  table->start_ns[table->n] = span->start_ns;
  table->before_ns[table->n + 1] = table->before_ns[table->n] + span->end_ns - span->start_ns;
  table->n++;
}

static const KernelTable *table_of(Overlap *overlap, Piece piece, Phase phase) {
  KernelTable *table = &overlap->tables[piece][phase];
  if (table->is_made)
    return table;
  const Timing *timing = overlap->trace->timing;
  int n_items = timing->lists[piece][phase].n_items;
  table->start_ns = g_new(gint64, n_items + 1);
  table->before_ns = g_new0(gint64, n_items + 1);
  table->is_made = TRUE;
  Work one = {.phase = (guint8)phase,
              .n_embedding = piece == PIECE_EMBEDDING,
              .n_layers = piece == PIECE_LAYER || piece == PIECE_DENSE_LAYER,
              .n_dense = piece == PIECE_DENSE_LAYER,
              .n_head = piece == PIECE_HEAD,
              .stage = -1,
              .piece = -1,
              .first_item = -1,
              .last_item = -1};
  timing_replay(timing, &one, 0, -timing_host_lead(timing, &one), note_kernel, table);
  return table;
}

/* Kernel time of a piece in its first `elapsed_ns`. */
static gint64 table_before(const KernelTable *table, gint64 elapsed_ns) {
  int begun = 0, end = table->n; /* kernels before `begun` have started, those from `end` on have not */
  while (begun < end) {
    int middle = (begun + end) / 2;
    if (table->start_ns[middle] < elapsed_ns)
      begun = middle + 1;
    else
      end = middle;
  }
  if (begun == 0)
    return 0;
  gint64 before_ns = table->before_ns[begun - 1], after_ns = table->before_ns[begun];
  return MIN(before_ns + elapsed_ns - table->start_ns[begun - 1], after_ns);
}

/* Kernel time of a whole op in its first `elapsed_ns`, the host ahead. */
static gint64 kernels_ahead(Overlap *overlap, const Work *work, gint64 elapsed_ns) {
  int counts[N_PIECES];
  work_pieces(work, counts);
  gint64 sum_ns = 0;
  for (int i = 0; i < N_PIECES; i++) {
    Piece piece = work->phase == PHASE_F ? i : N_PIECES - 1 - i;
    gint64 run_ns = overlap->trace->timing->lists[piece][work->phase].time.run_ns;
    if (counts[piece] == 0 || run_ns == 0)
      continue;
    const KernelTable *table = table_of(overlap, piece, work->phase);
    gint64 n_whole = MIN(counts[piece], elapsed_ns / run_ns);
    sum_ns += n_whole * table->before_ns[table->n];
    elapsed_ns -= n_whole * run_ns;
    if (n_whole < counts[piece])
      return sum_ns + table_before(table, elapsed_ns);
  }
  return sum_ns;
}

/* Kernel time of the op from the start of its stretch to `time_ns`, inside it. */
static gint64 kernels_until(Overlap *overlap, const Running *running, gint64 time_ns) {
  if (running->kernels_ns == running->end_ns - running->start_ns)
    return time_ns - running->start_ns;
  const Work *work = &g_array_index(overlap->trace->program->works, Work, overlap->list->ops[running->op].work);
  gint64 op_start_ns = overlap->trace->start_ns[overlap->first + running->op];
  if (running->host_is_ahead) {
    gint64 cut_ns = running->start_ns > op_start_ns ? kernels_ahead(overlap, work, running->start_ns - op_start_ns) : 0;
    return kernels_ahead(overlap, work, time_ns - op_start_ns) - cut_ns;
  }
  ChargeSplit split = {0};
  timing_charge_part(overlap->trace->timing, work, op_start_ns, overlap->trace->issue_ns[overlap->first + running->op],
                     running->start_ns, time_ns, &split);
  return MIN(split.charged_ns[CHARGE_COMPUTE] + split.charged_ns[CHARGE_RECOMPUTE], running->kernels_ns);
}

/* Queries come in ascending time, so *next only advances. */
static gint64 clock_at(Overlap *overlap, int *next, gint64 time_ns) {
  while (*next < overlap->n_running && overlap->running[*next].end_ns <= time_ns)
    (*next)++;
  if (*next < overlap->n_running) {
    const Running *running = &overlap->running[*next];
    return running->clock_ns + (time_ns > running->start_ns ? kernels_until(overlap, running, time_ns) : 0);
  }
  if (overlap->n_running == 0)
    return 0;
  const Running *last = &overlap->running[overlap->n_running - 1];
  return last->clock_ns + last->kernels_ns;
}

void overlap_sum(Overlap *overlap, const Omitted *omitted, gint64 hidden_ns[N_MOVERS]) {
  int next[N_STREAMS] = {0}; /* records of one stream follow each other */
  for (int i = 0; i < overlap->n_moving; i++) {
    const Moving *moving = &overlap->moving[i];
    gint64 before_ns = clock_at(overlap, &next[moving->stream], moving->start_ns);
    gint64 after_ns = clock_at(overlap, &next[moving->stream], moving->end_ns);
    hidden_ns[moving->mover] += omitted_times(omitted, moving->end_ns) * MAX(after_ns - before_ns, 0);
  }
}
