#include "error.h"
#include "library.h"
#include "parallel.h"
#include "sweep_request.h"
#include "sweep_try.h"

struct StepsimSweep {
  SweepSetup setup;
  gint64 n;
  SweepRow *tried;  /* [n], by index once all are; owned */
  StepsimRow *rows; /* [n] of these; owned */
};

/* While it runs. */
typedef struct {
  StepsimSweep *sweep;
  SweepWorker **workers; /* [threads]; owned */
  StepsimWatch watch;
  gpointer data;
} Trial;

static StepsimSweep *sweep_of(SweepSetup setup) {
  StepsimSweep *sweep = g_new0(StepsimSweep, 1);
  sweep->setup = setup;
  sweep->n = sweep_setup_count(&setup);
  sweep->tried = g_new0(SweepRow, sweep->n);
  sweep->rows = g_new0(StepsimRow, sweep->n);
  return sweep;
}

void stepsim_sweep_free(StepsimSweep *sweep) {
  if (sweep == NULL)
    return;
  for (gint64 i = 0; i < sweep->n; i++)
    sweep_row_clear(&sweep->tried[i]);
  g_free(sweep->tried);
  g_free(sweep->rows);
  sweep_setup_clear(&sweep->setup);
  g_free(sweep);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(StepsimSweep, stepsim_sweep_free)

const StepsimRow *stepsim_sweep_row(const StepsimSweep *sweep, size_t i) {
  return i < (size_t)sweep->n ? &sweep->rows[i] : NULL;
}

static void try_position(gint64 position, int thread, gpointer data) {
  const Trial *trial = data;
  StepsimSweep *sweep = trial->sweep;
  const locale_t before = library_enter();
  if (trial->workers[thread] == NULL)
    trial->workers[thread] = sweep_worker_new(&sweep->setup, library_table());
  sweep_worker_try(trial->workers[thread], sweep_setup_index(&sweep->setup, position), &sweep->tried[position]);
  library_leave(before, NULL, NULL);
}

static gboolean look(gint64 n_done, gpointer data) {
  const Trial *trial = data;
  return trial->watch(n_done, trial->sweep->n, trial->data) != 0;
}

static int compare_rows(gconstpointer a, gconstpointer b) {
  const SweepRow *x = a, *y = b;
  return (x->index > y->index) - (x->index < y->index);
}

static gboolean try_all(Trial *trial, int n_threads) {
  StepsimSweep *sweep = trial->sweep;
  const ParallelWatch watch = {look, trial};
  trial->workers = g_new0(SweepWorker *, n_threads);
  const gboolean is_complete =
      parallel_for(sweep->n, n_threads, try_position, trial, trial->watch != NULL ? &watch : NULL);
  for (int i = 0; i < n_threads; i++)
    sweep_worker_free(trial->workers[i]);
  g_free(trial->workers);
  return is_complete;
}

static StepsimSweep *run(SweepRequest *request, StepsimWatch watch, gpointer data, GError **error) {
  g_auto(SweepSetup) setup = {0};
  if (!sweep_request_check(request, FALSE, error) || !sweep_request_setup(request, &setup, error))
    return NULL;
  g_autoptr(StepsimSweep) sweep = sweep_of(setup);
  setup.space = NULL; /* the sweep's */
  Trial trial = {.sweep = sweep, .watch = watch, .data = data};
  if (!try_all(&trial, request->jobs != OPTION_NOT_GIVEN ? request->jobs : parallel_threads())) {
    g_set_error_literal(error, library_stopped_quark(), 0, "stopped");
    return NULL;
  }
  qsort(sweep->tried, (gsize)sweep->n, sizeof *sweep->tried, compare_rows);
  for (gint64 i = 0; i < sweep->n; i++)
    sweep->rows[i] = library_row(&sweep->tried[i]);
  return g_steal_pointer(&sweep);
}

static const char *const refused[] = {NULL}; /* nothing */

static LibraryOptions *make_options(void) {
  g_auto(SweepRequest) request;
  sweep_request_init(&request);
  g_autoptr(Parser) parser = parser_new(NULL, "", "");
  sweep_request_add(&request, parser);
  return library_options_new(parser, refused);
}

const StepsimOption *stepsim_sweep_option(size_t i) {
  static LibraryOptions *options;
  if (g_once_init_enter(&options))
    g_once_init_leave(&options, make_options());
  return library_nth_option(options, i);
}

static StepsimSweep *run_options(const char *const *options, StepsimWatch watch, gpointer data, GError **error) {
  g_auto(SweepRequest) request;
  sweep_request_init(&request);
  g_autoptr(Parser) parser = parser_new(NULL, "", "");
  sweep_request_add(&request, parser);
  return library_set_options(parser, options, refused, error) ? run(&request, watch, data, error) : NULL;
}

StepsimSweep *stepsim_sweep(const char *const *options, StepsimWatch watch, void *data, StepsimFailure *failure) {
  const locale_t before = library_enter();
  GError *error = NULL;
  StepsimSweep *sweep = run_options(options, watch, data, &error);
  library_leave(before, error, failure);
  return sweep;
}
