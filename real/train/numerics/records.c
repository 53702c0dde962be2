/* Records follow a block's tensors. A tensor cut over tp is a range of rows or columns of the whole; a shard is a
 * range of its elements. */
#include "records.h"

#include "cpu_kernels.h"
#include "staging.h"
#include "state.h"

#include <math.h>
#include <string.h>

typedef struct {
  char name[64];
  gint32 kind, step;
  gint64 columns, first_row, first_column, whole_rows, whole_columns; /* of the part held here; of the whole */
  gint64 begin, end;                                                  /* range of the part's elements that follows */
} Record;

/* --- recording --- */

static gboolean read_floats(Trainer *trainer, const void *from, Number number, gint64 n, float *to, GError **error) {
  g_autofree char *raw = g_malloc((gsize)n * 4 + 1);
  if (!staging_read(trainer->device, trainer->streams[STREAM_COMPUTE], raw, from, n * kernel_element_bytes(number),
                    error))
    return FALSE;
  cpu_convert(raw, number, n, to, NUMBER_FP32);
  return TRUE;
}

static void write_records(GByteArray *out, const Block *block, int kind, int step, const float *shard) {
  for (int i = 0; i < block->n_tensors; i++) {
    const Tensor *tensor = &block->tensors[i];
    const gint64 n = tensor->rows * tensor->columns;
    const gint64 begin = CLAMP(block->shard_first - tensor->offset, 0, n);
    const gint64 end = CLAMP(block->shard_first + block->shard_n - tensor->offset, 0, n);
    if (begin >= end)
      continue;
    Record record = {.kind = kind,
                     .step = step,
                     .columns = tensor->columns,
                     .first_row = tensor->first_row,
                     .first_column = tensor->first_column,
                     .whole_rows = tensor->whole_rows,
                     .whole_columns = tensor->whole_columns,
                     .begin = begin,
                     .end = end};
    g_strlcpy(record.name, tensor->name, sizeof record.name);
    g_byte_array_append(out, (const guint8 *)&record, sizeof record);
    g_byte_array_append(out, (const guint8 *)(shard + tensor->offset + begin - block->shard_first),
                        (guint)((gsize)(end - begin) * sizeof *shard));
  }
}

static const void *element(const void *base, gint64 i, Number number) {
  return (const char *)base + i * kernel_element_bytes(number);
}

/* Records the step's scale; 1 without loss scaling. */
static gboolean write_scale(Trainer *trainer, int step, GByteArray *out, double *scale, GError **error) {
  LossScale state = {.scale = 1};
  if (trainer->scales != NULL && !staging_read(trainer->device, trainer->streams[STREAM_COMPUTE], &state,
                                               loss_scaling_of(trainer, step), sizeof state, error))
    return FALSE;
  *scale = state.scale;
  if (trainer->scales == NULL)
    return TRUE;
  Record record = {.kind = RECORD_SCALE,
                   .step = step,
                   .columns = N_OF_SCALE,
                   .whole_rows = 1,
                   .whole_columns = N_OF_SCALE,
                   .end = N_OF_SCALE};
  const float values[N_OF_SCALE] = {[AT_SCALE] = (float)state.scale, [AT_SKIPPED] = (float)state.n_skipped};
  g_strlcpy(record.name, RECORD_SCALE_NAME, sizeof record.name);
  g_byte_array_append(out, (const guint8 *)&record, sizeof record);
  g_byte_array_append(out, (const guint8 *)values, sizeof values);
  return TRUE;
}

/* The shard's, as exactly as they are kept. */
static gboolean read_weights(Trainer *trainer, const Block *block, float *values, GError **error) {
  const Parameters *parameters = trainer->parameters;
  if (block->kept.master != NULL || block->on_host.master != NULL)
    return read_floats(trainer, block->on_host.master, NUMBER_FP32, block->host_n, values, error) &&
           read_floats(trainer, block->kept.master, NUMBER_FP32, block->shard_n - block->host_n, values + block->host_n,
                       error);
  const void *weight = zero_shards_weights(block->zero)
                           ? (block->weight != NULL ? block->weight : block->host_weight)
                           : element(block->weight, block->shard_first, parameters->number);
  return read_floats(trainer, weight, parameters->number, block->shard_n, values, error);
}

static gboolean write_block(Trainer *trainer, const Block *block, int step, double scale, GByteArray *out,
                            GError **error) {
  const Parameters *parameters = trainer->parameters;
  g_autofree float *values = g_new(float, (gsize)block->shard_n + 1);
  const void *gradient = block_shards_gradient(block)
                             ? block->gradient
                             : element(block->gradient, block->shard_first, parameters->gradient_number);
  const gboolean has_gradient = step < trainer->program->n_steps;
  if (block->is_frozen)
    memset(values, 0, (gsize)block->shard_n * sizeof *values);
  if (has_gradient && !block->is_frozen &&
      !read_floats(trainer, gradient, parameters->gradient_number, block->shard_n, values, error))
    return FALSE;
  for (gint64 i = 0; i < block->shard_n && has_gradient; i++)
    values[i] = (float)(values[i] / scale);
  if (has_gradient)
    write_records(out, block, RECORD_GRADIENT, step, values);
  const gboolean has_lost = has_gradient && block->lost != NULL;
  if (has_lost && !read_floats(trainer, block->lost, parameters->gradient_number, block->shard_n, values, error))
    return FALSE;
  if (has_lost)
    write_records(out, block, RECORD_LOST, step, values);
  if (!read_weights(trainer, block, values, error))
    return FALSE;
  write_records(out, block, RECORD_WEIGHT, step, values);
  return TRUE;
}

gboolean records_write(Trainer *trainer, int step, gpointer data, GError **error) {
  double scale;
  if (!write_scale(trainer, step, data, &scale, error))
    return FALSE;
  for (int i = 0; i < trainer->parameters->n_blocks; i++) {
    const Block *block = &trainer->parameters->blocks[i];
    if (block->n > 0 && !write_block(trainer, block, step, scale, data, error))
      return FALSE;
  }
  return TRUE;
}

/* --- assembling --- */

static void whole_free(gpointer data) {
  Whole *whole = data;
  g_free(whole->values);
  g_free(whole->is_covered);
  g_free(whole);
}

static char *key_of(int kind, int step, const char *name) {
  return g_strdup_printf("%d %d %s", kind, step, name);
}

const Whole *records_find(GHashTable *wholes, int kind, int step, const char *name) {
  g_autofree char *key = key_of(kind, step, name);
  return g_hash_table_lookup(wholes, key);
}

/* Lays `n` values over a row. Returns the squared distance from what was already there. */
static double lay_row(const float *values, gint64 n, float *to, guint8 *is_covered) {
  double copies2 = 0;
  for (gint64 i = 0; i < n; i++) {
    const double difference = is_covered[i] ? (double)values[i] - to[i] : 0;
    copies2 += isfinite(difference) ? difference * difference : INFINITY;
  }
  memcpy(to, values, (gsize)n * sizeof *to);
  memset(is_covered, TRUE, (gsize)n);
  return copies2;
}

/* Adds a record to its whole matrix, which the first record creates. */
static void lay(const Record *record, const float *values, GHashTable *wholes) {
  g_autofree char *key = key_of(record->kind, record->step, record->name);
  Whole *whole = g_hash_table_lookup(wholes, key);
  if (whole == NULL) {
    whole = g_new0(Whole, 1);
    whole->n = record->whole_rows * record->whole_columns;
    whole->values = g_new0(float, (gsize)whole->n);
    whole->is_covered = g_new0(guint8, (gsize)whole->n);
    g_hash_table_insert(wholes, g_steal_pointer(&key), whole);
  }
  gint64 row = record->first_row + record->begin / record->columns, column = record->begin % record->columns;
  double copies2 = 0;
  for (gint64 i = 0; i < record->end - record->begin && row < record->whole_rows; row++) { /* below is padding */
    const gint64 n = MIN(record->columns - column, record->end - record->begin - i);
    const gint64 at = row * record->whole_columns + record->first_column + column;
    copies2 += lay_row(values + i, n, whole->values + at, whole->is_covered + at);
    i += n;
    column = 0;
  }
  whole->copies2 += copies2;
}

GHashTable *records_lay(const guint8 *bytes, gsize n) {
  GHashTable *wholes = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, whole_free);
  for (gsize at = 0; at < n;) {
    Record record;
    memcpy(&record, bytes + at, sizeof record);
    const gsize n_values = (gsize)(record.end - record.begin);
    g_autofree float *values = g_memdup2(bytes + at + sizeof record, n_values * sizeof *values);
    lay(&record, values, wholes);
    at += sizeof record + n_values * sizeof *values;
  }
  return wholes;
}

GPtrArray *records_tensor_names(const GByteArray *records) {
  GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
  for (gsize at = 0; at < records->len;) {
    Record record;
    memcpy(&record, records->data + at, sizeof record);
    if (record.kind == RECORD_GRADIENT && record.step == 0)
      g_ptr_array_add(names, g_strdup(record.name));
    at += sizeof record + (gsize)(record.end - record.begin) * sizeof(float);
  }
  return names;
}

static gboolean set_block(Trainer *trainer, const Block *block, GHashTable *wholes, int step, GError **error) {
  const Number number = block->kept.master != NULL ? NUMBER_FP32 : trainer->parameters->number;
  void *weights = block->kept.master != NULL ? block->kept.master : block->weight;
  for (int i = 0; i < block->n_tensors; i++) {
    const Tensor *tensor = &block->tensors[i];
    const Whole *whole = records_find(wholes, RECORD_WEIGHT, step, tensor->name);
    if (whole == NULL)
      continue;
    const gint64 n = MIN(whole->n, tensor->rows * tensor->columns);
    g_autofree char *values = g_malloc((gsize)n * sizeof(float) + 1);
    cpu_convert(whole->values, NUMBER_FP32, n, values, number);
    if (!staging_write(trainer->device, trainer->streams[STREAM_COMPUTE],
                       (char *)weights + tensor->offset * kernel_element_bytes(number), values,
                       n * kernel_element_bytes(number), error))
      return FALSE;
  }
  return TRUE;
}

gboolean records_set_weights(Trainer *trainer, GHashTable *wholes, int step, GError **error) {
  for (int i = 0; i < trainer->parameters->n_blocks; i++) {
    const Block *block = &trainer->parameters->blocks[i];
    g_assert(block->n_shards == 1);
    if (!set_block(trainer, block, wholes, step, error))
      return FALSE;
  }
  return TRUE;
}
