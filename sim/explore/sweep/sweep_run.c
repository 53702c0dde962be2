/* One thread of one process writes; it hands out ranges and takes rows:
 *
 *     positions ──► ranges ──► this process's threads ──► rows ──► store (a transaction every half second, or 256 rows)
 *                     └──────► other ranks' threads ────────┘
 *
 * A range goes to whoever asks, so a slow configuration holds up one thread alone, and near the end ranges are short.
 * Ranges handed out are bounded by the number of threads, and so is what a process that is killed has to do again. */
#include "sweep_run.h"

#include <math.h>

#include "error.h"
#include "progress_line.h"
#include "sweep_pool.h"
#include "sweep_talk.h"

enum { MOST_RANGE = 32, RANGES_PER_THREAD = 2, SHARES_PER_THREAD = 8, COMMIT_ROWS = 256 };
static const gint64 commit_every_us = 500000, wait_alone_us = 50000, wait_talking_us = 500;

gint64 sweep_progress_n_now(const SweepProgress *progress) {
  gint64 n = 0;
  for (int status = 0; status < N_SWEEP_STATUSES; status++)
    n += progress->n_now[status];
  return n;
}

char *sweep_counts_text(const gint64 counts[N_SWEEP_STATUSES]) {
  static const char *const words[N_SWEEP_STATUSES] = {[SWEEP_RAN] = "ran",
                                                      [SWEEP_OUT_OF_MEMORY] = "out of memory",
                                                      [SWEEP_TOO_LARGE] = "too large to run",
                                                      [SWEEP_IMPOSSIBLE] = "impossible"};
  GString *text = g_string_new(NULL);
  for (int status = 0; status < N_SWEEP_STATUSES; status++) {
    g_autofree char *n = progress_thousands(counts[status]);
    if (counts[status] > 0 || status == SWEEP_RAN)
      g_string_append_printf(text, "%s%s %s", text->len > 0 ? ", " : "", n, words[status]);
  }
  return g_string_free(text, FALSE);
}

int sweep_threads(const Ranks *ranks, int n_threads) {
  const int n_neighbours = ranks != NULL ? ranks_on_this_machine(ranks) : 1;
  return n_threads > 0 ? n_threads : MAX(1, (int)g_get_num_processors() / n_neighbours);
}

SweepProblem sweep_problem(const SweepSetup *setup, const SweepTable *table) {
  return (SweepProblem){setup->space, table, setup->price, setup->prune, 0};
}

SweepPositions sweep_positions(const SweepSetup *setup, const GArray *done) {
  SweepPositions positions = {.done = done, .shuffled = setup->n_sample > 0};
  if (positions.shuffled)
    positions.shuffle = shuffle_of(space_count(setup->space), (guint64)setup->seed);
  return positions;
}

/* --- the first rank --- */

typedef struct {
  const SweepTable *table;
  ResultStore *store;
  SweepPool *pool;
  Ranks *ranks; /* NULL: alone */
  SweepProgress *progress;
  gint64 next, n;   /* positions */
  int n_others;     /* ranks that have not said bye */
  gboolean *told;   /* [ranks] to stop; owned */
  gboolean stopped; /* nothing new begins */
  GError *failure;  /* the first; owned */
  gint64 committed_us;
  gint64 n_uncommitted;
} Sweeper;

static gboolean is_failed(const Sweeper *sweeper) {
  return sweeper->failure != NULL;
}

/* Without a rank that hears, none is waited for. */
static void tell(Sweeper *sweeper, int rank, int tag, gconstpointer bytes, gsize n_bytes) {
  g_autoptr(GError) error = NULL;
  if (ranks_send(sweeper->ranks, rank, tag, bytes, n_bytes, &error))
    return;
  sweeper->n_others = 0;
  if (!is_failed(sweeper))
    sweeper->failure = g_steal_pointer(&error);
}

static void tell_stop(Sweeper *sweeper, int rank) {
  if (!sweeper->told[rank])
    tell(sweeper, rank, TAG_STOP, "", 0);
  sweeper->told[rank] = TRUE;
}

/* Nothing more is handed out. */
static void stop(Sweeper *sweeper) {
  if (sweeper->stopped)
    return;
  sweeper->stopped = TRUE;
  sweeper->next = sweeper->n;
  sweep_pool_stop(sweeper->pool);
  for (int rank = 1; sweeper->ranks != NULL && rank < ranks_count(sweeper->ranks); rank++)
    tell_stop(sweeper, rank);
}

static SweepRange next_range(Sweeper *sweeper) {
  const gint64 left = sweeper->n - sweeper->next;
  const gint64 share = left / ((gint64)sweeper->progress->n_threads * SHARES_PER_THREAD);
  const SweepRange range = {sweeper->next, MIN(left, CLAMP(share, 1, MOST_RANGE))};
  sweeper->next += range.n;
  return range;
}

/* After a failure rows are let go: the store cannot take them. */
static void keep(Sweeper *sweeper, const SweepRow *row) {
  if (is_failed(sweeper) || !result_store_add(sweeper->store, row, &sweeper->failure))
    return;
  sweeper->progress->n_now[row->status]++;
  sweeper->n_uncommitted++;
}

static void keep_batch(Sweeper *sweeper, SweepBatch *batch) {
  for (int i = 0; batch != NULL && i < batch->n_rows; i++)
    keep(sweeper, &batch->rows[i]);
  sweep_batch_free(batch, sweeper->table);
}

static void commit(Sweeper *sweeper) {
  const gint64 now_us = g_get_monotonic_time();
  const gboolean is_due = sweeper->n_uncommitted >= COMMIT_ROWS || now_us - sweeper->committed_us >= commit_every_us;
  if (is_failed(sweeper) || sweeper->n_uncommitted == 0 || !is_due)
    return;
  if (result_store_commit(sweeper->store, &sweeper->failure))
    sweeper->n_uncommitted = 0;
  sweeper->committed_us = now_us;
}

static void keep_packed(Sweeper *sweeper, const GByteArray *bytes) {
  for (gsize at = 0; at < bytes->len;) {
    SweepRow row;
    if (!sweep_row_unpack(&row, sweeper->table, bytes->data, bytes->len, &at)) {
      if (!is_failed(sweeper))
        fail_impossible(&sweeper->failure, "a rank sent what are no rows: all ranks must run the same program");
      return;
    }
    keep(sweeper, &row);
    sweep_row_clear(&row, sweeper->table);
  }
}

static void answer(Sweeper *sweeper, int from, int tag, const GByteArray *bytes) {
  if (tag == TAG_ROWS) {
    keep_packed(sweeper, bytes);
  } else if (tag == TAG_BYE) {
    sweeper->n_others--;
    tell_stop(sweeper, from);
  } else if (tag == TAG_WANT) {
    const SweepRange range = next_range(sweeper);
    tell(sweeper, from, TAG_RANGE, &range, sizeof range);
  }
}

/* All messages that have come. */
static void listen(Sweeper *sweeper) {
  g_autoptr(GByteArray) bytes = g_byte_array_new();
  int from, tag = 0;
  while (sweeper->ranks != NULL && tag >= 0) {
    g_autoptr(GError) error = NULL;
    if (!ranks_poll(sweeper->ranks, &from, &tag, bytes, &error)) {
      if (!is_failed(sweeper))
        sweeper->failure = g_steal_pointer(&error);
      sweeper->n_others = 0; /* nobody can be waited for */
      return;
    }
    if (tag >= 0)
      answer(sweeper, from, tag, bytes);
  }
}

static gboolean is_over(const Sweeper *sweeper) {
  return sweeper->next >= sweeper->n && sweep_pool_n_under_way(sweeper->pool) == 0 && sweeper->n_others <= 0;
}

static void turn(Sweeper *sweeper, int n_threads) {
  while (sweeper->next < sweeper->n && sweep_pool_n_under_way(sweeper->pool) < RANGES_PER_THREAD * n_threads)
    sweep_pool_push(sweeper->pool, next_range(sweeper));
  keep_batch(sweeper, sweep_pool_pop(sweeper->pool, sweeper->ranks != NULL ? wait_talking_us : wait_alone_us));
  for (SweepBatch *more; (more = sweep_pool_pop(sweeper->pool, 0)) != NULL;)
    keep_batch(sweeper, more);
  listen(sweeper);
  commit(sweeper);
}

static void show(ProgressLine *line, const SweepProgress *progress) {
  g_autofree char *counts = sweep_counts_text(progress->n_now);
  const Progress shown = {.n_wanted = progress->n_wanted,
                          .n_before = progress->n_before,
                          .n_now = sweep_progress_n_now(progress),
                          .detail = counts};
  progress_line_show(line, &shown);
}

static void sweep_all(Sweeper *sweeper, const SweepWorkers *workers) {
  ProgressLine line;
  progress_line_init(&line);
  while (!is_over(sweeper)) {
    turn(sweeper, workers->n_threads);
    show(&line, sweeper->progress);
    sweeper->progress->signal = interrupt_poll(workers->interrupt);
    if (sweeper->progress->signal != 0 || is_failed(sweeper))
      stop(sweeper);
  }
  progress_line_end(&line);
}

gboolean sweep_run(const SweepSetup *setup, const SweepTable *table, ResultStore *store, const SweepWorkers *workers,
                   SweepProgress *progress, GError **error) {
  const gint64 began_us = g_get_monotonic_time();
  Ranks *ranks = workers->ranks;
  const int n_threads = workers->n_threads, n_ranks = ranks != NULL ? ranks_count(ranks) : 1;
  g_autoptr(GArray) done = result_store_indices(store, error);
  if (done == NULL)
    return FALSE;
  *progress = (SweepProgress){.n_wanted = sweep_setup_count(setup),
                              .n_before = done->len,
                              .n_threads = n_threads * n_ranks,
                              .n_ranks = n_ranks};
  SweepProblem problem = sweep_problem(setup, table);
  problem.n_workers = n_threads * (ranks != NULL ? ranks_on_this_machine(ranks) : 1);
  const SweepPositions positions = sweep_positions(setup, done);
  g_autoptr(SweepPool) pool = sweep_pool_new(&problem, &positions, n_threads);
  Sweeper sweeper = {.table = table,
                     .store = store,
                     .pool = pool,
                     .ranks = ranks,
                     .progress = progress,
                     .n = progress->n_before < progress->n_wanted ? progress->n_wanted : 0,
                     .n_others = n_ranks - 1,
                     .told = g_new0(gboolean, n_ranks),
                     .committed_us = began_us};
  sweep_all(&sweeper, workers);
  g_free(sweeper.told);
  progress->wall_s = 1e-6 * (double)(g_get_monotonic_time() - began_us);
  if (sweeper.failure != NULL)
    g_propagate_error(error, sweeper.failure);
  return sweeper.failure == NULL && result_store_commit(store, error);
}
