/* Sweep stores: what is resumed, what is refused, what remains after a full disk. */
#include "run_suite.h"
#include "splitmix.h"
#include "sweep_fixture.h"

static void drop_store(char *file) {
  const char *const suffixes[] = {"", "-wal", "-shm"};
  for (gsize i = 0; i < G_N_ELEMENTS(suffixes); i++) {
    g_autofree char *path = g_strconcat(file, suffixes[i], NULL);
    g_unlink(path);
  }
  g_free(file);
}

TEST(a_resumed_sweep_repeats_nothing_and_ends_like_an_undisturbed_one) {
  g_auto(SweepSetup) setup = setup_of(mixed_space);
  g_autoptr(SweepTable) table = sweep_table_new();
  SweepProgress progress;
  g_autofree char *whole = swept(&setup, 2, &progress);
  char *file = temporary_name(".db");
  { /* a third of the rows, here and there, and some that were never committed */
    g_autoptr(ResultStore) store = begun_store(file, table, &setup);
    g_autoptr(SweepWorker) worker = sweep_worker_new(&setup, table);
    for (gint64 index = 0; index < 192; index += index < 150 ? 3 : 1) {
      SweepRow row;
      sweep_worker_try(worker, index, &row);
      ck_assert(result_store_add(store, &row, NULL));
      sweep_row_clear(&row);
      if (index < 150)
        ck_assert(result_store_commit(store, NULL));
    }
  }
  g_autoptr(ResultStore) store = begun_store(file, table, &setup);
  ck_assert(run_sweep(&setup, table, store, 2, &progress, NULL));
  ck_assert_int_eq(progress.n_before, 50); /* 0, 3 … 147 */
  ck_assert_int_eq(sweep_progress_n_now(&progress), 142);
  g_autofree char *resumed = csv_of(store, table, &setup);
  ck_assert(strcmp(whole, resumed) == 0);
  drop_store(file);
}

static void check_refused(ResultStore *store, const SweepSetup *setup, const char *part) {
  g_autoptr(GArray) facts = sweep_facts(setup, NULL);
  g_autoptr(GError) error = NULL;
  ck_assert(!result_store_check(store, facts, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_msg(strstr(error->message, part) != NULL, "\"%s\" not in \"%s\"", part, error->message);
}

TEST(another_sweep_is_not_resumed_and_what_differs_is_said) {
  g_auto(SweepSetup) setup = setup_of(mixed_space);
  g_autoptr(SweepTable) table = sweep_table_new();
  g_autoptr(ResultStore) store = begun_store(NULL, table, &setup);
  g_autoptr(GArray) facts = sweep_facts(&setup, NULL);
  ck_assert(result_store_check(store, facts, NULL));
  g_auto(SweepSetup) other = setup_of("model=gpt2\ncluster=selene\ntp=1,2,4\n");
  check_refused(store, &other, "tp=1,2 ");
  check_refused(store, &other, "tp=1,2,4");
  sweep_setup_clear(&other);
  other = setup_of(mixed_space);
  other.price = 3;
  check_refused(store, &other, "price: in the file 2, now 3");
  other.price = 2;
  other.n_sample = 7;
  check_refused(store, &other, "sample: in the file 0, now 7");
}

/* The linker's note of this build; see `readelf -n`. */
TEST(a_sweep_names_the_build_that_began_it) {
  g_auto(SweepSetup) setup = setup_of(mixed_space);
  g_autoptr(GArray) facts = sweep_facts(&setup, NULL);
  const char *program = run_facts_find(facts, "program"), *id = program + strlen("stepsim " STEPSIM_VERSION ", build ");
  ck_assert(g_str_has_prefix(program, "stepsim " STEPSIM_VERSION ", build "));
  ck_assert_msg(strlen(id) >= 32 && strspn(id, "0123456789abcdef") == strlen(id), "%s", program);
}

/* --resume goes on with the same margin only; and what a row says of memory is told of the
 * GPU, not of what the margin leaves of it. */
TEST(a_margin_belongs_to_the_sweep) {
  g_auto(SweepSetup) setup = setup_of(mixed_space);
  g_autoptr(SweepTable) table = sweep_table_new();
  g_autoptr(ResultStore) store = begun_store(NULL, table, &setup);
  g_auto(SweepSetup) other = setup_of(mixed_space);
  other.margin.share = 0.1;
  check_refused(store, &other, "memory margin: in the file 0, now 0.1");
  g_autoptr(GArray) facts = sweep_facts(&other, NULL);
  g_auto(SweepSetup) again = {0};
  ck_assert(sweep_setup_from(&again, facts, FALSE, NULL));
  const Gpu *gpu = &space_cluster(again.space, 0)->gpu;
  ck_assert_double_eq_tol(gpu->margin_bytes, 0.1 * gpu->hbm_bytes, 1);
  g_autoptr(SweepWorker) worker = sweep_worker_new(&again, table);
  const int used = sweep_table_find(table, "memory_used"), peak = sweep_table_find(table, "memory_peak_bytes");
  int n_ran = 0, n_wrong = 0;
  for (gint64 index = 0; index < 192; index += 5) {
    SweepRow row;
    sweep_worker_try(worker, index, &row);
    const double share = row.cells[used].real;
    n_ran += row.status == SWEEP_RAN;
    n_wrong += row.status == SWEEP_RAN && share > 0.9;
    n_wrong += row.status == SWEEP_RAN && ABS(share * gpu->hbm_bytes - row.cells[peak].real - gpu->reserved_bytes) > 1;
    n_wrong += row.status == SWEEP_OUT_OF_MEMORY && share <= 0.9;
    sweep_row_clear(&row);
  }
  ck_assert_int_gt(n_ran, 0);
  ck_assert_int_eq(n_wrong, 0);
}

TEST(changed_contents_of_an_input_are_another_sweep) {
  g_autofree char *text = NULL, *path = NULL;
  ck_assert(g_file_get_contents(STEPSIM_SOURCE_DATA "/models/gpt2.json", &text, NULL, NULL));
  path = temporary_name(".json");
  ck_assert(g_file_set_contents(path, text, -1, NULL));
  g_autofree char *space = g_strdup_printf("model=%s\ncluster=selene\n", path);
  g_auto(SweepSetup) setup = setup_of(space);
  g_autoptr(SweepTable) table = sweep_table_new();
  g_autoptr(ResultStore) store = begun_store(NULL, table, &setup);
  g_autofree char *changed = g_strconcat(text, " ", NULL);
  ck_assert(g_file_set_contents(path, changed, -1, NULL));
  check_refused(store, &setup, "sha256");
  check_refused(store, &setup, path);
  g_unlink(path);
}

static void check_open_fails(const char *file, const char *part) {
  g_autoptr(SweepTable) table = sweep_table_new();
  g_autoptr(GError) error = NULL;
  g_autoptr(ResultStore) store = result_store_open(file, table, &error);
  ck_assert(store == NULL);
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_msg(strstr(error->message, part) != NULL, "\"%s\" not in \"%s\"", part, error->message);
  ck_assert(strstr(error->message, file) != NULL);
}

static void execute(const char *file, const char *sql) {
  sqlite3 *database;
  ck_assert(sqlite3_open(file, &database) == SQLITE_OK);
  ck_assert(sqlite3_exec(database, sql, NULL, NULL, NULL) == SQLITE_OK);
  sqlite3_close(database);
}

TEST(what_is_no_store_of_this_program_is_refused_and_left_alone) {
  char *file = temporary_name(".db");
  const char words[] = "this is a text of more than a hundred bytes, which a database has as its header; so it is read "
                       "as one, and found not to be";
  ck_assert(g_file_set_contents(file, words, -1, NULL));
  check_open_fails(file, "not a database");
  g_autofree char *left = NULL;
  ck_assert(g_file_get_contents(file, &left, NULL, NULL));
  ck_assert_str_eq(left, words);
  g_unlink(file);
  execute(file, "CREATE TABLE recipes (name TEXT)");
  check_open_fails(file, "database of another program");
  g_unlink(file);
  {
    g_auto(SweepSetup) setup = setup_of(mixed_space);
    g_autoptr(SweepTable) table = sweep_table_new();
    g_autoptr(ResultStore) store = begun_store(file, table, &setup);
    ck_assert(result_store_finish(store, NULL));
  }
  execute(file, "PRAGMA user_version = 2");
  check_open_fails(file, "has schema 2, this program writes 3");
  drop_store(file);
  check_open_fails("/nonexistent/folder/x.db", "No such file or directory");
  check_open_fails("/tmp", "cannot open /tmp");
}

TEST(a_store_that_another_writes_is_locked_for_writers_and_open_for_readers) {
  g_auto(SweepSetup) setup = setup_of(mixed_space);
  g_autoptr(SweepTable) table = sweep_table_new();
  char *file = temporary_name(".db");
  g_autoptr(ResultStore) store = begun_store(file, table, &setup);
  ck_assert(result_store_has_run(store));
  check_open_fails(file, "is locked: another process writes to it");
  execute(file, "SELECT * FROM run");
  drop_store(file);
}

/* Every database opened from now on holds 20 pages at most: a full disk. */
static int limit_pages(sqlite3 *database, char **message, const struct sqlite3_api_routines *api) {
  return sqlite3_exec(database, "PRAGMA max_page_count = 20", NULL, NULL, NULL);
}

TEST(on_a_full_disk_what_was_committed_is_kept) {
  g_auto(SweepSetup) setup = setup_of(mixed_space);
  g_autoptr(SweepTable) table = sweep_table_new();
  char *file = temporary_name(".db");
  SweepProgress progress;
  g_autofree char *whole = swept(&setup, 2, &progress);
  sqlite3_auto_extension((void (*)(void))limit_pages);
  {
    g_autoptr(ResultStore) store = begun_store(file, table, &setup);
    g_autoptr(GError) error = NULL;
    ck_assert(!run_sweep(&setup, table, store, 2, &progress, &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    ck_assert_msg(strstr(error->message, "the disk is full") != NULL, "%s", error->message);
  }
  sqlite3_reset_auto_extension();
  g_autoptr(ResultStore) store = begun_store(file, table, &setup); /* with room again */
  ck_assert(run_sweep(&setup, table, store, 2, &progress, NULL));
  g_autofree char *resumed = csv_of(store, table, &setup);
  ck_assert(strcmp(whole, resumed) == 0);
  drop_store(file);
}

/* The rows of a store that is taken for sound; NULL: it is refused. */
static char *rows_of(const char *file, const SweepTable *table, const SweepSetup *setup) {
  g_autoptr(GError) error = NULL;
  g_autoptr(ResultStore) store = result_store_open(file, table, &error);
  g_autoptr(GArray) facts = store != NULL ? result_store_facts(store, &error) : NULL;
  g_autoptr(GArray) indices = facts != NULL ? result_store_indices(store, &error) : NULL;
  ck_assert_msg((indices == NULL) == (error != NULL), "%s", file);
  if (error != NULL)
    ck_assert_msg(strlen(error->message) > 10 && g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT), "%s",
                  error->message);
  SweepProgress progress;
  return indices != NULL && run_sweep(setup, table, store, 2, &progress, NULL) ? csv_of(store, table, setup) : NULL;
}

/* A bit that is flipped is told, or it changes nothing: it is where nothing is kept, or a row of it is tried again. */
TEST(a_flipped_bit_is_told_or_changes_nothing) {
  enum { N_FLIPS = 150 };
  g_auto(SweepSetup) setup = setup_of("model=gpt2\ncluster=selene\ngpus=8\ntp=1,2,3\npp=1,2\nzero=0,1\n");
  g_autoptr(SweepTable) table = sweep_table_new();
  char *file = temporary_name(".db");
  {
    g_autoptr(ResultStore) store = begun_store(file, table, &setup);
    SweepProgress progress;
    ck_assert(run_sweep(&setup, table, store, 2, &progress, NULL) && result_store_finish(store, NULL));
  }
  g_autofree char *whole = rows_of(file, table, &setup), *bytes = NULL;
  gsize n_bytes;
  ck_assert(whole != NULL && g_file_get_contents(file, &bytes, &n_bytes, NULL));
  int n_told = 0;
  for (guint64 i = 0; i < N_FLIPS; i++) {
    char *flipped = temporary_name(".db");
    const guint64 bit = splitmix(i) % (n_bytes * 8);
    bytes[bit / 8] ^= (char)(1 << (bit % 8));
    ck_assert(g_file_set_contents(flipped, bytes, (gssize)n_bytes, NULL));
    bytes[bit / 8] ^= (char)(1 << (bit % 8));
    g_autofree char *rows = rows_of(flipped, table, &setup);
    n_told += rows == NULL;
    ck_assert_msg(rows == NULL || strcmp(rows, whole) == 0, "bit %" G_GUINT64_FORMAT, bit);
    drop_store(flipped);
  }
  ck_assert_int_gt(n_told, N_FLIPS / 4);
  drop_store(file);
}

int main(void) {
  return run_tests();
}
