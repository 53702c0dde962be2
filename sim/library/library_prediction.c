/* A prediction has its numbers, as a sweep has them, from the few micro-batches and the remembered structures that are
 * enough for these. Whoever asks for more has the step run again, with every event (answer()). */
#include <string.h>

#include "error.h"
#include "library.h"
#include "npz.h"
#include "step_answer.h"
#include "step_arrays.h"
#include "step_of_prediction.h"
#include "sweep_try.h"

struct StepsimDescription {
  gatomicrefcount n_users; /* the caller, and each prediction */
  GMutex lock;             /* of all below, and of what predictions make later */
  PlanOptions plan;        /* with model and cluster; texts are those of the last prediction */
  TrainingOptions training;
  Parser *parser;         /* of both; owned, as are the next */
  GHashTable *frameworks; /* of `plan` */
  Predictor *predictor;
};

struct StepsimPrediction {
  StepsimDescription *description; /* a use of it */
  Plan *plan;                      /* as asked for; owned, as are all below */
  TrainingOptions training;
  SweepRow numbers;
  StepsimRow row; /* borrows from these */
  char *misfit;

  /* made when they are first asked for */
  Prediction *prediction;
  StepAnswer answer;
  char *json, *text, *svg;
  Npz *npz;
  StepsimArray *arrays;
};

/* --- descriptions --- */

static StepsimDescription *description_new(void) {
  StepsimDescription *d = g_new0(StepsimDescription, 1);
  g_atomic_ref_count_init(&d->n_users);
  g_mutex_init(&d->lock);
  d->frameworks = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  d->predictor = predictor_new();
  d->parser = parser_new(NULL, "", "");
  plan_options_init(&d->plan);
  d->plan.frameworks = d->frameworks;
  training_options_add(&d->training, d->parser);
  plan_options_add(&d->plan, PLAN_OPTIONS_SIMULATED | PLAN_OPTIONS_PLACED, d->parser);
  return d;
}

static void description_unref(StepsimDescription *d) {
  if (d == NULL || !g_atomic_ref_count_dec(&d->n_users))
    return;
  plan_options_clear(&d->plan);
  training_options_clear(&d->training);
  parser_free(d->parser);
  g_hash_table_unref(d->frameworks);
  predictor_free(d->predictor);
  g_mutex_clear(&d->lock);
  g_free(d);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(StepsimDescription, description_unref)

static StepsimDescription *description_open(const char *model, const char *cluster, GError **error) {
  g_autoptr(StepsimDescription) d = description_new();
  d->plan.model_file = g_strdup(model);
  d->plan.cluster_file = g_strdup(cluster);
  return plan_options_finish(&d->plan, error) ? g_steal_pointer(&d) : NULL;
}

StepsimDescription *stepsim_open(const char *model, const char *cluster, StepsimFailure *failure) {
  const locale_t before = library_enter();
  GError *error = NULL;
  StepsimDescription *d = description_open(model, cluster, &error);
  library_leave(before, error, failure);
  return d;
}

void stepsim_close(StepsimDescription *description) {
  description_unref(description);
}

/* --- options --- */

/* Those of files and of what is described, and those that write. */
static const char *const refused[] = {"model", "cluster", "run-plot", NULL};

static LibraryOptions *make_options(void) {
  g_autoptr(StepsimDescription) d = description_new();
  return library_options_new(d->parser, refused);
}

const StepsimOption *stepsim_option(size_t i) {
  static LibraryOptions *options;
  if (g_once_init_enter(&options))
    g_once_init_leave(&options, make_options());
  return library_nth_option(options, i);
}

/* --- numbers --- */

/* From nothing typed to a plan and its training run, as asked for. */
static gboolean read_options(StepsimDescription *d, const char *const *options, GError **error) {
  for (int i = 0; i < plan_n_fields(); i++) {
    g_clear_pointer(&d->plan.texts[i], g_free);
    g_clear_pointer(&d->plan.origins[i], g_free);
  }
  g_clear_pointer(&d->plan.repeated, g_strfreev);
  g_clear_pointer(&d->plan.plan_files, g_strfreev);
  g_clear_pointer(&d->plan.file, plan_file_free);
  training_options_clear(&d->training);
  d->training.gpu_hours = 0;
  return library_set_options(d->parser, options, refused, error) && training_options_finish(&d->training, error) &&
         plan_options_take_file(&d->plan, NULL, error) && plan_options_finish(&d->plan, error);
}

static TrainingOptions training_copy(const TrainingOptions *training) {
  TrainingOptions copy = *training;
  for (int i = 0; i < N_TRAINING_OPTIONS; i++)
    copy.texts[i] = g_strdup(training->texts[i]);
  return copy;
}

static char *misfit_of(const Prediction *prediction) {
  g_autoptr(GError) problem = NULL;
  if (prediction->fits)
    return NULL;
  const StepReport report = step_of_prediction(prediction, NULL);
  return step_answer_check_fit(&report, &problem) ? NULL : g_strdup(problem->message);
}

static void set_name(SweepRow *row, const char *column, const char *name) {
  const SweepTable *table = library_table();
  sweep_row_set_asked(row, table, sweep_table_find(table, column), name);
}

/* Of the description's plan. */
static StepsimPrediction *prediction_of(StepsimDescription *d, const Prediction *prediction) {
  StepsimPrediction *p = g_new0(StepsimPrediction, 1);
  g_atomic_ref_count_inc(&d->n_users);
  p->description = d;
  p->plan = plan_copy(d->plan.plan);
  p->training = training_copy(&d->training);
  sweep_row_init(&p->numbers, library_table(), 0);
  set_name(&p->numbers, "model", d->plan.model->name);
  set_name(&p->numbers, "cluster", d->plan.cluster->name);
  sweep_row_set_prediction(&p->numbers, library_table(), prediction, prediction->workload->plan, d->training.price);
  p->row = library_row(&p->numbers);
  p->misfit = misfit_of(prediction);
  return p;
}

static StepsimPrediction *predict_options(StepsimDescription *d, const char *const *options, GError **error) {
  if (!read_options(d, options, error))
    return NULL;
  g_autoptr(Prediction) prediction = predict_numbers(d->predictor, d->plan.model, d->plan.cluster, d->plan.plan, error);
  return prediction != NULL ? prediction_of(d, prediction) : NULL;
}

StepsimPrediction *stepsim_predict(StepsimDescription *description, const char *const *options,
                                   StepsimFailure *failure) {
  const locale_t before = library_enter();
  GError *error = NULL;
  g_mutex_lock(&description->lock);
  StepsimPrediction *prediction = predict_options(description, options, &error);
  g_mutex_unlock(&description->lock);
  library_leave(before, error, failure);
  return prediction;
}

void stepsim_prediction_free(StepsimPrediction *p) {
  if (p == NULL)
    return;
  plan_free(p->plan);
  training_options_clear(&p->training);
  sweep_row_clear(&p->numbers);
  step_answer_clear(&p->answer);
  prediction_free(p->prediction);
  npz_free(p->npz);
  char *const texts[] = {p->misfit, p->json, p->text, p->svg};
  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++)
    g_free(texts[i]);
  g_free(p->arrays);
  description_unref(p->description);
  g_free(p);
}

const StepsimRow *stepsim_row(const StepsimPrediction *prediction) {
  return &prediction->row;
}

const char *stepsim_misfit(const StepsimPrediction *prediction) {
  return prediction->misfit;
}

/* --- every event --- */

static StepAnswer *answer(StepsimPrediction *p, GError **error) {
  if (p->prediction != NULL)
    return &p->answer;
  const PlanOptions *given = &p->description->plan;
  PlanOptions own = {.model = given->model, .cluster = given->cluster, .plan = p->plan};
  g_autoptr(Prediction) prediction = predict(own.model, own.cluster, own.plan, error);
  if (prediction == NULL || !step_answer_make(&p->answer, prediction, &own, &p->training, error)) {
    step_answer_clear(&p->answer);
    return NULL;
  }
  p->prediction = g_steal_pointer(&prediction);
  return &p->answer;
}

static char *make_text(const StepsimPrediction *p, const StepAnswer *made) {
  GString *out = g_string_new(NULL);
  step_answer_text(made, &p->training, FALSE, out);
  return g_string_free(out, FALSE);
}

/* What is asked for, made once and kept. */
typedef enum { ASK_JSON, ASK_TEXT, ASK_SVG } Ask;

static const char *ask(StepsimPrediction *p, Ask what, GError **error) {
  char **const kept[] = {[ASK_JSON] = &p->json, [ASK_TEXT] = &p->text, [ASK_SVG] = &p->svg};
  char **at = kept[what];
  const StepAnswer *made = *at == NULL ? answer(p, error) : NULL;
  if (made != NULL)
    *at = what == ASK_JSON   ? step_answer_json(made)
          : what == ASK_TEXT ? make_text(p, made)
                             : picture_take_svg(step_answer_timeline(made, error), error);
  return *at;
}

static const char *ask_alone(StepsimPrediction *p, Ask what, StepsimFailure *failure) {
  const locale_t before = library_enter();
  GError *error = NULL;
  g_mutex_lock(&p->description->lock);
  const char *text = ask(p, what, &error);
  g_mutex_unlock(&p->description->lock);
  library_leave(before, error, failure);
  return text;
}

const char *stepsim_json(StepsimPrediction *prediction, StepsimFailure *failure) {
  return ask_alone(prediction, ASK_JSON, failure);
}

const char *stepsim_text(StepsimPrediction *prediction, StepsimFailure *failure) {
  return ask_alone(prediction, ASK_TEXT, failure);
}

const char *stepsim_svg(StepsimPrediction *prediction, StepsimFailure *failure) {
  return ask_alone(prediction, ASK_SVG, failure);
}

static gboolean write_file(StepsimPrediction *p, const char *file, GError **error) {
  const gboolean is_trace = g_str_has_suffix(file, ".json") || g_str_has_suffix(file, ".npz");
  if (!is_trace && !picture_check_file(file, NULL))
    return fail_input(error,
                      "%.200s: expected a name ending in .json or .npz for a trace, in .svg, .png or .pdf for a "
                      "timeline",
                      file);
  const StepAnswer *made = answer(p, error);
  if (made == NULL)
    return FALSE;
  return is_trace ? step_answer_write_trace(made, file, error)
                  : picture_take(step_answer_timeline(made, error), file, error);
}

int stepsim_write(StepsimPrediction *prediction, const char *file, StepsimFailure *failure) {
  const locale_t before = library_enter();
  GError *error = NULL;
  g_mutex_lock(&prediction->description->lock);
  const gboolean is_written = write_file(prediction, file, &error);
  g_mutex_unlock(&prediction->description->lock);
  library_leave(before, error, failure);
  return !is_written;
}

static StepsimArray *make_arrays(StepsimPrediction *p, GError **error) {
  const StepAnswer *made = answer(p, error);
  if (made == NULL ||
      (p->npz = step_arrays_new(p->prediction->trace, p->prediction->metrics, made->report.cluster, error)) == NULL)
    return NULL;
  StepsimArray *arrays = g_new(StepsimArray, npz_n_arrays(p->npz));
  for (gsize i = 0; i < npz_n_arrays(p->npz); i++) {
    const NpzArray *array = npz_array(p->npz, i);
    arrays[i] = (StepsimArray){array->name, array->type, array->n_rows, array->n_columns, array->values};
  }
  return arrays;
}

const StepsimArray *stepsim_arrays(StepsimPrediction *prediction, size_t *n, StepsimFailure *failure) {
  const locale_t before = library_enter();
  GError *error = NULL;
  g_mutex_lock(&prediction->description->lock);
  if (prediction->arrays == NULL)
    prediction->arrays = make_arrays(prediction, &error);
  *n = prediction->arrays != NULL ? npz_n_arrays(prediction->npz) : 0;
  g_mutex_unlock(&prediction->description->lock);
  library_leave(before, error, failure);
  return prediction->arrays;
}
