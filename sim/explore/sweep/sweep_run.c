/* Threads of all ranks take ranges of positions from one counter, and in each process one thread keeps their rows:
 *
 *     counter ──► ranges ──► threads of the first rank ──► its store (a transaction every half second, or 256 rows)
 *        │                                                     ▲
 *        └──────► ranges ──► threads of another ──► a store in memory, sent as a whole as often
 *
 * A range goes to whoever is free, so a slow configuration holds up one thread alone, and near the end ranges are
 * short. Ranges taken are bounded by the number of threads, and so is what a process that is killed has to do again. */
#include "sweep_run.h"

#include <math.h>

#include "error.h"
#include "progress_line.h"
#include "sweep_try.h"

enum { MOST_RANGE = 32, RANGES_PER_THREAD = 2, SHARES_PER_THREAD = 8, COMMIT_ROWS = 256 };
static const gint64 commit_every_us = 500000, wait_us = 50000, wait_receiving_us = 500;
static const gint64 stop_count = G_GINT64_CONSTANT(1) << 53; /* added to the counter: beyond any position */

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
  const int n_neighbours = ranks != NULL ? ranks->place.n_neighbours : 1;
  return n_threads > 0 ? n_threads : MAX(1, (int)g_get_num_processors() / n_neighbours);
}

/* Consecutive positions in the order in which a sweep visits its space, and the rows of those tried: fewer if some were
 * done before, or the sweep was stopped. */
typedef struct {
  gint64 first, n;
  int n_rows;
  SweepRow rows[];
} Range;

typedef struct {
  const SweepSetup *setup;
  const SweepTable *table;
  const GArray *done;
  const Ranks *ranks; /* NULL: alone */
  ResultStore *store;
  SweepProgress *progress;
  GAsyncQueue *ranges, *tried; /* of Range *; owned */
  int n_threads, n_under_way;  /* ranges taken whose rows have not been kept */
  gint stopped;                /* atomic: nothing new begins */
  gint64 counter;              /* of a process that is alone */
  gint64 n, n_taken;           /* positions; those taken, when last seen */
  gboolean ended;              /* all positions are taken, or it is stopped */
  int n_others;                /* ranks that may still send */
  GError *failure;             /* the first; owned */
  gint64 committed_us, n_uncommitted;
} Sweep;

/* --- threads --- */

static int compare_indices(gconstpointer a, gconstpointer b) {
  const gint64 x = *(const gint64 *)a, y = *(const gint64 *)b;
  return (x > y) - (x < y);
}

static void try_range(const Sweep *sweep, SweepWorker *worker, Range *range) {
  for (gint64 i = 0; i < range->n && !g_atomic_int_get(&sweep->stopped); i++) {
    const gint64 index = sweep_setup_index(sweep->setup, range->first + i);
    if (!g_array_binary_search((GArray *)sweep->done, &index, compare_indices, NULL))
      sweep_worker_try(worker, index, &range->rows[range->n_rows++]);
  }
}

static void push(Sweep *sweep, gint64 first, gint64 n) {
  Range *range = g_malloc(sizeof *range + (gsize)n * sizeof *range->rows);
  *range = (Range){.first = first, .n = n};
  g_async_queue_push(sweep->ranges, range);
}

/* Until a range of nothing, which it leaves to the next thread. */
static gpointer run_thread(gpointer data) {
  Sweep *sweep = data;
  g_autoptr(SweepWorker) worker = sweep_worker_new(sweep->setup, sweep->table);
  Range *range;
  while ((range = g_async_queue_pop(sweep->ranges))->n > 0) {
    try_range(sweep, worker, range);
    g_async_queue_push(sweep->tried, range);
  }
  g_async_queue_push(sweep->ranges, range);
  return NULL;
}

/* --- what all ranks share --- */

static gboolean is_first(const Sweep *sweep) {
  return sweep->ranks == NULL || sweep->ranks->place.rank == 0;
}

/* Where MPI fails, nobody can be waited for. */
static gboolean check(Sweep *sweep, char *problem) {
  g_autoptr(GError) error = NULL;
  if (ranks_check(problem, &error))
    return TRUE;
  sweep->n_others = 0;
  if (sweep->failure == NULL)
    sweep->failure = g_steal_pointer(&error);
  return FALSE;
}

/* Adds to the counter; its value before that. */
static gint64 count(Sweep *sweep, gint64 by) {
  gint64 before = sweep->counter;
  if (sweep->ranks == NULL)
    sweep->counter += by;
  else if (!check(sweep, sweep->ranks->mpi->count(&sweep->ranks->place, by, &before)))
    before = stop_count;
  return before;
}

static void stop(Sweep *sweep) {
  if (g_atomic_int_get(&sweep->stopped))
    return;
  g_atomic_int_set(&sweep->stopped, TRUE);
  sweep->ended = TRUE;
  count(sweep, stop_count);
}

static void take_ranges(Sweep *sweep) {
  while (!sweep->ended && sweep->n_under_way < RANGES_PER_THREAD * sweep->n_threads) {
    const gint64 share = (sweep->n - sweep->n_taken) / ((gint64)sweep->progress->n_threads * SHARES_PER_THREAD);
    const gint64 n = CLAMP(share, 1, MOST_RANGE), first = count(sweep, n);
    sweep->n_taken = MIN(first + n, sweep->n);
    sweep->ended = first >= sweep->n;
    if (sweep->ended)
      return;
    push(sweep, first, sweep->n_taken - first);
    sweep->n_under_way++;
  }
}

/* --- keeping rows --- */

/* After a failure rows are let go: the store cannot take them. */
static void keep(Sweep *sweep, Range *range) {
  for (int i = 0; i < range->n_rows; i++) {
    SweepRow *row = &range->rows[i];
    if (sweep->failure == NULL && result_store_add(sweep->store, row, &sweep->failure)) {
      sweep->progress->n_now[row->status]++;
      sweep->n_uncommitted++;
    }
    sweep_row_clear(row);
  }
  sweep->n_under_way--;
  g_free(range);
}

static void keep_tried(Sweep *sweep) {
  const gboolean receives = sweep->ranks != NULL && is_first(sweep);
  Range *range = g_async_queue_timeout_pop(sweep->tried, (guint64)(receives ? wait_receiving_us : wait_us));
  for (; range != NULL; range = g_async_queue_try_pop(sweep->tried))
    keep(sweep, range);
}

/* What other ranks have sent; the last of one is empty. */
static void receive(Sweep *sweep) {
  g_autoptr(GByteArray) bytes = g_byte_array_new();
  gboolean has_come = TRUE;
  while (has_come && check(sweep, sweep->ranks->mpi->receive(bytes, &has_come))) {
    sweep->n_others -= has_come && bytes->len == 0;
    if (has_come && bytes->len > 0 && sweep->failure == NULL)
      sweep->n_uncommitted += result_store_unpack(sweep->store, bytes, sweep->progress->n_now, &sweep->failure);
  }
}

static void commit(Sweep *sweep) {
  g_autoptr(GByteArray) bytes = g_byte_array_new();
  const gboolean ok = is_first(sweep) ? result_store_commit(sweep->store, &sweep->failure)
                                      : result_store_pack(sweep->store, bytes, &sweep->failure) &&
                                            check(sweep, sweep->ranks->mpi->send(bytes));
  if (ok)
    sweep->n_uncommitted = 0;
  sweep->committed_us = g_get_monotonic_time();
}

static gboolean commit_is_due(const Sweep *sweep) {
  const gboolean is_late = g_get_monotonic_time() - sweep->committed_us >= commit_every_us;
  return sweep->failure == NULL && sweep->n_uncommitted > 0 && (is_late || sweep->n_uncommitted >= COMMIT_ROWS);
}

/* --- all of it --- */

static void show(ProgressLine *line, const SweepProgress *progress) {
  if (!progress_line_is_due(line))
    return;
  g_autofree char *counts = sweep_counts_text(progress->n_now);
  const Progress shown = {.n_wanted = progress->n_wanted,
                          .n_before = progress->n_before,
                          .n_now = sweep_progress_n_now(progress),
                          .detail = counts};
  progress_line_show(line, &shown);
}

/* Of the first rank; another follows what it does to the counter. */
static gboolean is_to_stop(Sweep *sweep, Interrupt *interrupt) {
  if (!is_first(sweep))
    return sweep->failure != NULL || count(sweep, 0) >= stop_count;
  sweep->progress->signal = interrupt_poll(interrupt);
  return sweep->progress->signal != 0 || sweep->failure != NULL;
}

static void sweep_all(Sweep *sweep, Interrupt *interrupt) {
  ProgressLine line;
  progress_line_init(&line);
  while (!sweep->ended || sweep->n_under_way > 0 || sweep->n_others > 0) {
    take_ranges(sweep);
    keep_tried(sweep);
    if (sweep->n_others > 0)
      receive(sweep);
    if (commit_is_due(sweep))
      commit(sweep);
    if (is_first(sweep))
      show(&line, sweep->progress);
    if (is_to_stop(sweep, interrupt))
      stop(sweep);
  }
  progress_line_end(&line);
  if (sweep->failure == NULL)
    commit(sweep);
  g_autoptr(GByteArray) last = g_byte_array_new();
  if (!is_first(sweep))
    check(sweep, sweep->ranks->mpi->send(last));
}

gboolean sweep_run(const SweepSetup *setup, const SweepTable *table, ResultStore *store, const GArray *done,
                   const SweepWorkers *workers, SweepProgress *progress, GError **error) {
  const gint64 began_us = g_get_monotonic_time();
  const int n_ranks = workers->ranks != NULL ? workers->ranks->place.n_ranks : 1;
  *progress = (SweepProgress){.n_wanted = sweep_setup_count(setup),
                              .n_before = done->len,
                              .n_threads = workers->n_threads * n_ranks,
                              .n_ranks = n_ranks};
  Sweep sweep = {.setup = setup,
                 .table = table,
                 .done = done,
                 .ranks = workers->ranks,
                 .store = store,
                 .progress = progress,
                 .ranges = g_async_queue_new_full(g_free),
                 .tried = g_async_queue_new(),
                 .n_threads = workers->n_threads,
                 .n = progress->n_before < progress->n_wanted ? progress->n_wanted : 0,
                 .committed_us = began_us};
  sweep.n_others = is_first(&sweep) ? n_ranks - 1 : 0;
  g_autoptr(GPtrArray) threads = g_ptr_array_new();
  for (int i = 0; i < sweep.n_threads; i++)
    g_ptr_array_add(threads, g_thread_new("sweep", run_thread, &sweep));
  sweep_all(&sweep, workers->interrupt);
  push(&sweep, 0, 0);
  g_ptr_array_foreach(threads, (GFunc)(void *)g_thread_join, NULL);
  g_async_queue_unref(sweep.ranges);
  g_async_queue_unref(sweep.tried);
  progress->wall_s = 1e-6 * (double)(g_get_monotonic_time() - began_us);
  if (sweep.failure != NULL)
    g_propagate_error(error, sweep.failure);
  return sweep.failure == NULL;
}

/* --- before it, under a launcher --- */

/* INPUT naming the first that differs. */
static gboolean check_facts(const GArray *mine, const GArray *theirs, GError **error) {
  for (guint i = 0; i < mine->len; i++) {
    const RunFact *fact = &g_array_index(mine, RunFact, i);
    const char *other = run_facts_find(theirs, fact->name);
    if (g_strcmp0(fact->value, other) != 0)
      return fail_input(error, "%s: %s here, %s on the first rank", fact->name, fact->value,
                        other != NULL ? other : "unknown");
  }
  return TRUE;
}

gboolean sweep_share(const Ranks *ranks, const SweepTable *table, const GArray *facts, const GArray *done,
                     GError **error) {
  g_autoptr(GByteArray) bytes = g_byte_array_new(), indices = g_byte_array_new();
  g_autoptr(ResultStore) empty = result_store_open(NULL, table, error);
  if (empty == NULL ||
      (facts != NULL && !(result_store_begin(empty, facts, error) && result_store_pack(empty, bytes, error))))
    return FALSE;
  if (facts == NULL)
    return ranks_check(ranks->mpi->share(bytes), error);
  g_byte_array_append(indices, (const guint8 *)done->data, (guint)(done->len * sizeof(gint64)));
  return ranks_check(ranks->mpi->share(bytes), error) && ranks_agree(ranks, NULL, error) &&
         ranks_check(ranks->mpi->share(indices), error);
}

gboolean sweep_serve(const Ranks *ranks, const SweepTable *table, int n_threads, GError **error) {
  g_auto(SweepSetup) setup = {0};
  g_autoptr(GByteArray) bytes = g_byte_array_new();
  g_autoptr(GError) problem = NULL;
  if (!ranks_check(ranks->mpi->share(bytes), error))
    return FALSE;
  if (bytes->len == 0)
    return TRUE;
  g_autoptr(ResultStore) store = result_store_open_packed(bytes, table, &problem);
  g_autoptr(GArray) theirs = store != NULL ? result_store_facts(store, &problem) : NULL, mine = NULL;
  if (theirs != NULL && sweep_setup_from(&setup, theirs, FALSE, &problem))
    mine = sweep_facts(&setup, &problem);
  if (mine != NULL)
    check_facts(mine, theirs, &problem);
  if (!ranks_agree(ranks, problem, error) || !ranks_check(ranks->mpi->share(bytes), error))
    return FALSE;
  g_autoptr(GArray) done = g_array_new(FALSE, FALSE, sizeof(gint64));
  g_array_append_vals(done, bytes->data, bytes->len / sizeof(gint64));
  const SweepWorkers workers = {sweep_threads(ranks, n_threads), ranks, NULL};
  SweepProgress progress;
  return sweep_run(&setup, table, store, done, &workers, &progress, error);
}
