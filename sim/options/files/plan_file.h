/* A plan in a file: options of a plan, the model and the cluster, by name.
 *
 *     model: llama-3-70b        # stepsim's own, as --save-plan writes it: a name of the option, or of the column
 *     tp: 8
 *     global_batch: 512
 *
 * Read as well, and recognised by what is in them: Megatron-LM's arguments (a script, a Bash array, or one after the
 * other), DeepSpeed's JSON and torchtitan's TOML (import.h). */
#pragma once
#include "model.h"

/* One option, as it would be typed. */
typedef struct {
  const char *option; /* "global-batch", "model"; static */
  char *text;         /* of a list in stepsim's own: its items joined by commas; owned */
  guint line;
} PlanFileEntry;

/* What a file says of the model, which --model describes. */
typedef struct {
  char *key; /* owned */
  gint64 value;
  size_t offset; /* of its gint64 in Model, unless `within` */
  guint line;
  gint64 within; /* `value` is of the parameters, which it gives up to so many; 0: one that must be met */
} PlanFileFact;

/* What matters and was not understood, or how some of it was. */
typedef struct {
  char *what, *message; /* "zero_optimization.stage 2"; owned */
  const char *option;   /* which, if typed, makes this superfluous; static; NULL: none */
  guint line;
} PlanFileNotice;

typedef struct {
  char *path;         /* owned */
  const char *format; /* "Megatron-LM's arguments"; NULL: stepsim's own */
  GArray *entries;    /* of PlanFileEntry; an option stands once, unless it may be repeated */
  GArray *facts;      /* of PlanFileFact */
  GArray *notices;    /* of PlanFileNotice */
} PlanFile;

/* `gpus`: how many are known otherwise, 0: none; what a file says of all ranks needs them. INPUT with file:line. */
PlanFile *plan_file_read(const char *path, gint64 gpus, GError **error);
void plan_file_free(PlanFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PlanFile, plan_file_free)

/* Stepsim's own alone: also for spaces, whose values may be lists. */
PlanFile *plan_file_read_own(const char *path, GError **error);
PlanFile *plan_file_parse_own(const char *path, const char *text, gsize length, GError **error);

/* The text of an option; NULL: it has none. Borrowed. */
const char *plan_file_text(const PlanFile *file, const char *option);
/* Adds an entry; the text is copied. For readers and for those who write one. */
void plan_file_add(PlanFile *file, const char *option, const char *text, guint line);

/* INPUT with file:line for the first fact that the model contradicts. */
gboolean plan_file_check_model(const PlanFile *file, const Model *model, GError **error);

/* An empty one, to be filled and written. */
PlanFile *plan_file_new(const char *path);
/* As text that plan_file_read() takes, to be written at its path: names of files are as seen from there. Owned by the
 * caller. */
char *plan_file_write(const PlanFile *file);
