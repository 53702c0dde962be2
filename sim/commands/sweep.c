/* sweep: try a space of configurations, keep the results, compare them.
 *
 *     options, --space ──┐
 *                        ├──► setup ──► try what is missing ──► store ──► report, CSV
 *     store (--resume) ──┘                                                                  */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "error.h"
#include "launcher.h"
#include "output.h"
#include "suggest.h"
#include "sweep_report.h"
#include "sweep_request.h"

enum { DEFAULT_TOP = 10, MOST_TOP = 10000 };

typedef struct {
  SweepRequest request;
  char *output, *csv, *objective, *best_of;
  gint top;
  gboolean resume, json;
  gboolean no_report; /* standard output is used for something else */
  /* parsed */
  Objective best_by;
  const char *best_of_axis; /* borrowed from the swept space; NULL: not given */
} SweepOptions;

static void clear_options(SweepOptions *o) {
  char **strings[] = {&o->output, &o->csv, &o->objective, &o->best_of};
  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_clear_pointer(strings[i], g_free);
  sweep_request_clear(&o->request);
}

/* --- options --- */

static gboolean check_options(SweepOptions *o, GError **error) {
  const Printed printed[] = {{"--json", .given = o->json}, {"--csv", .file = o->csv}, {NULL}};
  if (!sweep_request_check(&o->request, o->resume, error))
    return FALSE;
  if (o->top != OPTION_NOT_GIVEN && (o->top < 1 || o->top > MOST_TOP))
    return fail_input(error, "--top: found %d, expected 1 to %d", o->top, MOST_TOP);
  if (g_strcmp0(o->output, "-") == 0)
    return fail_input(error, "--output -: standard output takes no database; --csv - prints the rows");
  if (o->resume && o->output == NULL)
    return fail_input(error, "--resume needs --output: the file to go on with");
  const int objective = o->objective != NULL ? parse_choice("--objective", o->objective, objective_names(), error) : 0;
  o->best_by = (Objective)MAX(objective, 0);
  return objective >= 0 && output_check_printed(printed, &o->no_report, error);
}

static const char example[] =
    "--model, --cluster and every plan option take a list (1,2,4), a range (1..16), powers (1..16*2) or steps "
    "(8..64+8).\n"
    "A --pipeline-layout in Megatron-LM's letters is one value from its E to its L, commas included.\n"
    "The sweep tries all combinations and counts the impossible ones by reason.\n\n"
    "Examples:\n"
    "  stepsim sweep --model llama-3-70b --cluster dgx-h100 --gpus 256 --global-batch 512 --seq-len 8192 \\\n"
    "      --sequence-parallel on --tp 1..8*2 --pp 1..16*2 --chunks 1,2,5 --micro-batch 1,2 --zero 0..3 \\\n"
    "      --recompute none,full --output 70b.db\n"
    "  stepsim sweep --resume --output 70b.db --csv 70b.csv --objective cost --best-of pp\n"
    "  stepsim sweep --space space.yaml --sample 10000 --json\n"
    "  mpirun -n 64 stepsim sweep --space space.yaml --output big.db\n\n"
    "A space file has the same keys (\"tp: 1..8*2\", \"zero: [0, 1, 3]\", also \"seq_len: 4096\"); options override "
    "it.\n"
    "--output is an SQLite file with one row per configuration (table configurations; table run describes the sweep).\n"
    "Rows are committed as the sweep runs, so --resume, alone or with the same options, continues after any stop.\n\n"
    "Exit status: 0 done, 1 nothing that runs and fits was found, 2 bad usage or input, 130 interrupted.";

static gboolean parse_options(SweepOptions *o, int *argc, char ***argv, GError **error) {
  *o = (SweepOptions){.top = OPTION_NOT_GIVEN};
  sweep_request_init(&o->request);
  o->request.verb = "stepsim sweep";
  g_autoptr(Parser) parser = parser_new(
      NULL, "Predicts every configuration of a space and lists the best, the Pareto front and why the rest failed.",
      example);
  const GOptionEntry entries[] = {
      {"output", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->output, "keep every result (SQLite)", "FILE.db"},
      {"resume", 0, 0, G_OPTION_ARG_NONE, &o->resume, "continue an interrupted --output, or report a complete one",
       NULL},
      {"csv", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->csv,
       "write all rows at the end (- is standard output, without a report)", "FILE"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &o->json, "print one JSON object", NULL},
      {"objective", 0, 0, G_OPTION_ARG_STRING, &o->objective, "mfu, tokens_per_s or cost (default mfu)", "NAME"},
      {"best-of", 0, 0, G_OPTION_ARG_STRING, &o->best_of,
       "also the best for each value of this option: gpus, seq-len …", "OPTION"},
      {"top", 0, 0, G_OPTION_ARG_INT, &o->top, "best configurations listed (default 10)", "N"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
  sweep_request_add(&o->request, parser);
  return parser_run(parser, argc, argv, FALSE, error) && check_options(o, error);
}

/* --- what to sweep --- */

/* --best-of under the space's name for it. A sweep of a single value has a single best. */
static gboolean find_best_of(SweepOptions *o, const Space *space, GError **error) {
  if (o->best_of == NULL)
    return TRUE;
  g_autoptr(GPtrArray) several = g_ptr_array_new();
  for (int axis = 0; axis < space_n_axes(space); axis++)
    if (space_axis_n_values(space, axis) > 1)
      g_ptr_array_add(several, (gpointer)space_axis_name(space, axis));
  if (several->len == 0)
    return fail_input(error, "--best-of %.80s: no option of this sweep has several values", o->best_of);
  g_ptr_array_add(several, NULL);
  const int i = parse_choice("--best-of", o->best_of, (const char *const *)several->pdata, error);
  o->best_of_axis = i >= 0 ? g_ptr_array_index(several, (guint)i) : NULL;
  return i >= 0;
}

/* Cost is unknown on clusters without a price. */
static gboolean check_price(const SweepOptions *o, const SweepSetup *setup, GError **error) {
  for (int i = 0; o->best_by == OBJECTIVE_COST && setup->price < 0 && i < space_n_clusters(setup->space); i++) {
    const Cluster *cluster = space_cluster(setup->space, i);
    if (!(cluster->dollars_per_gpu_hour > 0))
      return fail_input(error,
                        "--objective cost needs a price: %s has none; add --price \"2.50 $/h\" for all, or name a "
                        "file that has its own: base: %s and price: 2.50 $/h",
                        cluster->file, cluster->name);
  }
  return TRUE;
}

static gboolean is_described(const SweepOptions *o) {
  return space_is_given(o->request.space) || o->request.space_file != NULL;
}

/* With --resume, part of a space is neither the stored sweep's nor a space of its own. */
static gboolean check_whole_space(const SweepOptions *o, GError **error) {
  const gboolean is_whole =
      space_given(o->request.space, "model") != NULL && space_given(o->request.space, "cluster") != NULL;
  return !o->resume || o->request.space_file != NULL || is_whole ||
         fail_input(error, "--resume goes on with the sweep in %s: give all options of its space, or none", o->output);
}

/* The setup of a stored sweep, from the store itself. If the sweep is complete, its input files may be gone. */
static gboolean take_setup(ResultStore *store, SweepSetup *setup, GError **error) {
  g_autoptr(GArray) kept = result_store_facts(store, error);
  if (kept == NULL || !sweep_setup_from(setup, kept, TRUE, error))
    return FALSE;
  g_autoptr(GArray) done = result_store_indices(store, error);
  if (done == NULL || done->len == sweep_setup_count(setup))
    return done != NULL;
  sweep_setup_clear(setup);
  if (!sweep_setup_from(setup, kept, FALSE, error))
    return FALSE;
  g_autoptr(GArray) facts = sweep_facts(setup, error);
  return facts != NULL && result_store_check(store, facts, error);
}

/* Options typed with --resume must equal the sweep's. */
static gboolean check_typed(const SweepOptions *o, const SweepSetup *setup, GError **error) {
  const struct {
    const char *option;
    gboolean differs;
  } typed[] = {{"--price", o->request.price != NULL && o->request.dollars_per_hour != setup->price},
               {"--sample", o->request.sample != OPTION_NOT_GIVEN && o->request.sample != setup->n_sample},
               {"--sample-seed", o->request.sample_seed != OPTION_NOT_GIVEN && o->request.sample_seed != setup->seed},
               {"--memory-margin", o->request.margin_text != NULL && (o->request.margin.share != setup->margin.share ||
                                                                      o->request.margin.bytes != setup->margin.bytes)},
               {"--prune", o->request.prune != NULL && o->request.prunes != setup->prune}};
  for (gsize i = 0; i < G_N_ELEMENTS(typed); i++)
    if (typed[i].differs)
      return fail_input(error, "%s differs from that of the sweep in %s, which it belongs to", typed[i].option,
                        o->output);
  return TRUE;
}

/* Begin the store with a setup made from options, or continue with the same setup. */
static gboolean join_setup(ResultStore *store, const SweepSetup *setup, GError **error) {
  g_autoptr(GArray) facts = sweep_facts(setup, error);
  if (facts == NULL)
    return FALSE;
  return result_store_has_run(store) ? result_store_check(store, facts, error)
                                     : result_store_begin(store, facts, error);
}

/* The setup and a store that has been begun; NULL with the error set. Wrong options leave no file behind. */
static ResultStore *prepare(SweepOptions *o, const SweepTable *table, SweepSetup *setup, GError **error) {
  const gboolean described = is_described(o) || !o->resume;
  if (described && !(check_whole_space(o, error) && sweep_request_setup(&o->request, setup, error) &&
                     check_price(o, setup, error) && find_best_of(o, setup->space, error)))
    return NULL;
  if (!described && !g_file_test(o->output, G_FILE_TEST_EXISTS)) {
    fail_input(error, "there is no %s to resume", o->output);
    return NULL;
  }
  g_autoptr(ResultStore) store = result_store_open(o->output, table, error);
  if (store == NULL)
    return NULL;
  const gboolean has_run = result_store_has_run(store);
  gboolean ok;
  if (has_run && !o->resume)
    ok = fail_input(error, "%s holds a sweep already: --resume goes on with it, another --output keeps it", o->output);
  else if (described)
    ok = join_setup(store, setup, error);
  else if (has_run)
    ok = take_setup(store, setup, error) && check_typed(o, setup, error) && check_price(o, setup, error) &&
         find_best_of(o, setup->space, error);
  else
    ok = fail_input(error, "%s holds no sweep to resume", o->output);
  return ok ? g_steal_pointer(&store) : NULL;
}

/* --- running --- */

static gboolean count_row(sqlite3_stmt *row, gpointer n, GError **error) {
  ++*(int *)n;
  return TRUE;
}

/* For a store whose clusters are not read again. */
static gboolean check_costs(const SweepReport *report, const gint64 *counts, GError **error) {
  int n_best = 0;
  if (report->objective != OBJECTIVE_COST || counts[SWEEP_RAN] == 0)
    return TRUE;
  return sweep_report_rows(report, SWEEP_BEST, count_row, &n_best, error) &&
         (n_best > 0 ||
          fail_input(error, "--objective cost needs a price, and this sweep was run without: sweep again with "
                            "--price \"2.50 $/h\""));
}

static gboolean write_report(const SweepOptions *o, const SweepReport *report, GError **error) {
  if (o->csv != NULL && !sweep_report_csv(report, o->csv, error))
    return FALSE;
  g_autoptr(GString) out = g_string_new(NULL);
  if (o->json) {
    g_autofree char *json = sweep_report_json(report, error);
    if (json == NULL)
      return FALSE;
    g_string_append(out, json);
  } else if (!o->no_report && !sweep_report_text(report, out, error)) {
    return FALSE;
  }
  fputs(out->str, stdout);
  return TRUE;
}

static void print_interrupted(const SweepOptions *o, const SweepProgress *progress) {
  g_printerr("stepsim sweep: interrupted after %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " configurations",
             progress->n_before + sweep_progress_n_now(progress), progress->n_wanted);
  if (o->output != NULL)
    g_printerr("; go on with: stepsim sweep --resume --output %s\n", o->output);
  else
    g_printerr("; nothing is kept without --output\n");
}

/* The exit status. */
static int report_sweep(const SweepOptions *o, const SweepReport *report, GError **error) {
  gint64 counts[N_SWEEP_STATUSES];
  if (!sweep_report_counts(report, counts, error))
    return 2;
  if (report->progress->signal == 0 && !(check_costs(report, counts, error) && write_report(o, report, error)))
    return 2;
  if (!result_store_finish(report->store, error))
    return 2;
  if (report->progress->signal != 0) {
    print_interrupted(o, report->progress);
    return INTERRUPT_STATUS + report->progress->signal;
  }
  return counts[SWEEP_RAN] > 0 ? 0 : 1;
}

/* As the first rank, or the only one (`ranks` NULL). */
static gboolean try_missing(const SweepOptions *o, const Ranks *ranks, const SweepTable *table, const SweepSetup *setup,
                            ResultStore *store, Interrupt *interrupt, SweepProgress *progress, GError **error) {
  const gint64 n = sweep_setup_count(setup);
  g_autoptr(GArray) done = result_store_indices(store, error), facts = NULL;
  const gboolean is_complete = done != NULL && done->len == n;
  *progress = (SweepProgress){.n_wanted = n, .n_before = n};
  if (ranks != NULL && done != NULL && !is_complete)
    facts = sweep_facts(setup, error);
  const gboolean is_ready = done != NULL && (ranks == NULL || is_complete || facts != NULL);
  if (ranks != NULL && !sweep_share(ranks, table, facts, done, is_ready ? error : NULL))
    return FALSE;
  const SweepWorkers workers = {.n_threads =
                                    sweep_threads(ranks, o->request.jobs != OPTION_NOT_GIVEN ? o->request.jobs : 0),
                                .ranks = ranks,
                                .interrupt = interrupt};
  return is_ready && (is_complete || sweep_run(setup, table, store, done, &workers, progress, error));
}

static int run(SweepOptions *o, const Ranks *ranks, const SweepTable *table, Interrupt *interrupt, GError **error) {
  g_auto(SweepSetup) setup = {0};
  SweepProgress progress;
  g_autoptr(ResultStore) store = prepare(o, table, &setup, error);
  if (store == NULL) {
    if (ranks != NULL)
      sweep_share(ranks, table, NULL, NULL, NULL);
    return 2;
  }
  if (ranks == NULL) /* not earlier: inputs may be pipes, and a signal while reading them ends the process as usual */
    interrupt_init(interrupt);
  if (!try_missing(o, ranks, table, &setup, store, interrupt, &progress, error))
    return 2;
  interrupt_clear(interrupt); /* from here on a signal ends the process as usual */
  const SweepReport report = {.store = store,
                              .table = table,
                              .space = setup.space,
                              .objective = o->best_by,
                              .best_of = o->best_of_axis,
                              .n_top = o->top != OPTION_NOT_GIVEN ? o->top : DEFAULT_TOP,
                              .progress = &progress};
  return report_sweep(o, &report, error);
}

static int run_ranks(SweepOptions *o, GError **error) {
  g_autoptr(SweepTable) table = sweep_table_new();
  g_auto(Interrupt) interrupt;
  interrupt_none(&interrupt);
  if (launcher_n_processes() == 1)
    return run(o, NULL, table, &interrupt, error);
  interrupt_init(&interrupt); /* before MPI starts its threads, which inherit the blocked signals */
  g_autoptr(Ranks) ranks = ranks_join(error);
  if (ranks == NULL)
    return 2;
  if (ranks->place.rank == 0)
    return run(o, ranks, table, &interrupt, error);
  return sweep_serve(ranks, table, o->request.jobs != OPTION_NOT_GIVEN ? o->request.jobs : 0, error) ? 0 : 2;
}

int command_sweep(int argc, char **argv, GError **error) {
  SweepOptions options;
  int status = parse_options(&options, &argc, &argv, error) ? run_ranks(&options, error) : 2;
  clear_options(&options);
  return status;
}
