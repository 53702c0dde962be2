/* Kernel time is a clock that stops while no kernel runs; a transfer is hidden by the amount the clock advances
 * between its start and end:
 *
 *     compute   |██ ██ ███|      |████ █|        █ kernels; two ops
 *     clock     0         7      7      12
 *     dp               [──────────────]          hidden: clock(end) − clock(start)
 *
 * Inside an op the clock is read from a table of kernels: of its pieces' if the host was ahead, which is nearly always
 * the case, and otherwise of its own, kept for the next op of the same work that the host was as far ahead of. */
#include "overlap.h"

typedef struct {
  gint64 start_ns, before_ns; /* kernel time before it */
} Kernel;

/* Kernels of a work replayed from 0. */
typedef struct {
  Kernel *kernels; /* [n_room], of which one behind the last has the sum; owned */
  int n, n_room;
  gint64 end_ns;
  gint64 lead_ns; /* from the host's first launch to 0 */
} KernelTable;

/* A moment of a stream, and where it is: op `i` is the first that ends later. */
typedef struct {
  gint64 time_ns, clock_ns;
  gint32 i;
} Moment;

struct Overlap {
  const Trace *trace;
  /* of the rank */
  const Op *ops;
  const gint64 *start_ns, *issue_ns;
  KernelTable pieces[N_PIECES][N_PHASES]; /* host ahead */
  KernelTable late[];                     /* [works] the latest asked for */
};

Overlap *overlap_new(const Trace *trace) {
  Overlap *overlap = g_malloc0(sizeof *overlap + trace->program->works->len * sizeof *overlap->late);
  overlap->trace = trace;
  return overlap;
}

void overlap_free(Overlap *overlap) {
  if (!overlap)
    return;
  for (int i = 0; i < N_PIECES * N_PHASES; i++)
    g_free(overlap->pieces[i / N_PHASES][i % N_PHASES].kernels);
  for (guint w = 0; w < overlap->trace->program->works->len; w++)
    g_free(overlap->late[w].kernels);
  g_free(overlap);
}

static void note_kernel(const ItemSpan *span, gpointer data) {
  KernelTable *table = data;
  if (span->item->is_collective)
    return;
  if (table->n + 1 >= table->n_room) {
    table->n_room = MAX(2 * table->n_room, 32);
    table->kernels = g_renew(Kernel, table->kernels, table->n_room);
  }
  Kernel *kernel = &table->kernels[table->n++];
  const gint64 before_ns = table->n > 1 ? kernel->before_ns : 0;
  *kernel = (Kernel){span->start_ns, before_ns};
  kernel[1].before_ns = before_ns + span->end_ns - span->start_ns;
}

static void table_make(KernelTable *table, const Timing *timing, const Work *work, gint64 lead_ns) {
  table->n = 0;
  table->lead_ns = lead_ns;
  table->end_ns = timing_replay(timing, work, 0, -lead_ns, note_kernel, table);
}

static const KernelTable *table_of_piece(Overlap *overlap, Piece piece, Phase phase) {
  KernelTable *table = &overlap->pieces[piece][phase];
  if (table->n > 0)
    return table;
  const Timing *timing = overlap->trace->timing;
  Work one = {.phase = (guint8)phase,
              .n_embedding = piece == PIECE_EMBEDDING,
              .n_layers = piece_is_layer(piece),
              .n_dense = piece_is_dense(piece),
              .n_head = piece == PIECE_HEAD,
              .piece = -1};
  one.others.n[piece] = piece != piece_family(piece);
  table_make(table, timing, &one, timing_host_lead(timing, &one));
  return table;
}

/* Kernel time in its first `elapsed_ns`. */
static gint64 table_before(const KernelTable *table, gint64 elapsed_ns) {
  int begun = 0, end = table->n; /* kernels before `begun` have started, those from `end` on have not */
  while (begun < end) {
    int middle = (begun + end) / 2;
    if (table->kernels[middle].start_ns < elapsed_ns)
      begun = middle + 1;
    else
      end = middle;
  }
  if (begun == 0)
    return 0;
  const Kernel *last = &table->kernels[begun - 1];
  return MIN(last->before_ns + elapsed_ns - last->start_ns, last[1].before_ns);
}

/* Kernel time of a whole op in its first `elapsed_ns`, the host ahead. */
static gint64 kernels_ahead(Overlap *overlap, const Work *work, gint64 elapsed_ns) {
  int counts[N_PIECES];
  work_pieces(work, counts);
  gint64 sum_ns = 0;
  for (int i = 0; i < N_PIECES; i++) {
    Piece piece = work->phase == PHASE_F ? i : N_PIECES - 1 - i;
    if (counts[piece] == 0)
      continue;
    gint64 run_ns = timing_list(overlap->trace->timing, work, piece)->time.run_ns;
    if (run_ns == 0)
      continue;
    const KernelTable *table = table_of_piece(overlap, piece, work->phase);
    gint64 n_whole = MIN(counts[piece], elapsed_ns / run_ns);
    sum_ns += n_whole * (table->n > 0 ? table->kernels[table->n].before_ns : 0);
    elapsed_ns -= n_whole * run_ns;
    if (n_whole < counts[piece])
      return sum_ns + table_before(table, elapsed_ns);
  }
  return sum_ns;
}

/* Kernel time of op `op` in its first `elapsed_ns`. Kernels fill what a record is longer than its replay (see
 * timing_charge()). */
static gint64 kernels_before(Overlap *overlap, const Running *running, gint64 elapsed_ns) {
  const gint32 w = overlap->ops[running->op].work;
  const Work *work = &g_array_index(overlap->trace->program->works, Work, w);
  if (running->host_is_ahead)
    return kernels_ahead(overlap, work, elapsed_ns);
  const Timing *timing = overlap->trace->timing;
  const gint64 issued_ns = overlap->start_ns[running->op] - overlap->issue_ns[running->op];
  const gint64 lead_ns = MIN(issued_ns, timing_host_lead(timing, work));
  KernelTable *table = &overlap->late[w];
  if (table->n == 0 || table->lead_ns != lead_ns)
    table_make(table, timing, work, lead_ns);
  return table_before(table, elapsed_ns) + MAX(elapsed_ns - table->end_ns, 0);
}

/* Kernel time of the op from the start of its stretch to `time_ns`, inside it. */
static gint64 kernels_until(Overlap *overlap, const Running *running, gint64 time_ns) {
  const gint64 kernels_ns = running[1].clock_ns - running->clock_ns;
  if (kernels_ns == running->end_ns - running->start_ns)
    return time_ns - running->start_ns;
  const gint64 op_start_ns = overlap->start_ns[running->op];
  const gint64 cut_ns =
      running->start_ns > op_start_ns ? kernels_before(overlap, running, running->start_ns - op_start_ns) : 0;
  return MIN(kernels_before(overlap, running, time_ns - op_start_ns) - cut_ns, kernels_ns);
}

/* Moves on to a later moment. */
static inline void moment_pass(Overlap *overlap, const OverlapRecords *records, Moment *moment, gint64 time_ns,
                               gint32 near) {
  gint32 i = near > moment->i && records->running[near - 1].end_ns <= time_ns ? near : moment->i;
  while (i < records->n_running && records->running[i].end_ns <= time_ns)
    i++;
  const Running *running = &records->running[i];
  moment->i = i;
  moment->time_ns = time_ns;
  moment->clock_ns = running->clock_ns;
  if (i < records->n_running && time_ns > running->start_ns)
    moment->clock_ns += kernels_until(overlap, running, time_ns);
}

void overlap_add_hidden(Overlap *overlap, int rank, const OverlapRecords *records, const Omitted *omitted,
                        gint64 hidden_ns[N_MOVERS]) {
  const gsize first = overlap->trace->first[rank];
  overlap->ops = trace_list(overlap->trace, rank)->ops;
  overlap->start_ns = overlap->trace->start_ns + first;
  overlap->issue_ns = overlap->trace->issue_ns + first;
  Moment at[N_STREAMS] = {0}; /* records of one stream follow each other, often without a gap */
  for (int i = 0; i < records->n_moving; i++) {
    const Moving *moving = &records->moving[i];
    Moment *moment = &at[moving->stream];
    if (moving->start_ns != moment->time_ns)
      moment_pass(overlap, records, moment, moving->start_ns, moving->near);
    const gint64 before_ns = moment->clock_ns;
    moment_pass(overlap, records, moment, moving->end_ns, moving->near);
    hidden_ns[moving->mover] += omitted_times(omitted, moving->end_ns) * MAX(moment->clock_ns - before_ns, 0);
  }
}
