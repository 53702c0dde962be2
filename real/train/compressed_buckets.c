#include "compressed_buckets.h"

#include <string.h>

#include "error.h"
#include "grad_compressor.h"
#include "lowering.h"

/* Elements of a bucket that are none of a tensor. */
typedef struct {
  gint64 first, n;
} Range;

typedef struct Bucket Bucket;
typedef struct {
  Bucket *bucket;
  int part;
} PartTask;

struct Bucket {
  GradCompressor *compressor; /* owned */
  GArray *padding;            /* of Range; owned */
  PartTask *tasks;            /* [parts]; owned */
  gint64 n;                   /* elements */
};

static void bucket_free(gpointer data) {
  Bucket *bucket = data;
  grad_compressor_free(bucket->compressor);
  g_array_unref(bucket->padding);
  g_free(bucket->tasks);
  g_free(bucket);
}

/* By stage and first layer, and by its transfer, which says how many layers and ends there are, or that it is of
 * experts. */
static gpointer key_of(const Op *op) {
  enum { MOST_UNITS = 1 << 20, MOST_TRANSFERS = 1 << 20 };
  const gsize place = (gsize)op->stage * MOST_UNITS + (gsize)op->unit;
  g_assert(op->unit < MOST_UNITS && op->work < MOST_TRANSFERS);
  return GSIZE_TO_POINTER(place * MOST_TRANSFERS + (gsize)op->work + 1);
}

/* --- what is in it --- */

/* Rows that follow in one product are one matrix. */
static gboolean continues(Role before, Role role) {
  return (before == ROLE_Q && role == ROLE_K) || (before == ROLE_K && role == ROLE_V) ||
         (before == ROLE_GATE && role == ROLE_UP) || (before == ROLE_EXPERT_GATE && role == ROLE_EXPERT_UP);
}

static void add_matrices(const Block *block, gint64 offset, GArray *matrices) {
  for (int i = 0; i < block->n_tensors; i++) {
    const Tensor *tensor = &block->tensors[i], *before = i > 0 ? tensor - 1 : tensor;
    if (tensor->rows < 2 || tensor->columns < 2)
      continue;
    const gboolean follows = before != tensor && continues((Role)before->role, (Role)tensor->role) &&
                             before->columns == tensor->columns &&
                             before->offset + before->rows * before->columns == tensor->offset;
    if (follows) {
      g_array_index(matrices, GradMatrix, matrices->len - 1).rows += tensor->rows;
      continue;
    }
    const GradMatrix matrix = {offset + tensor->offset, tensor->rows, tensor->columns};
    g_array_append_val(matrices, matrix);
  }
}

static void add_range(GArray *ranges, gint64 first, gint64 end) {
  const Range range = {first, end - first};
  if (range.n > 0)
    g_array_append_val(ranges, range);
}

static void add_padding(const Block *block, gint64 offset, GArray *padding) {
  gint64 end = 0;
  for (int i = 0; i < block->n_tensors; i++) {
    const Tensor *tensor = &block->tensors[i];
    const gint64 rows = CLAMP(tensor->whole_rows - tensor->first_row, 0, tensor->rows);
    add_range(padding, offset + end, offset + tensor->offset);
    end = tensor->offset + rows * tensor->columns;
  }
  add_range(padding, offset + end, offset + block->n);
}

static Bucket *bucket_new(const Trainer *trainer, const Op *op, const Transfer *transfer, const TrainerPlace *place) {
  const Layout *layout = &trainer->workload->layout;
  const AxisSet axes = g_array_index(trainer->program->groups, Group, transfer->group).axes;
  const int n_ranks = layout_group_size(layout, axes);
  g_autofree int *members = g_new(int, n_ranks);
  int own = 0;
  layout_group_members(layout, axes, place->rank, members);
  while (members[own] != place->rank)
    own++;
  g_autoptr(GPtrArray) blocks = g_ptr_array_new();
  g_autoptr(GArray) matrices = g_array_new(FALSE, FALSE, sizeof(GradMatrix));
  Bucket *bucket = g_new0(Bucket, 1);
  bucket->padding = g_array_new(FALSE, FALSE, sizeof(Range));
  parameters_moved(trainer->parameters, op, transfer, blocks);
  gint64 n = 0;
  for (guint i = 0; i < blocks->len; i++) {
    const Block *block = g_ptr_array_index(blocks, i);
    add_matrices(block, n, matrices);
    add_padding(block, n, bucket->padding);
    n += block->n;
  }
  bucket->n = n;
  bucket->compressor =
      grad_compressor_new(&trainer->workload->method->compression, n, matrices, n_ranks, own, place->says_lost);
  const int n_parts = grad_compressor_n_parts(bucket->compressor);
  bucket->tasks = g_new(PartTask, n_parts);
  for (int part = 0; part < n_parts; part++)
    bucket->tasks[part] = (PartTask){bucket, part};
  return bucket;
}

static gboolean keep_lost(Trainer *trainer, GError **error) {
  Parameters *parameters = trainer->parameters;
  for (int i = 0; i < parameters->n_blocks; i++) {
    Block *block = &parameters->blocks[i];
    if (block->n == 0 || block->is_frozen)
      continue;
    block->lost = trainer->device->type->allocate(trainer->device,
                                                  block->n * kernel_element_bytes(parameters->gradient_number), error);
    if (block->lost == NULL)
      return FALSE;
  }
  return TRUE;
}

gboolean compressed_buckets_init(Trainer *trainer, const TrainerPlace *place, GError **error) {
  const GradCompression *how = &trainer->workload->method->compression;
  const gboolean computes = trainer->device->type != &null_device;
  if (!compression_is_lossy(how) || trainer->workload->method->data_ranks == 1 || !computes)
    return TRUE;
  if (!trainer->device->type->is_host_memory)
    return fail_impossible(error,
                           "--compress-grad %s cannot be run on device %s (stepsim simulate predicts it): gradients "
                           "are compressed on CPU ranks alone, expected --device cpu",
                           grad_compression_text(how), trainer->device->type->name);
  trainer->compressed = g_hash_table_new_full(NULL, NULL, NULL, bucket_free);
  const OpList *list =
      &trainer->program->ranks[layout_coordinates(&trainer->workload->layout, place->rank).at[AXIS_PP]];
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->action != ACTION_REDUCE_GRAD)
      continue;
    const Transfer *transfer = &g_array_index(trainer->program->transfers, Transfer, op->work);
    if (!g_hash_table_contains(trainer->compressed, key_of(op)))
      g_hash_table_insert(trainer->compressed, key_of(op), bucket_new(trainer, op, transfer, place));
  }
  return !place->says_lost || keep_lost(trainer, error);
}

/* --- summing --- */

static gboolean run_part(gpointer data, GError **error) {
  const PartTask *task = data;
  GradCompressor *compressor = task->bucket->compressor;
  grad_compressor_run(compressor, task->part);
  const GArray *padding = task->bucket->padding;
  for (guint i = 0; i < padding->len && task->part + 1 == grad_compressor_n_parts(compressor); i++) {
    const Range *range = &g_array_index(padding, Range, i);
    memset(grad_compressor_values(compressor) + range->first, 0, (gsize)range->n * sizeof(float));
  }
  return TRUE;
}

static void convert(DeviceStream *stream, Number from_number, const void *from, Number to_number, void *to, gint64 n) {
  const Kernel kernel = {
      .kind = KERNEL_CONVERT,
      .convert = {.from_number = (guint8)from_number, .to_number = (guint8)to_number, .n = n, .from = from, .to = to}};
  stream->device->type->launch(stream, &kernel);
}

void compressed_buckets_sum(Trainer *trainer, const Op *op, const GPtrArray *blocks, CommGroup *group,
                            DeviceStream *stream) {
  const Bucket *bucket = g_hash_table_lookup(trainer->compressed, key_of(op));
  const Number number = trainer->parameters->gradient_number;
  GradCompressor *compressor = bucket->compressor;
  float *values = grad_compressor_values(compressor), *lost = grad_compressor_lost(compressor);
  gint64 n = 0;
  for (guint i = 0; i < blocks->len; i++) {
    const Block *block = g_ptr_array_index(blocks, i);
    convert(stream, number, block->gradient, NUMBER_FP32, values + n, block->n);
    n += block->n;
  }
  g_assert(n == bucket->n);
  for (int part = 0; part < grad_compressor_n_parts(compressor); part++) {
    CollectiveSpec spec;
    stream->device->type->host_task(stream, run_part, &bucket->tasks[part]);
    if (grad_compressor_call(compressor, part, &spec))
      trainer->comm->type->collective(group, stream, &spec);
  }
  if (lost != NULL) {
    const CollectiveSpec spec = {
        .collective = COLLECTIVE_ALL_REDUCE, .number = NUMBER_FP32, .in = lost, .out = lost, .n = n};
    trainer->comm->type->collective(group, stream, &spec);
  }
  n = 0;
  for (guint i = 0; i < blocks->len; i++) {
    const Block *block = g_ptr_array_index(blocks, i);
    convert(stream, NUMBER_FP32, values + n, number, block->gradient, block->n);
    if (lost != NULL)
      convert(stream, NUMBER_FP32, lost + n, number, block->lost, block->n);
    n += block->n;
  }
}

void compressed_buckets_swap_lost(Trainer *trainer) {
  for (int i = 0; i < trainer->parameters->n_blocks; i++) {
    Block *block = &trainer->parameters->blocks[i];
    void *gradient = block->gradient;
    if (block->lost == NULL)
      continue;
    block->gradient = block->lost;
    block->lost = gradient;
  }
}
