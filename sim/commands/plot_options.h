/* What `stepsim plot` is asked for: a plan's options, those of single figures, and sets of plans that differ in some
 * options. */
#pragma once
#include "options.h"
#include "vary.h"

/* Options that only some figures use; each figure names its own as a set. */
typedef enum {
  HEED_SCHEDULES = 1 << 0, /* --schedules, --micro-batches */
  HEED_GPU_LIST = 1 << 1,
  HEED_VARY = 1 << 2,
  HEED_VALUE = 1 << 3,
  HEED_COLLECTIVE = 1 << 4, /* --op, --ranks, --bytes, --algorithm */
  HEED_AXES = 1 << 5,       /* --x, --y */
  HEED_BY = 1 << 6,
  HEED_PARAMS = 1 << 7, /* --params, --capacity */
} Heed;

typedef struct {
  PlanOptions plan;
  char *schedules, *micro_batches, *gpu_list, *value, *op, *ranks, *bytes, *algorithm, *x, *y, *by, *params,
      *capacity; /* NULL: not given */
  char **vary;
  gboolean has_plans; /* several --plan: the first of `vary` */
  char *output, *data, *title;
  gboolean terminal;
  gint jobs;
  char **arguments; /* argv[0] and everything that was typed; owned */
} PlotOptions;

/* Read argv like parser_run(), and a plan's file; of several --plan each is a value of the axis "plan" in `vary`.
 * `summary` and `example` appear in --help. The caller clears `o` in either case. */
gboolean plot_options_parse(PlotOptions *o, const char *summary, const char *example, int *argc, char ***argv,
                            GError **error);
void plot_options_clear(PlotOptions *o);
/* INPUT naming the first option that was typed and that `figure` does not use. */
gboolean plot_options_check(const PlotOptions *o, const char *figure, guint heeds, GError **error);
/* INPUT naming the first plan option that was typed and is not in `heeded` (ends with NULL). The message begins with
 * `picture`, as in "plot bubble and --tp clash", and ends with `why`. */
gboolean plot_options_check_plan(const PlotOptions *o, const char *const *heeded, const char *picture, const char *why,
                                 GError **error);
/* The plan options that were typed, except model, cluster and those in --vary: "tp 8, global-batch 512". Owned by the
 * caller. */
char *plot_options_fixed(const PlotOptions *o);

/* One --vary. */
typedef struct {
  char *name; /* the option without dashes; owned */
  char **values;
} VaryAxis;

/* Plans for all combinations of the axes' values, the last axis fastest. */
typedef struct {
  GArray *axes;       /* of VaryAxis; owned */
  GPtrArray *sources; /* of PlanOptions *; own the models and clusters that the runs borrow */
  GArray *runs;       /* of Variant, not yet predicted; labels such as "pp 4, zero 1" */
} Variants;

/* `vary`: texts "NAME=LIST", NULL-terminated, with LIST "1,2,4", "1..16*2" or names. INPUT for a malformed text, a
 * NAME that is not a plan option, an invalid value, more than 4096 combinations. The caller clears `variants` in
 * either case. */
gboolean variants_make(Variants *variants, const PlotOptions *o, char **vary, GError **error);
void variants_clear(Variants *variants);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Variants, variants_clear)
