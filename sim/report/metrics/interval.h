/* How far off a predicted step time may be: the interval that holds four of five measured ones, from the errors of
 * published steps (topologies/published/prediction-errors.yaml, which `stepsim validate --intervals` makes; how is told
 * in explore/validation/error_table.h), or from what a cluster's own runs showed (as_run.h). */
#pragma once
#include "cluster.h"

/* Share of measured step times that an interval holds. */
#define INTERVAL_LEVEL 0.8
#define INTERVAL_FILE "prediction-errors"

/* What makes errors alike, beside machine and framework. */
typedef enum {
  ERRORS_DENSE_NEAR, /* a dense model on GPUs of one scale-up domain, */
  ERRORS_DENSE_FAR,  /* or of several */
  ERRORS_EXPERTS,    /* a model with experts, wherever */
  N_ERROR_CLASSES
} ErrorClass;
/* "dense_in_a_domain" …; NULL-terminated. */
const char *const *error_class_names(void);
ErrorClass error_class_of(const Cluster *cluster, int n_gpus, gboolean has_experts);

/* Where errors come from, the most like a prediction first. */
typedef enum {
  INTERVAL_UNKNOWN,     /* there is none */
  INTERVAL_OF_RUNS,     /* the cluster's own runs */
  INTERVAL_OF_ROWS,     /* published steps on this machine with this framework */
  INTERVAL_FIRST_LOOK,  /* what others were off by before anything was known of their machine but its data sheets */
  INTERVAL_UNDESCRIBED, /* the same without a framework's file */
  INTERVAL_NEW_GPU,     /* the same, for a GPU that no published step has */
} IntervalBasis;

typedef struct {
  double low_s, high_s; /* low_s ≤ the predicted time ≤ high_s */
  double ratio; /* of two plans of this kind on one machine: their times' ratio is within a factor 1 + this of the
                   predicted one in four of five cases */
  IntervalBasis basis;
  int n_rows; /* INTERVAL_OF_ROWS: how many */
} Interval;

/* A step that is predicted. */
typedef struct {
  const Cluster *cluster;
  const char *framework; /* NULL: none is described */
  int n_gpus;
  gboolean has_experts; /* of the model */
  double step_time_s;
} IntervalCase;

/* Published steps on a machine with a framework, of a class. */
typedef struct {
  const char *cluster, *framework; /* as the file names them */
  int n_rows;
  double error; /* mean of |predicted / measured − 1|; 0: the file does not say */
} SeenRows;

/* All of the file, by cluster, then framework. Array of SeenRows, whose texts last as long as the program; owned by the
 * caller. NULL with INPUT. */
GArray *interval_seen(GError **error);

/* INPUT if the file cannot be read. It is read once; any number of threads may ask. */
gboolean interval_find(const IntervalCase *predicted, Interval *interval, GError **error);
/* Its file. Owned by the caller; NULL with INPUT set. */
char *interval_file(GError **error);

/* " (11.5 to 13.4 s in four of five cases like this: …)"; nothing if it is unknown. */
void interval_append(GString *out, const Interval *interval);
/* "11.5 to 13.4 s". */
void interval_append_range(GString *out, const Interval *interval);
/* "11.5 s". Owned by the caller. */
char *interval_end_text(double seconds);
/* What "like this" is, in a few words; NULL: unknown. Owned by the caller. */
char *interval_basis_text(const Interval *interval);
