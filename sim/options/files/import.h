/* Files of other programs as plans. Each is first taken apart into keys and texts:
 *
 *     --tensor-model-parallel-size 8 \                    tensor-model-parallel-size   8    line 1
 *     {"zero_optimization": {"stage": 2}}                 zero_optimization.stage      2    line 1
 *     [parallelism] tensor_parallel_degree = 8            parallelism.tensor_…         8    line 2
 *
 * Then a table of the format says what becomes of a key: an option of the plan, a fact to hold against the model,
 * something that the reader's own code puts together with other keys, or nothing, where a step's time and memory cannot
 * depend on it. What no row names is told in a notice. Writers of these files are in sim/explore/launch; a test reads
 * back what they write. */
#pragma once
#include "plan_file.h"

typedef struct {
  char *key, *text; /* owned; text "" of an option without a value */
  guint line;
} ImportKey;

typedef enum {
  IMPORT_OPTION, /* `option` of the plan, which takes the text as it is */
  IMPORT_FACT,   /* a number that the model has at `offset` */
  IMPORT_READ,   /* read by the format's own code */
  IMPORT_UNUSED, /* says nothing of a step, or what the model's file says */
} ImportUse;

typedef struct {
  const char *key; /* one that ends with * stands for all that begin so */
  ImportUse use;
  const char *option; /* of IMPORT_READ: the one that says the same, if there is one */
  size_t offset;
} ImportRow;

typedef struct {
  PlanFile *file;
  GArray *keys;          /* of ImportKey */
  const ImportRow *rows; /* up to one without a key */
  gint64 gpus;           /* 0: not known */
} Import;

void import_init(Import *import, PlanFile *file, const ImportRow *rows, gint64 gpus);
void import_clear(Import *import);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Import, import_clear)
/* Texts are copied; of a key that stands twice the later counts, with a notice if it says something else. */
void import_add(Import *import, const char *key, const char *text, guint line);
/* Options, facts and notices of all keys, as the table has them. INPUT for a fact that is no number. */
gboolean import_take(Import *import, GError **error);

/* NULL: the file does not say it. Borrowed. */
const ImportKey *import_find(const Import *import, const char *key);
const char *import_text(const Import *import, const char *key);
gboolean import_is(const Import *import, const char *key, const char *text);
/* The whole number of a key; `otherwise` if there is none, or it is none from −1 to IMPORT_MOST. */
#define IMPORT_MOST (G_GINT64_CONSTANT(1) << 40)
gint64 import_count(const Import *import, const char *key, gint64 otherwise);
/* Of such numbers; at most IMPORT_MOST. */
gint64 import_product(gint64 a, gint64 b);
/* Set an option of the plan, as said by `key` (which may be absent). */
void import_set(Import *import, const char *key, const char *option, const char *format, ...) G_GNUC_PRINTF(4, 5);
/* Bytes per parameter of weights, gradients, master copy and each moment, by the name of a preset where one is that. */
void import_set_recipe(Import *import, const char *key, const double bytes[5]);
/* "file:line: key text: …"; by import_ask() only where `option`, which says the same, is not typed. */
void import_notice(Import *import, const char *key, const char *format, ...) G_GNUC_PRINTF(3, 4);
void import_ask(Import *import, const char *key, const char *option, const char *format, ...) G_GNUC_PRINTF(4, 5);

gboolean import_megatron(PlanFile *file, const char *text, gint64 gpus, GError **error);
gboolean import_deepspeed(PlanFile *file, gint64 gpus, GError **error);
gboolean import_torchtitan(PlanFile *file, const char *text, gint64 gpus, GError **error);
