/* The state of a run as the numerics check sees it: before each optimizer step, and after the last, every rank
 * records for each tensor the part of its gradient and weights that lies in its shard. A record says where in the
 * whole matrix its values belong:
 *
 *     record   | name, kind, step, place in the whole matrix, range | values, fp32 |
 *
 * All ranks' records, concatenated, are then laid over whole matrices. Elements that no record covers are missing. */
#pragma once
#include "trainer.h"

/* gradients are recorded with the loss scale divided out; the scale itself as two numbers */
enum {
  RECORD_GRADIENT,
  RECORD_WEIGHT,
  RECORD_SCALE,
  RECORD_LOST, /* what the sum of compressed gradients lacks of that of gradients (Block.lost) */
  N_RECORDS
};
enum { AT_SCALE, AT_SKIPPED, N_OF_SCALE };
#define RECORD_SCALE_NAME "loss scale"

/* A whole matrix, from the one-rank run or assembled from the ranks' records. */
typedef struct {
  float *values; /* owned */
  gint64 n;
  guint8 *is_covered; /* owned */
  double copies2;     /* Σ of squared differences between copies on several ranks */
} Whole;

/* Appends this rank's state before `step`'s optimizer to the GByteArray `data`. A GradientHook (executor.h). */
gboolean records_write(Trainer *trainer, int step, gpointer data, GError **error);
/* Sets a one-rank run's weights to those that `wholes` has for `step`; tensors it does not have stay. Call it where
 * records_write() is called, with an optimizer whose learning rate is 0. */
gboolean records_set_weights(Trainer *trainer, GHashTable *wholes, int step, GError **error);
/* Lays out all records in n bytes: Whole by kind, step and name. */
GHashTable *records_lay(const guint8 *bytes, gsize n);
/* NULL: no record of it. */
const Whole *records_find(GHashTable *wholes, int kind, int step, const char *name);
/* Names of tensors, in the order of a one-rank run's records. Array and strings are owned by the caller. */
GPtrArray *records_tensor_names(const GByteArray *records);
