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
  IMPORT_FLAG,   /* likewise, and has no value */
  IMPORT_UNUSED, /* says nothing of a step, or what the model's file says */
} ImportUse;

typedef struct {
  const char *key; /* one that ends with * stands for all that begin so */
  ImportUse use;
  const char *option; /* of IMPORT_READ: the one that says the same, if there is one */
  size_t offset;
  const char *const *values; /* the only texts it may have, up to NULL, in whatever case; NULL: any */
  gint64 least;              /* > 0: a whole number from there to IMPORT_MOST */
} ImportRow;

#define IMPORT_COUNT .least = 1
#define IMPORT_VALUES(...)                                                                                             \
  .values = (const char *const[]) {                                                                                    \
    __VA_ARGS__, NULL                                                                                                  \
  }

typedef struct {
  PlanFile *file;
  GArray *keys;          /* of ImportKey */
  GHashTable *places;    /* key → 1 + its index in `keys` */
  GArray *told;          /* how often each notice's format */
  GError **mistake;      /* the first that a reader found; import_take() fails with it */
  const ImportRow *rows; /* up to one without a key */
  gint64 gpus;           /* 0: not known */
} Import;

void import_init(Import *import, PlanFile *file, const ImportRow *rows, gint64 gpus);
void import_clear(Import *import);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Import, import_clear)
/* Texts are copied; of a key that stands twice the later counts, with a notice if it says something else. */
void import_add(Import *import, const char *key, const char *text, guint line);
/* Keys of which it holds are forgotten. */
void import_drop(Import *import, gboolean (*is_dropped)(Import *import, const ImportKey *key));
/* Options, facts and notices of all keys, as the table has them. INPUT with file:line, found and expected for a fact
 * that is no number, a text that the row does not list, and the first of import_fail(). */
gboolean import_take(Import *import, GError **error);

/* INPUT where no key says anything of a plan. */
gboolean import_check_known(const Import *import, const char *expected, GError **error);

/* NULL: the file does not say it. Borrowed. */
const ImportKey *import_find(const Import *import, const char *key);
const char *import_text(const Import *import, const char *key);
gboolean import_is(const Import *import, const char *key, const char *text);
/* The whole number of a key; `otherwise` without it. Of what is none from −1 to IMPORT_MOST import_take() tells. */
#define IMPORT_MOST (G_GINT64_CONSTANT(1) << 40)
gint64 import_count(const Import *import, const char *key, gint64 otherwise);
/* Of such numbers; at most IMPORT_MOST. */
gint64 import_product(gint64 a, gint64 b);
/* Set an option of the plan, as said by `key` (which may be absent). */
void import_set(Import *import, const char *key, const char *option, const char *format, ...) G_GNUC_PRINTF(4, 5);
/* Bytes per parameter of weights, gradients, master copy and each moment, by the name of a preset where one is that. */
void import_set_recipe(Import *import, const char *key, const double bytes[5]);
/* A mistake, "file:line: key: …", that import_take() fails with, if it is the first. */
void import_fail(const Import *import, const char *key, const char *format, ...) G_GNUC_PRINTF(3, 4);
/* "file:line: key text: …"; of those with the same format the first few, and how many more there are; by
 * import_ask() only where `option`, which says the same, is not typed. */
void import_notice(Import *import, const char *key, const char *format, ...) G_GNUC_PRINTF(3, 4);
void import_ask(Import *import, const char *key, const char *option, const char *format, ...) G_GNUC_PRINTF(4, 5);

gboolean import_megatron(PlanFile *file, const char *text, gint64 gpus, GError **error);
gboolean import_deepspeed(PlanFile *file, const char *text, gint64 gpus, GError **error);
gboolean import_torchtitan(PlanFile *file, const char *text, gint64 gpus, GError **error);
