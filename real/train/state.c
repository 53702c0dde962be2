/* What data parallelism and the optimizer do to blocks. A collective of the Program moves several blocks: one library
 * call per block, issued as one batch.
 *
 *     ZeRO-0     gradient [n] all-reduced in place
 *     ZeRO-1     gradient [n] reduce-scattered in place: this rank's shard is complete; weights gathered in place
 *     ZeRO-2, 3  bucket [n] reduce-scattered in place, its shard added to the gradient [shard_n]
 *     ZeRO-3     weights [shard_n] gathered into a buffer, into which they are copied first if they are on the host
 *
 * Experts are sharded and replicated over other ranks, so they have their own collectives. Under ZeRO-2, 3 a backward
 * puts their gradients into the same bucket.
 *
 * Under a framework that sums whole gradients, ZeRO-1 reduces as ZeRO-0. A framework that sums in another number
 * format than it holds gradients in has them converted to a buffer and back.
 *
 * ZeRO-2, 3 with separate I and W: the gradients of norms, which I computes, accumulate outside the buckets, and the
 * next bucket of their block includes them. The global norm counts every parameter once: what all tp ranks hold on tp
 * rank 0, a tied matrix on the first stage, a stage with two copies in the first pipe. */
#include "state.h"

#include "compressed_buckets.h"
#include "staging.h"

#include <string.h>

static void launch(DeviceStream *stream, Kernel kernel) {
  stream->device->type->launch(stream, &kernel);
}

static char *at(void *base, gint64 element, Number number) {
  return (char *)base + element * kernel_element_bytes(number);
}

static GPtrArray *moved_blocks(const Trainer *trainer, const Op *op, const Transfer *transfer) {
  GPtrArray *blocks = g_ptr_array_new();
  parameters_moved(trainer->parameters, op, transfer, blocks);
  return blocks;
}

static gint64 elements_of(const GPtrArray *blocks) {
  gint64 n = 0;
  for (guint i = 0; i < blocks->len; i++)
    n += ((const Block *)g_ptr_array_index(blocks, i))->n;
  return n;
}

gint64 state_moved_bytes(const Trainer *trainer, const Op *op, const Transfer *transfer, int element_bytes) {
  g_autoptr(GPtrArray) moved = moved_blocks(trainer, op, transfer), bucket = g_ptr_array_new();
  if (op->action == ACTION_REDUCE_GRAD)
    parameters_bucket(trainer->parameters, op, transfer, bucket);
  return MAX(elements_of(moved), elements_of(bucket)) * element_bytes;
}

/* --- gathers ------------------------------------------------------------------------------------------------------ */

/* Where a block of a gather is placed: one after the other in the buffer, except a shared matrix, which has its own
 * place. */
static char *gathered_place(const Trainer *trainer, const Block *block, char *buffer, gint64 *offset) {
  if (block == parameters_shared_table(trainer->parameters))
    return trainer->shared_gathered;
  char *place = at(buffer, *offset, trainer->parameters->number);
  *offset += block->n;
  return place;
}

void state_use_gathered(Trainer *trainer, const Op *op, const Transfer *transfer, char *buffer) {
  g_autoptr(GPtrArray) blocks = moved_blocks(trainer, op, transfer);
  gint64 offset = 0;
  for (guint i = 0; i < blocks->len; i++) {
    Block *block = g_ptr_array_index(blocks, i);
    block->gathered = gathered_place(trainer, block, buffer, &offset);
  }
}

void state_fetch(Trainer *trainer, const Op *gather, const Transfer *transfer, DeviceStream *stream, char *buffer) {
  const Number number = trainer->parameters->number;
  g_autoptr(GPtrArray) blocks = moved_blocks(trainer, gather, transfer);
  gint64 offset = 0;
  for (guint i = 0; i < blocks->len; i++) {
    const Block *block = g_ptr_array_index(blocks, i);
    char *place = gathered_place(trainer, block, buffer, &offset);
    stream->device->type->copy(stream, at(place, block->shard_first, number), block->host_weight,
                               block->shard_n * kernel_element_bytes(number));
  }
}

void state_unshard(Trainer *trainer, const Op *op, const Transfer *transfer, CommGroup *group, DeviceStream *stream,
                   char *buffer) {
  const Parameters *parameters = trainer->parameters;
  const Number number = parameters->number;
  g_autoptr(GPtrArray) blocks = moved_blocks(trainer, op, transfer);
  const CommType *comm = trainer->comm->type;
  gint64 offset = 0;
  comm->batch_begin(trainer->comm);
  for (guint i = 0; i < blocks->len; i++) {
    const Block *block = g_ptr_array_index(blocks, i);
    const gboolean is_sharded = zero_shards_weights(block->zero);
    char *out = is_sharded ? gathered_place(trainer, block, buffer, &offset) : block->weight;
    const gboolean is_in_place = !is_sharded || block->weight == NULL; /* fetched there before */
    const char *in = is_in_place ? at(out, block->shard_first, number) : block->weight;
    const CollectiveSpec spec = {
        .collective = COLLECTIVE_ALL_GATHER, .number = number, .in = in, .out = out, .n = block->n};
    comm->collective(group, stream, &spec);
  }
  comm->batch_end(trainer->comm);
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

static void fill_zero(DeviceStream *stream, char *to, gint64 n, Number number) {
  launch(stream, (Kernel){.kind = KERNEL_FILL, .fill = {.bytes = n * kernel_element_bytes(number), .to = to}});
}

static void add_gradients(DeviceStream *stream, const char *from, char *to, gint64 n, Number number) {
  launch(stream, (Kernel){.kind = KERNEL_CONVERT,
                          .convert = {.from_number = (guint8)number,
                                      .to_number = (guint8)number,
                                      .accumulate = TRUE,
                                      .n = n,
                                      .from = from,
                                      .to = to}});
}

void state_use_early(Trainer *trainer, const Op *op) {
  const Parameters *parameters = trainer->parameters;
  for (int i = parameters->first_of_stage[op->stage]; i < parameters->n_blocks; i++)
    if (parameters->blocks[i].stage == op->stage && parameters->blocks[i].early != NULL)
      parameters->blocks[i].bucket = parameters->blocks[i].early;
}

/* Opens the buffer that is not being reduced. The Program makes each bucket wait for the last but one reduction. */
static void open_shared(Trainer *trainer, DeviceStream *stream) {
  Block *shared = parameters_shared_table(trainer->parameters);
  if (shared == NULL || !block_shards_gradient(shared) || trainer->is_shared_open)
    return;
  shared->bucket = trainer->shared_gradients[trainer->n_shared_opened++ % 2];
  trainer->is_shared_open = TRUE;
  fill_zero(stream, shared->bucket, shared->n, trainer->parameters->gradient_number);
}

void state_open_bucket(Trainer *trainer, const Op *op, const Transfer *transfer, int which, gboolean is_new,
                       DeviceStream *stream) {
  const Number number = trainer->parameters->gradient_number;
  g_autoptr(GPtrArray) blocks = g_ptr_array_new();
  parameters_bucket(trainer->parameters, op, transfer, blocks);
  const Block *shared = parameters_shared_table(trainer->parameters);
  open_shared(trainer, stream);
  gint64 offset = 0;
  for (guint i = 0; i < blocks->len; i++) {
    Block *block = g_ptr_array_index(blocks, i);
    if (block == shared)
      continue;
    block->bucket = at(trainer->buckets[which], offset, number);
    offset += block->n;
  }
  if (is_new)
    fill_zero(stream, trainer->buckets[which], offset, number);
  for (guint i = 0; i < blocks->len; i++) {
    const Block *block = g_ptr_array_index(blocks, i);
    if (block->early == NULL)
      continue;
    add_gradients(stream, block->early, block->bucket, block->n_norms, number);
    fill_zero(stream, block->early, block->n_norms, number);
  }
}

/* The whole unreduced gradient. */
static char *unreduced(const Block *block) {
  return block_shards_gradient(block) ? block->bucket : block->gradient;
}

/* A range of elements of a block's unreduced gradient. */
typedef struct {
  gint64 first, n;
} Range;

/* The elements that a reduction takes as input, or (`is_after`) leaves summed. */
static Range summed(const Trainer *trainer, const Transfer *transfer, const Block *block, gboolean is_after) {
  const gboolean scatters = transfer->collective == COLLECTIVE_REDUCE_SCATTER;
  const gboolean is_whole =
      !block_shards_gradient(block) && trainer->workload->method->time.gradients == GRADIENTS_WHOLE && !scatters;
  return is_whole || (scatters && !is_after) ? (Range){0, block->n} : (Range){block->shard_first, block->shard_n};
}

/* Converts gradients to the buffer where they are summed, or back, block after block. */
static void convert_sums(const Trainer *trainer, const Transfer *transfer, const GPtrArray *blocks, gboolean is_after,
                         DeviceStream *stream) {
  const Number held = trainer->parameters->gradient_number, sum = trainer->sum_number;
  gint64 offset = 0;
  for (guint i = 0; i < blocks->len && trainer->sums != NULL; i++) {
    const Block *block = g_ptr_array_index(blocks, i);
    const Range range = summed(trainer, transfer, block, is_after);
    char *own = at(unreduced(block), range.first, held);
    char *place = at(trainer->sums, offset + range.first, sum);
    launch(stream, (Kernel){.kind = KERNEL_CONVERT,
                            .convert = {.from_number = (guint8)(is_after ? sum : held),
                                        .to_number = (guint8)(is_after ? held : sum),
                                        .n = range.n,
                                        .from = is_after ? place : own,
                                        .to = is_after ? own : place}});
    offset += block->n;
  }
}

/* Sums all blocks as one batch. */
static void sum_blocks(const Trainer *trainer, const Transfer *transfer, const GPtrArray *blocks, CommGroup *group,
                       DeviceStream *stream) {
  const CommType *comm = trainer->comm->type;
  const Number number = trainer->sum_number;
  gint64 offset = 0;
  comm->batch_begin(trainer->comm);
  for (guint i = 0; i < blocks->len; i++) {
    const Block *block = g_ptr_array_index(blocks, i);
    const Range in = summed(trainer, transfer, block, FALSE), out = summed(trainer, transfer, block, TRUE);
    char *base = trainer->sums != NULL ? at(trainer->sums, offset, number) : unreduced(block);
    const CollectiveSpec spec = {.collective = (Collective)transfer->collective,
                                 .number = number,
                                 .in = at(base, in.first, number),
                                 .out = at(base, out.first, number),
                                 .n = in.n};
    comm->collective(group, stream, &spec);
    offset += block->n;
  }
  comm->batch_end(trainer->comm);
}

void state_reduce(Trainer *trainer, const Op *op, const Transfer *transfer, CommGroup *group, DeviceStream *stream,
                  gboolean is_last) {
  const Parameters *parameters = trainer->parameters;
  const Number number = parameters->gradient_number;
  g_autoptr(GPtrArray) blocks = moved_blocks(trainer, op, transfer);
  if (trainer->compressed != NULL) {
    compressed_buckets_sum(trainer, op, blocks, group, stream);
    return;
  }
  convert_sums(trainer, transfer, blocks, FALSE, stream);
  sum_blocks(trainer, transfer, blocks, group, stream);
  convert_sums(trainer, transfer, blocks, TRUE, stream);
  for (guint i = 0; i < blocks->len && is_last; i++) {
    const Block *block = g_ptr_array_index(blocks, i);
    if (!block_shards_gradient(block))
      continue;
    add_gradients(stream, at(block->bucket, block->shard_first, number), block->gradient, block->shard_n, number);
    if (block == parameters_shared_table(parameters))
      trainer->is_shared_open = FALSE;
  }
}

/* This rank's shard of a block's gradient. */
static char *own_gradient(const Parameters *parameters, const Block *block) {
  return block_shards_gradient(block) ? block->gradient
                                      : at(block->gradient, block->shard_first, parameters->gradient_number);
}

/* Sums `n` elements of gradients over the group. */
static void sum_in_place(const Trainer *trainer, char *gradient, gint64 n, CommGroup *group, DeviceStream *stream) {
  const CollectiveSpec spec = {.collective = COLLECTIVE_ALL_REDUCE,
                               .number = trainer->parameters->gradient_number,
                               .in = gradient,
                               .out = gradient,
                               .n = n};
  trainer->comm->type->collective(group, stream, &spec);
}

/* Whether it is a word table, or the head's matrix if that is tied. */
static gboolean is_tied(const Trainer *trainer, const Block *block) {
  return block->kind == BLOCK_TABLE || (block->kind == BLOCK_OUTPUT && trainer->workload->model->tied);
}

static void sum_tied(Trainer *trainer, CommGroup *group, DeviceStream *stream) {
  const Parameters *parameters = trainer->parameters;
  for (int i = 0; i < parameters->n_blocks; i++) {
    const Block *block = &parameters->blocks[i];
    if (!is_tied(trainer, block))
      continue;
    sum_in_place(trainer, own_gradient(parameters, block), block->shard_n, group, stream);
  }
}

/* A sum after that over dp, done to what that has lost, too, if it is kept. */
static gboolean keeps_lost(const Trainer *trainer) {
  const Parameters *parameters = trainer->parameters;
  for (int i = 0; i < parameters->n_blocks && trainer->compressed != NULL; i++)
    if (parameters->blocks[i].lost != NULL)
      return TRUE;
  return FALSE;
}

void state_tied_gradient(Trainer *trainer, CommGroup *group, DeviceStream *stream) {
  sum_tied(trainer, group, stream);
  if (!keeps_lost(trainer))
    return;
  compressed_buckets_swap_lost(trainer);
  sum_tied(trainer, group, stream);
  compressed_buckets_swap_lost(trainer);
}

static void sum_copied(Trainer *trainer, int stage, CommGroup *group, DeviceStream *stream) {
  const Parameters *parameters = trainer->parameters;
  const CommType *comm = trainer->comm->type;
  comm->batch_begin(trainer->comm);
  for (int i = parameters->first_of_stage[stage]; i < parameters->n_blocks; i++) {
    const Block *block = &parameters->blocks[i];
    if (block->stage != stage || block->n == 0 || block->is_frozen)
      continue;
    sum_in_place(trainer, own_gradient(parameters, block), block->shard_n, group, stream);
  }
  comm->batch_end(trainer->comm);
}

void state_copied_gradient(Trainer *trainer, int stage, CommGroup *group, DeviceStream *stream) {
  sum_copied(trainer, stage, group, stream);
  if (!keeps_lost(trainer))
    return;
  compressed_buckets_swap_lost(trainer);
  sum_copied(trainer, stage, group, stream);
  compressed_buckets_swap_lost(trainer);
}

/* Of these, the ones whose gradients tp ranks have computed parts of. */
static Range summed_in_shard(const Block *block) {
  const gint64 first = CLAMP(block->first_summed - block->shard_first, 0, block->shard_n);
  const gint64 end = CLAMP(block->first_summed + block->n_summed - block->shard_first, 0, block->shard_n);
  return (Range){first, end - first};
}

/* Copies between the blocks' gradients and the packed buffer. Returns the number of elements. */
static gint64 pack_whole(Trainer *trainer, DeviceStream *stream, gboolean out_again) {
  const Parameters *parameters = trainer->parameters;
  const Number number = parameters->gradient_number;
  gint64 n = 0;
  for (int i = 0; i < parameters->n_blocks; i++) {
    const Block *block = &parameters->blocks[i];
    const Range range = summed_in_shard(block);
    if (range.n == 0)
      continue;
    char *packed = at(trainer->pack, n, number), *own = at(own_gradient(parameters, block), range.first, number);
    stream->device->type->copy(stream, out_again ? own : packed, out_again ? packed : own,
                               range.n * kernel_element_bytes(number));
    n += range.n;
  }
  return n;
}

static void sum_whole(Trainer *trainer, CommGroup *group, DeviceStream *stream) {
  const gint64 n = pack_whole(trainer, stream, FALSE);
  sum_in_place(trainer, trainer->pack, n, group, stream);
  pack_whole(trainer, stream, TRUE);
}

void state_whole_gradients(Trainer *trainer, CommGroup *group, DeviceStream *stream) {
  sum_whole(trainer, group, stream);
  if (!keeps_lost(trainer))
    return;
  compressed_buckets_swap_lost(trainer);
  sum_whole(trainer, group, stream);
  compressed_buckets_swap_lost(trainer);
}

/* --- gradients sent to an optimizer on the host ------------------------------------------------------------------- */

static void copy_out(const Trainer *trainer, const Block *block, Range own, DeviceStream *stream) {
  const Number number = trainer->parameters->gradient_number;
  own.n = MIN(own.n, block->host_n - own.first);
  if (own.n <= 0)
    return;
  stream->device->type->copy(stream, at(block->host_gradient, own.first, number),
                             at(own_gradient(trainer->parameters, block), own.first, number),
                             own.n * kernel_element_bytes(number));
}

void state_gradients_out(const Trainer *trainer, const GPtrArray *blocks, DeviceStream *stream) {
  for (guint i = 0; i < blocks->len; i++) {
    const Block *block = g_ptr_array_index(blocks, i);
    copy_out(trainer, block, (Range){0, block->shard_n}, stream);
  }
}

void state_late_gradients_out(const Trainer *trainer, ActionKind sum, int stage, DeviceStream *stream) {
  const Parameters *parameters = trainer->parameters;
  for (int i = 0; i < parameters->n_blocks; i++) {
    const Block *block = &parameters->blocks[i];
    const gboolean is_summed = sum == ACTION_TIED_GRAD   ? is_tied(trainer, block)
                               : sum == ACTION_COPY_GRAD ? block->stage == stage
                                                         : TRUE;
    if (is_summed)
      copy_out(trainer, block, sum == ACTION_WHOLE_GRAD ? summed_in_shard(block) : (Range){0, block->shard_n}, stream);
  }
}

void state_zero_gradients(const Trainer *trainer, DeviceStream *stream) {
  const Parameters *parameters = trainer->parameters;
  for (int i = 0; i < parameters->n_blocks; i++) {
    const Block *block = &parameters->blocks[i];
    if (block_gradient_n(block) > 0)
      fill_zero(stream, block->gradient, block_gradient_n(block), parameters->gradient_number);
  }
}

/* --- optimizer ---------------------------------------------------------------------------------------------------- */

static void add_squares(const Trainer *trainer, const Block *block, double *sum, DeviceStream *stream) {
  const Parameters *parameters = trainer->parameters;
  const gint64 skipped =
      parameters->at.at[AXIS_TP] == 0 ? 0 : CLAMP(block->n_whole - block->shard_first, 0, block->shard_n);
  if (block->is_frozen || parameters_is_copy(parameters, block) || skipped == block->shard_n)
    return;
  launch(stream,
         (Kernel){.kind = KERNEL_SUM_SQUARES,
                  .sum_squares = {.gradient = (guint8)parameters->gradient_number,
                                  .n = block->shard_n - skipped,
                                  .x = at(own_gradient(parameters, block), skipped, parameters->gradient_number),
                                  .sum = sum}});
}

void state_norm(Trainer *trainer, int step, CommGroup *group, DeviceStream *stream) {
  double *own = &trainer->norms[2 * step], *all = own + 1;
  for (int i = 0; i < trainer->parameters->n_blocks; i++)
    add_squares(trainer, &trainer->parameters->blocks[i], own, stream);
  stream->device->type->copy(stream, all, own, sizeof *own);
  if (group != NULL)
    trainer->comm->type->all_reduce_doubles(group, stream, all, 1);
}

AdamKernel state_adam(const Trainer *trainer, const Block *block, int step) {
  const Parameters *parameters = trainer->parameters;
  const Training *training = &trainer->training;
  char *weight =
      zero_shards_weights(block->zero) ? block->weight : at(block->weight, block->shard_first, parameters->number);
  const gint64 first = block->host_n;
  double power1 = 1, power2 = 1;
  for (int i = 0; i <= step; i++) {
    power1 *= training->beta1;
    power2 *= training->beta2;
  }
  return (AdamKernel){.number = (guint8)parameters->number,
                      .gradient = (guint8)parameters->gradient_number,
                      .n = block->shard_n - first,
                      .weight = weight != NULL ? at(weight, first, parameters->number) : NULL,
                      .master = block->kept.master,
                      .gradients = at(own_gradient(parameters, block), first, parameters->gradient_number),
                      .m = block->kept.m,
                      .v = block->kept.v,
                      .norm_squared = state_clips(trainer->workload->method) ? &trainer->norms[2 * step + 1] : NULL,
                      .scale = loss_scaling_of(trainer, step),
                      .max_norm = (float)training->max_norm,
                      .lr = (float)training->lr,
                      .beta1 = (float)training->beta1,
                      .beta2 = (float)training->beta2,
                      .epsilon = (float)training->epsilon,
                      .decay = (float)training->decay,
                      .correction1 = (float)(1 - power1),
                      .correction2 = (float)(1 - power2)};
}

/* ZeRO-1: the gradients of other ranks' shards start from zero in the next step. */
static void zero_others(const Parameters *parameters, const Block *block, DeviceStream *stream) {
  const Number number = parameters->gradient_number;
  const gint64 after = block->shard_first + block->shard_n;
  if (block->shard_first > 0)
    fill_zero(stream, block->gradient, block->shard_first, number);
  if (after < block->n)
    fill_zero(stream, at(block->gradient, after, number), block->n - after, number);
}

void state_optimizer(Trainer *trainer, int step, DeviceStream *stream) {
  const Parameters *parameters = trainer->parameters;
  for (int i = 0; i < parameters->n_blocks; i++) {
    const Block *block = &parameters->blocks[i];
    if (block->n == 0 || block->is_frozen)
      continue;
    if (block->host_n < block->shard_n)
      launch(stream, (Kernel){.kind = KERNEL_ADAM, .adam = state_adam(trainer, block, step)});
    if (block->zero == 1 && trainer->n_updates == 0)
      zero_others(parameters, block, stream);
  }
  if (trainer->n_updates == 0) /* else the host's update ends the step, which begins with all gradients zeroed */
    loss_scaling_advance(trainer, step, stream);
}

/* --- parameter servers --- */

/* Of each block of the transfer, in place: `whole` it, `n` elements. */
static void move_blocks(Trainer *trainer, const Op *op, const Transfer *transfer, Collective collective,
                        CommGroup *group, DeviceStream *stream) {
  const Parameters *parameters = trainer->parameters;
  const gboolean is_push = collective == COLLECTIVE_REDUCE_SCATTER;
  const Number number = is_push ? parameters->gradient_number : parameters->number;
  g_autoptr(GPtrArray) blocks = moved_blocks(trainer, op, transfer);
  const CommType *comm = trainer->comm->type;
  comm->batch_begin(trainer->comm);
  for (guint i = 0; i < blocks->len; i++) {
    const Block *block = g_ptr_array_index(blocks, i);
    char *whole = is_push ? block->gradient : block->weight, *part = at(whole, block->shard_first, number);
    const CollectiveSpec spec = {.collective = collective,
                                 .number = number,
                                 .in = is_push ? whole : part,
                                 .out = is_push ? part : whole,
                                 .n = block->n};
    comm->collective(group, stream, &spec);
  }
  comm->batch_end(trainer->comm);
}

void state_push(Trainer *trainer, const Op *op, const Transfer *transfer, CommGroup *group, DeviceStream *stream) {
  move_blocks(trainer, op, transfer, COLLECTIVE_REDUCE_SCATTER, group, stream);
}

void state_pull(Trainer *trainer, const Op *op, const Transfer *transfer, CommGroup *group, DeviceStream *stream) {
  move_blocks(trainer, op, transfer, COLLECTIVE_ALL_GATHER, group, stream);
}

void state_serve(Trainer *trainer, const Op *op, const Transfer *transfer, DeviceStream *stream) {
  g_autoptr(GPtrArray) blocks = moved_blocks(trainer, op, transfer);
  for (guint i = 0; i < blocks->len; i++) {
    const Block *block = g_ptr_array_index(blocks, i);
    launch(stream, (Kernel){.kind = KERNEL_ADAM, .adam = state_adam(trainer, block, op->step)});
    zero_others(trainer->parameters, block, stream);
  }
}

/* --- outer steps --- */

static void launch_outer(const Trainer *trainer, const Block *block, gboolean is_before, DeviceStream *stream) {
  const Parameters *parameters = trainer->parameters;
  const OuterStep *outer = &trainer->workload->method->outer;
  char *weight =
      zero_shards_weights(block->zero) ? block->weight : at(block->weight, block->shard_first, parameters->number);
  launch(stream, (Kernel){.kind = KERNEL_OUTER,
                          .outer = {.number = (guint8)parameters->number,
                                    .is_before = is_before != FALSE,
                                    .n = block->shard_n,
                                    .weight = weight,
                                    .master = block->kept.master,
                                    .anchor = block->anchor,
                                    .m = block->outer_m,
                                    .sum = block->outer_sum,
                                    .share = 1.0f / (float)trainer->workload->method->islands,
                                    .lr = (float)outer->lr,
                                    .factor = (float)outer->momentum}});
}

static gboolean is_trained(const Block *block) {
  return block->n > 0 && !block->is_frozen;
}

void state_outer_sum(Trainer *trainer, CommGroup *group, DeviceStream *stream) {
  const Parameters *parameters = trainer->parameters;
  const CommType *comm = trainer->comm->type;
  for (int i = 0; i < parameters->n_blocks; i++)
    if (is_trained(&parameters->blocks[i]))
      launch_outer(trainer, &parameters->blocks[i], TRUE, stream);
  comm->batch_begin(trainer->comm);
  for (int i = 0; i < parameters->n_blocks; i++) {
    const Block *block = &parameters->blocks[i];
    const CollectiveSpec spec = {.collective = COLLECTIVE_ALL_REDUCE,
                                 .number = NUMBER_FP32,
                                 .in = block->outer_sum,
                                 .out = block->outer_sum,
                                 .n = block->shard_n};
    if (is_trained(block))
      comm->collective(group, stream, &spec);
  }
  comm->batch_end(trainer->comm);
}

void state_outer_step(Trainer *trainer, DeviceStream *stream) {
  const Parameters *parameters = trainer->parameters;
  for (int i = 0; i < parameters->n_blocks; i++)
    if (is_trained(&parameters->blocks[i]))
      launch_outer(trainer, &parameters->blocks[i], FALSE, stream);
}

/* --- loss scale --- */

gboolean loss_scaling_init(Trainer *trainer, GError **error) {
  const Training *training = &trainer->training;
  if (trainer->parameters->number != NUMBER_FP16)
    return TRUE;
  const gsize n = (gsize)trainer->program->n_steps + 1;
  g_autofree LossScale *scales = g_new0(LossScale, n);
  scales[0] = (LossScale){.scale = training->loss_scale,
                          .window = training->loss_scale_window,
                          .power1 = training->beta1,
                          .power2 = training->beta2};
  return staging_upload(trainer->device, trainer->streams[STREAM_COMPUTE], scales, (gint64)(n * sizeof *scales),
                        (void **)&trainer->scales, error);
}

const LossScale *loss_scaling_of(const Trainer *trainer, int step) {
  return trainer->scales != NULL ? &trainer->scales[step] : NULL;
}

void loss_scaling_advance(const Trainer *trainer, int step, DeviceStream *stream) {
  if (trainer->scales == NULL)
    return;
  const Kernel kernel = {.kind = KERNEL_LOSS_SCALE,
                         .loss_scale = {.from = &trainer->scales[step],
                                        .norm_squared = &trainer->norms[2 * step + 1],
                                        .beta1 = trainer->training.beta1,
                                        .beta2 = trainer->training.beta2,
                                        .to = &trainer->scales[step + 1]}};
  stream->device->type->launch(stream, &kernel);
}

gboolean loss_scaling_skipped(const LossScale *scales, int step) {
  return scales[step + 1].n_skipped > scales[step].n_skipped;
}
