/* The library through its header alone: what it answers, what it refuses, and threads. That its numbers are those of
 * the command line is test_python.py's. */
#include "stepsim.h"

#include <check.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#include "run_suite.h"

static const char *const plan[] = {"gpus=64", "tp=8", "pp=4", "global-batch=64", "sequence-parallel=on", NULL};

static StepsimDescription *opened(void) {
  StepsimFailure failure;
  StepsimDescription *description = stepsim_open("llama-3-70b", "dgx-h100", &failure);
  ck_assert_msg(description != NULL, "%s", failure.message);
  ck_assert_int_eq(failure.status, 0);
  ck_assert_ptr_null(failure.message);
  return description;
}

static StepsimPrediction *predicted(StepsimDescription *description, const char *const *options) {
  StepsimFailure failure;
  StepsimPrediction *prediction = stepsim_predict(description, options, &failure);
  ck_assert_msg(prediction != NULL, "%s", failure.message);
  return prediction;
}

static const StepsimCell *cell(const StepsimRow *row, const char *column) {
  for (size_t i = 0; stepsim_column(i) != NULL; i++)
    if (strcmp(stepsim_column(i), column) == 0)
      return &row->cells[i];
  ck_abort_msg("no column %s", column);
}

static double real(const StepsimRow *row, const char *column) {
  ck_assert_int_eq(cell(row, column)->type, STEPSIM_REAL);
  return cell(row, column)->real;
}

/* Takes the failure. */
static void check_failure(StepsimFailure *failure, int status, const char *said) {
  ck_assert_int_eq(failure->status, status);
  ck_assert_ptr_nonnull(failure->message);
  ck_assert_msg(strstr(failure->message, said) != NULL, "%s: without %s", failure->message, said);
  stepsim_free(failure->message);
}

TEST(a_row_has_the_completed_plan_and_its_numbers) {
  StepsimDescription *description = opened();
  StepsimPrediction *prediction = predicted(description, plan);
  stepsim_close(description); /* which the prediction outlives */
  const StepsimRow *row = stepsim_row(prediction);
  ck_assert_str_eq(row->status, "ran");
  ck_assert_ptr_null(row->reason);
  ck_assert_ptr_null(stepsim_misfit(prediction));
  ck_assert_str_eq(cell(row, "model")->text, "llama-3-70b");
  ck_assert_int_eq(cell(row, "tp")->whole, 8);
  ck_assert_int_eq(cell(row, "dp")->whole, 2); /* 64 / (8 · 4) */
  ck_assert_int_eq(cell(row, "memory_cap_bytes")->type, STEPSIM_EMPTY);
  /* tokens/s: 64 sequences of 4096 tokens a step */
  ck_assert_double_eq_tol(real(row, "tokens_per_s") * real(row, "step_time_s"), 64 * 4096, 1e-6);
  stepsim_prediction_free(prediction);
}

TEST(json_and_text_are_made_once_and_say_the_row_s_numbers) {
  StepsimDescription *description = opened();
  StepsimPrediction *prediction = predicted(description, plan);
  StepsimFailure failure;
  const char *json = stepsim_json(prediction, &failure);
  ck_assert_msg(json != NULL, "%s", failure.message);
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  g_autofree char *member = g_strconcat(
      "\"step_time_s\" : ", g_ascii_dtostr(number, sizeof number, real(stepsim_row(prediction), "step_time_s")), NULL);
  ck_assert_msg(strstr(json, member) != NULL, "%s in %.300s", member, json);
  ck_assert_ptr_eq(stepsim_json(prediction, NULL), json);
  ck_assert_ptr_nonnull(strstr(stepsim_text(prediction, NULL), "llama-3-70b on 64 × h100"));
  stepsim_prediction_free(prediction);
  stepsim_close(description);
}

static const StepsimArray *find(const StepsimArray *arrays, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(arrays[i].name, name) == 0)
      return &arrays[i];
  ck_abort_msg("no array %s", name);
}

TEST(arrays_have_every_event_of_the_step) {
  StepsimDescription *description = opened();
  StepsimPrediction *prediction = predicted(description, plan);
  size_t n;
  const StepsimArray *arrays = stepsim_arrays(prediction, &n, NULL);
  const StepsimArray *window = find(arrays, n, "window_ns"), *ends = find(arrays, n, "op_end_ns");
  const StepsimArray *bytes = find(arrays, n, "memory_bytes"), *kinds = find(arrays, n, "memory_kinds");
  ck_assert_str_eq(ends->type, "<i8");
  const gint64 *window_ns = window->values, *end_ns = ends->values;
  gint64 last_ns = 0;
  for (size_t i = 0; i < ends->n_rows; i++)
    last_ns = MAX(last_ns, end_ns[i]);
  ck_assert_int_eq(last_ns, window_ns[1]);
  ck_assert_double_eq_tol((double)(window_ns[1] - window_ns[0]) * 1e-9, real(stepsim_row(prediction), "step_time_s"),
                          1e-12);
  ck_assert_uint_eq(bytes->n_columns, kinds->n_rows);
  ck_assert_uint_gt(bytes->n_rows, 0);
  stepsim_prediction_free(prediction);
  stepsim_close(description);
}

TEST(a_training_run_is_part_of_the_json) {
  StepsimDescription *description = opened();
  const char *const options[] = {"gpus=64", "tp=8", "pp=4", "tokens=1T", NULL};
  StepsimPrediction *prediction = predicted(description, options), *other = predicted(description, plan);
  ck_assert_ptr_nonnull(strstr(stepsim_json(prediction, NULL), "\"gpu_hours\""));
  ck_assert_ptr_null(strstr(stepsim_json(other, NULL), "\"gpu_hours\"")); /* options are of one prediction */
  stepsim_prediction_free(prediction);
  stepsim_prediction_free(other);
  stepsim_close(description);
}

TEST(what_is_wrong_is_said_as_on_the_command_line) {
  static const struct {
    const char *option;
    int status;
    const char *said;
  } wrong[] = {{"tpp=8", 2, "unknown option --tpp; did you mean --tp?"},
               {"tp=x", 2, "--tp: found \"x\""},
               {"tp", 2, "found \"tp\", expected an option and its value"},
               {"", 2, "expected an option and its value"},
               {"=", 2, "unknown option --"},
               {"model=gpt2", 2, "--model is none of these options"},
               {"run-plot=x.svg", 2, "--run-plot is none of these options"},
               {"spares=2", 2, "--spares needs --tokens or --gpu-hours"},
               {"framework=none-such", 2, "--framework: none-such: no such file"},
               {"rank-map=/nowhere", 2, "/nowhere"},
               {"tp=3", 1, "tp 3"},
               {"expert-dispatch=deepep", 2, "model llama-3-70b has none"}};
  StepsimDescription *description = opened();
  StepsimFailure failure;
  for (gsize i = 0; i < G_N_ELEMENTS(wrong); i++) {
    const char *const options[] = {"gpus=64", wrong[i].option, NULL};
    ck_assert_ptr_null(stepsim_predict(description, options, NULL));
    ck_assert_ptr_null(stepsim_predict(description, options, &failure));
    check_failure(&failure, wrong[i].status, wrong[i].said);
  }
  ck_assert_ptr_null(stepsim_open("llama-3-70", "dgx-h100", &failure));
  check_failure(&failure, 2, "did you mean \"llama-3-70b\"?");
  ck_assert_ptr_null(stepsim_open("llama-3-70b", NULL, &failure));
  check_failure(&failure, 2, "--cluster is missing");
  ck_assert_ptr_null(stepsim_open(NULL, "dgx-h100", NULL));
  stepsim_prediction_free(predicted(description, plan)); /* and then it goes on */
  stepsim_close(description);
}

TEST(a_plan_that_does_not_fit_is_predicted_and_says_why) {
  StepsimDescription *description = opened();
  const char *const options[] = {"gpus=8", NULL};
  StepsimPrediction *prediction = predicted(description, options);
  ck_assert_str_eq(stepsim_row(prediction)->status, "out_of_memory");
  ck_assert_ptr_nonnull(stepsim_row(prediction)->reason);
  ck_assert_ptr_nonnull(strstr(stepsim_misfit(prediction), "the plan does not fit: "));
  stepsim_prediction_free(prediction);
  stepsim_close(description);
}

TEST(files_are_written_by_their_suffix) {
  g_autofree char *folder = g_dir_make_tmp("stepsim-library-XXXXXX", NULL);
  g_autofree char *trace = g_build_filename(folder, "step.json", NULL),
                  *none = g_build_filename(folder, "x", "y.npz", NULL);
  StepsimDescription *description = opened();
  StepsimPrediction *prediction = predicted(description, plan);
  StepsimFailure failure;
  ck_assert_int_eq(stepsim_write(prediction, trace, &failure), 0);
  ck_assert_int_eq(failure.status, 0);
  ck_assert(g_file_test(trace, G_FILE_TEST_EXISTS));
  ck_assert_int_ne(stepsim_write(prediction, none, &failure), 0);
  check_failure(&failure, 2, "No such file");
  ck_assert_int_ne(stepsim_write(prediction, "-", &failure), 0);
  check_failure(&failure, 2, "expected a name ending in .json or .npz");
  stepsim_prediction_free(prediction);
  stepsim_close(description);
  g_unlink(trace);
  g_rmdir(folder);
}

TEST(options_are_told) {
  const StepsimOption *option;
  gboolean has_tp = FALSE, has_sample = FALSE;
  for (size_t i = 0; (option = stepsim_option(i)) != NULL; i++) {
    ck_assert_ptr_nonnull(option->help);
    ck_assert_str_ne(option->name, "model"); /* of stepsim_open() */
    ck_assert((strcmp(option->kind, "choice") == 0) == (option->choices != NULL));
    has_tp |= strcmp(option->name, "tp") == 0 && strcmp(option->kind, "count") == 0 && option->is_axis;
  }
  for (size_t i = 0; (option = stepsim_sweep_option(i)) != NULL; i++)
    has_sample |= strcmp(option->name, "sample") == 0 && strcmp(option->kind, "count") == 0 && !option->is_axis;
  ck_assert(has_tp);
  ck_assert(has_sample);
}

/* --- sweeps, schedules --- */

TEST(a_sweep_has_a_row_of_each_configuration_in_order) {
  const char *const options[] = {"model=llama-3-8b", "cluster=dgx-h100", "gpus=16", "tp=1,3,8", "zero=0,1", NULL};
  StepsimFailure failure;
  StepsimSweep *sweep = stepsim_sweep(options, NULL, NULL, &failure);
  ck_assert_msg(sweep != NULL, "%s", failure.message);
  const StepsimRow *row;
  for (int i = 0; i < 6; i++) {
    row = stepsim_sweep_row(sweep, (size_t)i);
    ck_assert_int_eq(row->index, i);
    ck_assert_int_eq(strcmp(row->status, "impossible") == 0, i / 2 == 1); /* tp 3 of 16 GPUs */
  }
  ck_assert_ptr_null(stepsim_sweep_row(sweep, 6));
  row = stepsim_sweep_row(sweep, 4);
  ck_assert_int_eq(cell(row, "dp")->whole, 2); /* 16 / 8 */
  stepsim_sweep_free(sweep);
}

static int stop(int64_t n_done, int64_t n, void *data) {
  ck_assert_int_le(n_done, n);
  return ++*(int *)data < 2;
}

TEST(a_sweep_can_be_stopped) {
  const char *const options[] = {
      "model=llama-3-70b",     "cluster=dgx-h100", "gpus=1024", "tp=1,2,4,8", "pp=1,2,4,8", "micro-batch=1..64",
      "seq-len=1024..8192+64", "zero=0..3",        "prune=off", "jobs=1",     NULL};
  StepsimFailure failure;
  int n_looks = 0;
  ck_assert_ptr_null(stepsim_sweep(options, stop, &n_looks, &failure));
  check_failure(&failure, 130, "stopped");
  ck_assert_int_eq(n_looks, 2);
}

TEST(a_wrong_sweep_is_refused) {
  static const char *const options[][4] = {{"model=gpt2", NULL},
                                           {"model=gpt2", "cluster=dgx-h100", "tp=1,1", NULL},
                                           {"model=gpt2", "cluster=dgx-h100", "sample-seed=3", NULL},
                                           {"model=gpt2", "cluster=dgx-h100", "output=x.db", NULL}};
  static const char *const said[] = {"cluster", "twice", "--sample-seed needs --sample", "unknown option --output"};
  for (gsize i = 0; i < G_N_ELEMENTS(options); i++) {
    StepsimFailure failure;
    ck_assert_ptr_null(stepsim_sweep(options[i], NULL, NULL, &failure));
    check_failure(&failure, 2, said[i]);
  }
}

TEST(a_schedule_is_told_as_the_verb_prints_it) {
  const char *const options[] = {"schedule=1f1b", "pp=4", "micro-batches=8", NULL};
  const char *const wrong[] = {"schedule=1f1c", "pp=4", "micro-batches=8", NULL};
  StepsimFailure failure;
  char *json = stepsim_schedule(options, &failure);
  /* 8 micro-batches of 3 units, and 3 stages to fill: 33 */
  ck_assert_msg(json != NULL && strstr(json, "\"makespan\" : 33.0") != NULL, "%s", json);
  stepsim_free(json);
  ck_assert_ptr_null(stepsim_schedule(wrong, &failure));
  check_failure(&failure, 2, "did you mean \"1f1b\"?");
}

/* --- threads --- */

enum { N_THREADS = 4, N_ROUNDS = 6 };
static const char *const sizes[] = {"micro-batch=1", "micro-batch=2", "micro-batch=4"};

typedef struct {
  StepsimDescription *description; /* NULL: one of its own */
  double sums_s[G_N_ELEMENTS(sizes)];
} Thread;

/* Numbers and, in the last round, every event. */
static gpointer predict_all(gpointer data) {
  Thread *thread = data;
  StepsimDescription *own = thread->description == NULL ? stepsim_open("llama-3-70b", "dgx-h100", NULL) : NULL;
  for (int round = 0; round < N_ROUNDS; round++)
    for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++) {
      const char *const options[] = {"gpus=64", "tp=8", "pp=4", "global-batch=64", sizes[i], NULL};
      StepsimPrediction *prediction = stepsim_predict(own != NULL ? own : thread->description, options, NULL);
      if (prediction == NULL || (round == N_ROUNDS - 1 && stepsim_json(prediction, NULL) == NULL))
        thread->sums_s[i] = NAN;
      thread->sums_s[i] += real(stepsim_row(prediction), "step_time_s");
      stepsim_prediction_free(prediction);
    }
  stepsim_close(own);
  return NULL;
}

/* _i 0: each has a description of its own; 1: all have the same. */
LOOP_TEST(threads_get_what_one_gets_alone, 2) {
  StepsimDescription *shared = _i == 1 ? opened() : NULL;
  Thread alone = {0}, threads[N_THREADS] = {{0}};
  GThread *running[N_THREADS];
  predict_all(&alone);
  for (int i = 0; i < N_THREADS; i++) {
    threads[i].description = shared;
    running[i] = g_thread_new("predict", predict_all, &threads[i]);
  }
  for (int i = 0; i < N_THREADS; i++)
    g_thread_join(running[i]);
  for (int i = 0; i < N_THREADS; i++)
    ck_assert_mem_eq(threads[i].sums_s, alone.sums_s, sizeof alone.sums_s);
  stepsim_close(shared);
}

int main(void) {
  return run_tests();
}
