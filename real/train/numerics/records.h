/* What a run held, as a check of numbers sees it: before each optimizer step, and after the last, every rank writes
 * down for each tensor the part of its gradient and weights that lies in its shard, as records that say where in the
 * whole matrix they belong:
 *
 *     record   | name, kind, step, place in the whole matrix, range | values, fp32 |
 *
 * Records of all ranks, one behind the other, are then laid over whole matrices. Any number no record has covered is
 * missing. */
#pragma once
#include "trainer.h"

/* gradients are written down as they are without the loss's scale; the scale itself as two numbers */
enum { RECORD_GRADIENT, RECORD_WEIGHT, RECORD_SCALE, N_RECORDS };
enum { AT_SCALE, AT_SKIPPED, N_OF_SCALE };
#define RECORD_SCALE_NAME "loss scale"

/* A whole matrix, of the one-rank run or as the ranks' records make it. */
typedef struct {
  float *values; /* owned */
  gint64 n;
  guint8 *is_covered; /* owned */
  double copies2;     /* Σ of squared differences of what several ranks hold */
} Whole;

/* What a rank holds before `step`'s optimizer, appended to the GByteArray `data`: a GradientHook (executor.h). */
gboolean records_write(Trainer *trainer, int step, gpointer data, GError **error);
/* What a one-rank run's tensors weigh from now on: what `wholes` has of `step`; those it has nothing of stay. To be
 * called where records_write() is, before an optimizer that learns nothing. */
gboolean records_set_weights(Trainer *trainer, GHashTable *wholes, int step, GError **error);
/* All records of n bytes of them: Whole by kind, step and name. */
GHashTable *records_lay(const guint8 *bytes, gsize n);
/* NULL: no record has told of it. */
const Whole *records_find(GHashTable *wholes, int kind, int step, const char *name);
/* Names of tensors, in the order of a one-rank run's records. Owned by the caller, as its strings. */
GPtrArray *records_tensor_names(const GByteArray *records);
