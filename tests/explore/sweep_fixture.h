/* A small sweep space, with its setup, stores and tables. */
#pragma once
#include "sweep_report.h"
#include "sweep_try.h"

#include "error.h"
#include "text_file.h"
#include <check.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

/* 2·3·2·2·2·4 = 192 configurations. Some are impossible (pp 3 on 8 GPUs); some, with the batches of a large model, do
 * not fit. */
static const char mixed_space[] = "model=llama-3-8b\ncluster=dgx-h100\ngpus=8\ntp=1,2\npp=1,2,3\nschedule=1f1b,zb-v\n"
                                  "micro-batch=1,4\nglobal-batch=32\nseq-len=2048\nzero=0..3\nrecompute=none,full\n";

static inline SweepSetup setup_of(const char *space) {
  SweepSetup setup = {.space = space_new(), .price = 2, .prune = TRUE};
  g_autoptr(GError) error = NULL;
  gboolean ok = space_set_text(setup.space, space, &error) && space_finish(setup.space, &error);
  ck_assert_msg(ok, "%s", error == NULL ? "no message" : error->message);
  return setup;
}

static inline char *temporary_name(const char *suffix) {
  g_autofree char *pattern = g_strconcat("stepsim-sweep-XXXXXX", suffix, NULL), *path = NULL;
  int fd = g_file_open_tmp(pattern, &path, NULL);
  ck_assert_int_ge(fd, 0);
  close(fd);
  g_unlink(path);
  return g_steal_pointer(&path);
}

static inline ResultStore *begun_store(const char *file, const SweepTable *table, const SweepSetup *setup) {
  g_autoptr(GError) error = NULL;
  ResultStore *store = result_store_open(file, table, &error);
  ck_assert_msg(store != NULL, "%s", error == NULL ? "no message" : error->message);
  g_autoptr(GArray) facts = sweep_facts(setup, &error);
  ck_assert(facts != NULL);
  ck_assert(result_store_has_run(store) || result_store_begin(store, facts, &error));
  return store;
}

static inline SweepReport report_of(ResultStore *store, const SweepTable *table, const SweepSetup *setup,
                                    const SweepProgress *progress) {
  return (SweepReport){.store = store, .table = table, .space = setup->space, .n_top = 5, .progress = progress};
}

/* All rows as text. Owned by the caller. */
static inline char *csv_of(ResultStore *store, const SweepTable *table, const SweepSetup *setup) {
  const SweepProgress progress = {0};
  const SweepReport report = report_of(store, table, setup, &progress);
  g_autofree char *file = temporary_name(".csv");
  ck_assert(sweep_report_csv(&report, file, NULL));
  char *text = text_file_read(file);
  g_unlink(file);
  return text;
}

/* sweep_run() of what is missing, without signal handling. */
static inline gboolean run_sweep(const SweepSetup *setup, const SweepTable *table, ResultStore *store, int n_threads,
                                 SweepProgress *progress, GError **error) {
  Interrupt none = {.fd = -1};
  const SweepWorkers workers = {.n_threads = n_threads, .interrupt = &none};
  g_autoptr(GArray) done = result_store_indices(store, error);
  return done != NULL && sweep_run(setup, table, store, done, &workers, progress, error);
}

static inline char *swept(const SweepSetup *setup, int n_threads, SweepProgress *progress) {
  g_autoptr(SweepTable) table = sweep_table_new();
  g_autoptr(ResultStore) store = begun_store(NULL, table, setup);
  g_autoptr(GError) error = NULL;
  ck_assert_msg(run_sweep(setup, table, store, n_threads, progress, &error), "%s",
                error == NULL ? "no message" : error->message);
  return csv_of(store, table, setup);
}
