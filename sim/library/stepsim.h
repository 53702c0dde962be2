/* libstepsim: how long a training step takes, and where its time and memory go.
 *
 *     StepsimDescription *d = stepsim_open("llama-3-70b", "dgx-h100", &failure);
 *     const char *plan[] = {"gpus=64", "tp=8", "pp=4", "global-batch=128", NULL};
 *     StepsimPrediction *p = stepsim_predict(d, plan, &failure);
 *     puts(stepsim_json(p, &failure));
 *
 * Options are those of the command line, without their dashes: "tp=8" for --tp 8; a list of them ends with NULL. What
 * the functions answer is what `stepsim` prints for the same options, by the same code.
 *
 * Any thread may call any function. Calls on one description, or on predictions of one, wait for each other; those on
 * different ones run side by side. Nothing is printed, and no call ends the process: what is wrong is told in a
 * StepsimFailure. Only memory that the system does not give ends it, as GLib has it.
 *
 * Names are looked up as for the command line: in the working directory, $STEPSIM_DATA, and what is installed. */
#ifndef STEPSIM_H
#define STEPSIM_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Why a call failed: the exit status and the message of the command line. Functions set the status in any case, also
 * to 0; NULL stands for a caller who does not ask. */
typedef struct {
  int status;    /* 0: it did not; 1: the plan is impossible; 2: bad input; 130: stopped by a StepsimWatch */
  char *message; /* to be freed with stepsim_free(); NULL if the status is 0 */
} StepsimFailure;

void stepsim_free(void *memory); /* which a function gave; NULL is fine */

/* "0.1.0". Static. */
const char *stepsim_version(void);

/* --- options --- */

/* As help tells it. Static. */
typedef struct {
  const char *name;           /* "micro-batch" */
  const char *kind;           /* "count", "ratio", "bytes", "switch" (on, off), "choice" or "text" */
  const char *value, *help;   /* "N", "sequences per micro-batch (default 1)" */
  const char *const *choices; /* of a choice; ends with NULL */
  int is_axis;                /* a sweep takes lists of it */
  int is_repeated;            /* it may be given several times */
} StepsimOption;

/* Those of stepsim_predict() and of stepsim_sweep(), from 0; NULL behind the last. */
const StepsimOption *stepsim_option(size_t i);
const StepsimOption *stepsim_sweep_option(size_t i);

/* --- numbers --- */

typedef enum { STEPSIM_EMPTY, STEPSIM_WHOLE, STEPSIM_REAL, STEPSIM_TEXT } StepsimType;

typedef struct {
  StepsimType type; /* of what it holds */
  union {
    int64_t whole;
    double real;
    const char *text;
  };
} StepsimCell;

/* What became of a plan: the columns of `stepsim sweep --csv`. */
typedef struct {
  int64_t index;            /* in the space of a sweep */
  const char *status;       /* "ran", "out_of_memory", "too_large" or "impossible" */
  const char *kind;         /* of the reason, the same for equal reasons; NULL: it ran and fits */
  const char *reason;       /* NULL likewise */
  const StepsimCell *cells; /* the plan, completed, and its numbers: [columns] */
} StepsimRow;

/* The name of a column, from 0; NULL behind the last. Static. */
const char *stepsim_column(size_t i);

/* --- predictions --- */

/* A model and a cluster, read once, and what predictions of plans for them remember for the next ones. */
typedef struct StepsimDescription StepsimDescription;
typedef struct StepsimPrediction StepsimPrediction;

/* Files, or names of what is shipped, as --model and --cluster take them. NULL: it failed. */
StepsimDescription *stepsim_open(const char *model, const char *cluster, StepsimFailure *failure);
void stepsim_close(StepsimDescription *description); /* its predictions stay */

/* The options of `stepsim simulate` but for model, cluster and files to write. A plan that does not fit in memory is
 * predicted all the same. NULL: it failed. */
StepsimPrediction *stepsim_predict(StepsimDescription *description, const char *const *options,
                                   StepsimFailure *failure);
void stepsim_prediction_free(StepsimPrediction *prediction);

/* The prediction's, as all below until it is freed. */
const StepsimRow *stepsim_row(const StepsimPrediction *prediction);
/* Why it does not fit, as the command line says it. NULL: it fits. */
const char *stepsim_misfit(const StepsimPrediction *prediction);

/* What follows needs every event of the step: the first of these calls runs it once more, with all of them kept. Each
 * fails with NULL, or not 0. */

/* What --json prints. */
const char *stepsim_json(StepsimPrediction *prediction, StepsimFailure *failure);
/* The report that simulate prints without --json. */
const char *stepsim_text(StepsimPrediction *prediction, StepsimFailure *failure);
/* What --timeline writes: an SVG. Needs gnuplot. */
const char *stepsim_svg(StepsimPrediction *prediction, StepsimFailure *failure);
/* A file, as --trace writes it if its name ends in .json or .npz, and as --timeline if in .svg, .png or .pdf. */
int stepsim_write(StepsimPrediction *prediction, const char *file, StepsimFailure *failure);

/* Events as arrays: those of --trace FILE.npz (see step_arrays.h). */
typedef struct {
  const char *name, *type; /* numpy's: "<i8", "<i4", "<i2", "|u1", "<f8", "<f4"; "<U12": texts of 12 characters, each of
                              four bytes, filled up with zeros */
  size_t n_rows, n_columns; /* columns 0: of one dimension */
  const void *values;
} StepsimArray;

/* All of them, and how many there are. */
const StepsimArray *stepsim_arrays(StepsimPrediction *prediction, size_t *n, StepsimFailure *failure);

/* --- sweeps, schedules --- */

typedef struct StepsimSweep StepsimSweep;

/* Called now and then while it runs; 0 stops it. */
typedef int (*StepsimWatch)(int64_t n_done, int64_t n, void *data);

/* The options of `stepsim sweep` that say what is tried: those of a plan, model and cluster with lists ("tp=1,2,4",
 * "pp=1..16*2"), space, sample, sample-seed, limit, price, prune, memory-margin, jobs. `watch` may be NULL. NULL: it
 * failed. */
StepsimSweep *stepsim_sweep(const char *const *options, StepsimWatch watch, void *data, StepsimFailure *failure);
void stepsim_sweep_free(StepsimSweep *sweep);
/* In the order of the space, from 0; NULL behind the last. */
const StepsimRow *stepsim_sweep_row(const StepsimSweep *sweep, size_t i);

/* What `stepsim schedule --json` prints for the options. To be freed with stepsim_free(). NULL: it failed. */
char *stepsim_schedule(const char *const *options, StepsimFailure *failure);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
