/* What `stepsim plot` is asked: the options of a plan, those of single figures, and plans that differ in some of them.
 */
#pragma once
#include "many_runs.h"
#include "options.h"

/* Options that only some figures heed; a figure names its own as a set. */
typedef enum {
  HEED_SCHEDULES = 1 << 0, /* --schedules, --micro-batches */
  HEED_GPU_LIST = 1 << 1,
  HEED_VARY = 1 << 2,
  HEED_VALUE = 1 << 3,
  HEED_COLLECTIVE = 1 << 4, /* --op, --ranks, --bytes, --algorithm */
  HEED_AXES = 1 << 5,       /* --x, --y */
  HEED_BY = 1 << 6,
} Heed;

typedef struct {
  PlanOptions plan;
  char *schedules, *micro_batches, *gpu_list, *value, *op, *ranks, *bytes, *algorithm, *x, *y,
      *by; /* NULL: not given */
  char **vary;
  char *output, *data, *title;
  gboolean terminal;
  gint jobs;
  char **arguments; /* argv[0] and all that was typed; owned */
} PlotOptions;

/* Read argv, as parser_run(); `summary` and `example` stand in --help. Cleared by the caller in any case. */
gboolean plot_options_parse(PlotOptions *o, const char *summary, const char *example, int *argc, char ***argv,
                            GError **error);
void plot_options_clear(PlotOptions *o);
/* INPUT naming the first option that was typed and that `figure` would not heed. */
gboolean plot_options_check(const PlotOptions *o, const char *figure, guint heeds, GError **error);
/* INPUT naming the first option of a plan that was typed and is none of `heeded` (ends with NULL). `picture` as in
 * "plot bubble and --tp clash", `why` behind it. */
gboolean plot_options_check_plan(const PlotOptions *o, const char *const *heeded, const char *picture, const char *why,
                                 GError **error);
/* The options of the plan that were typed, but for model, cluster and what --vary names: "tp 8, global-batch 512".
 * Owned by the caller. */
char *plot_options_fixed(const PlotOptions *o);

/* One --vary. */
typedef struct {
  char *name; /* of the option, without dashes; owned */
  char **values;
} VaryAxis;

/* Plans that differ: all combinations of the axes' values, the last axis fastest. */
typedef struct {
  GArray *axes;       /* of VaryAxis; owned */
  GPtrArray *sources; /* of PlanOptions *: own the models and clusters that the runs borrow */
  GArray *runs;       /* of ManyRun, not predicted; labels "pp 4, zero 1" */
} Variants;

/* `vary`: texts "NAME=LIST", NULL-terminated, LIST as "1,2,4", "1..16*2" or names. INPUT for a malformed one, a NAME
 * that is no option of a plan, a value that it cannot have, more than 4096 combinations. Cleared by the caller in any
 * case. */
gboolean variants_make(Variants *variants, const PlotOptions *o, char **vary, GError **error);
void variants_clear(Variants *variants);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Variants, variants_clear)
