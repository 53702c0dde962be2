/* Options that several verbs share. */
#pragma once
#include "parser.h"
#include "plan_fields.h"
#include "plan_file.h"

/* What the common options describe: model, cluster, every field of a plan. */
typedef struct {
  char *model_file, *cluster_file;
  char **plan_files; /* of --plan, in order; NULL: none */
  gboolean json;
  char **texts;    /* [plan_n_fields()], as typed; NULL: left out. Turned into `plan` by plan_options_make_plan() */
  char **repeated; /* what was typed for the field that may be repeated, in order; NULL: nothing */
  char **origins;  /* [plan_n_fields()]: "file:line" of a text that a file has; NULL: typed */
  PlanFile *file;  /* read by plan_options_take_file(); NULL: none */
  GHashTable *frameworks; /* name → what it is: read before, for callers that fill many plans; borrowed; may be NULL */

  Model *model;     /* owned; read by plan_options_finish() */
  Cluster *cluster; /* owned */
  Plan *plan;       /* owned; not completed: predict() does that */
  GArray *steps;    /* of PlanStep (options.c): what was set last; owned */
} PlanOptions;

/* Value of a verb's own number whose option was not typed; no option accepts it. */
enum { OPTION_NOT_GIVEN = G_MININT };

void plan_options_init(PlanOptions *options);
void plan_options_clear(PlanOptions *options);
/* What was typed for a field, which must exist; NULL: nothing. Borrowed. */
const char *plan_options_typed(const PlanOptions *options, const char *field);
/* As if it was typed, where a verb has a default of its own; --help says so. Call before plan_options_add(). */
void plan_options_set_default(PlanOptions *options, const char *field, const char *text);

/* What a verb takes besides model, cluster and plan. */
typedef enum {
  PLAN_OPTIONS_JSON = 1 << 0,      /* --json: the verb can print an object */
  PLAN_OPTIONS_SIMULATED = 1 << 1, /* what only a simulation can vary: folding, jitter, slow ranks */
  PLAN_OPTIONS_PLACED = 1 << 2,    /* --rank-map: one plan on one cluster, read by plan_options_finish() */
} PlanOptionSet;
void plan_options_add(PlanOptions *options, PlanOptionSet set, Parser *parser);
/* Take what was not typed from the last file of --plan, once all is parsed; what is to be known of how it was read goes
 * to standard error, where each line begins with `verb`, "stepsim simulate". `verb` NULL: it is not said. Nothing is
 * done without a file. INPUT with file:line. */
gboolean plan_options_take_file(PlanOptions *options, const char *verb, GError **error);
/* Leave out what a file, and not the command line, says of a field. */
void plan_options_drop_taken(PlanOptions *options, const char *field);
/* What was typed and taken, as a plan's file. Owned by the caller. */
PlanFile *plan_options_file(const PlanOptions *options, const char *path);
/* A plan in one text: options as they are typed ("--tp 8 --pp 4"), or the name of a file as of --plan. What it says
 * goes before what `options` have already. INPUT. */
gboolean plan_options_read_text(PlanOptions *options, const char *text, PlanOptionSet set, const char *verb,
                                GError **error);
/* Print a plan file's notices that no typed option makes superfluous, a line for those of one message, and which
 * framework it was read as, if that was not typed. `typed` is the text of an option in `options`; NULL: none. */
typedef const char *(*PlanFileTyped)(gconstpointer options, const char *option);
void plan_file_tell(const PlanFile *file, PlanFileTyped typed, gconstpointer options, const char *verb);
/* Help of --model, --cluster and --plan. */
extern const char options_model_help[], options_cluster_help[], options_plan_help[];
/* cluster_read(), and what looks wrong in the cluster (topology_notices()) on standard error: once per run of a verb,
 * from one of its processes; nothing where no verb runs. */
Cluster *options_read_cluster(const char *file, GError **error);
/* Fill only the plan; again, if values changed, which sets only what follows the first that did. INPUT for a wrong
 * value, IMPOSSIBLE for two that clash. */
gboolean plan_options_make_plan(PlanOptions *options, GError **error);
/* Refuse typed options without meaning for the model. INPUT for plain norms without RMSNorms, or deepep without
 * experts, unless the framework sets the same. IMPOSSIBLE for those without meaning in the schedule:
 * --overlap-experts without rounds of a forward and a backward. Tables of measured runs may have such options. */
gboolean plan_options_check_model(const Plan *plan, const Model *model, GError **error);
/* INPUT if a typed option contradicts the cluster. */
gboolean plan_options_check_cluster(const PlanOptions *options, const Cluster *cluster, GError **error);
/* Read the files and fill the plan. INPUT if --model or --cluster is missing or a value is wrong. */
gboolean plan_options_finish(PlanOptions *options, GError **error);
/* The same of what was given: a model, a cluster (unless these are set already), both or neither. */
gboolean plan_options_read(PlanOptions *options, GError **error);
