/* Sharded data is whole only where ops of the Program gather it. These functions check that what an op uses is there.
 */
#include "error.h"
#include "executor_private.h"

enum { MOST_BLOCKS = 3, MOST_KINDS = 3 };

/* The blocks that a piece reads and computes gradients of. Blocks always sharded together with one of these are left
 * out: of MTP heads, everything but the first one's experts. Returns how many. */
static int piece_blocks(const Executor *executor, const Op *op, const Work *work, const Block *blocks[MOST_BLOCKS]) {
  static const struct {
    int n;
    BlockKind kinds[MOST_KINDS];
  } of_piece[N_PIECES] = {[PIECE_EMBEDDING] = {2, {BLOCK_TABLE, BLOCK_POSITIONS}},
                          [PIECE_DENSE_LAYER] = {3, {BLOCK_LAYER, BLOCK_EXPERTS, BLOCK_ADAPTERS}},
                          [PIECE_LAYER] = {3, {BLOCK_LAYER, BLOCK_EXPERTS, BLOCK_ADAPTERS}},
                          [PIECE_HEAD] = {2, {BLOCK_OUTPUT, BLOCK_FINAL_NORM}}};
  const Parameters *parameters = executor->trainer->parameters;
  int n = 0;
  const Piece family = work->piece >= 0 ? piece_family((Piece)work->piece) : PIECE_EMBEDDING;
  for (int i = 0; work->piece >= 0 && i < of_piece[family].n; i++) {
    blocks[n] = parameters_block(parameters, op->stage, of_piece[family].kinds[i], op->unit);
    n += blocks[n] != NULL && blocks[n]->n > 0;
  }
  if (work->piece != PIECE_HEAD)
    return n;
  const int layer = parameters->workload->stages[op->stage].layers.n_layers + 1;
  blocks[n] = parameters_block(parameters, op->stage, BLOCK_EXPERTS, layer);
  return n + (blocks[n] != NULL);
}

gboolean executor_has_weights(const Executor *executor, const Op *op, const Work *work) {
  const Block *blocks[MOST_BLOCKS];
  const int n = piece_blocks(executor, op, work, blocks);
  for (int i = 0; i < n; i++)
    if (zero_shards_weights(blocks[i]->zero) && blocks[i]->gathered == NULL)
      return FALSE;
  return TRUE;
}

gboolean executor_fills_bucket(const Executor *executor, const Op *op, const Work *work) {
  const Block *blocks[MOST_BLOCKS];
  const int n = op->action == ACTION_B || op->action == ACTION_W ? piece_blocks(executor, op, work, blocks) : 0;
  for (int i = 0; i < n; i++)
    if (block_shards_gradient(blocks[i]))
      return TRUE;
  return FALSE;
}

gboolean executor_has_bucket(const Executor *executor, const Op *op, const Work *work, GError **error) {
  const Block *blocks[MOST_BLOCKS];
  const int n = piece_blocks(executor, op, work, blocks);
  for (int i = 0; i < n; i++)
    if (block_shards_gradient(blocks[i]) && blocks[i]->bucket == NULL)
      return fail_impossible(error, "the next REDUCE_GRAD of its stage does not take the gradient of %s",
                             blocks[i]->tensors[0].name);
  return TRUE;
}

gboolean executor_has_summed(const Executor *executor, const Op *op, const Transfer *transfer, GError **error) {
  g_autoptr(GPtrArray) blocks = g_ptr_array_new();
  parameters_moved(executor->trainer->parameters, op, transfer, blocks);
  for (guint i = 0; i < blocks->len; i++) {
    const Block *block = g_ptr_array_index(blocks, i);
    if (block_shards_gradient(block) && block->bucket == NULL)
      return fail_impossible(error, "nothing in front of it has made the gradient of %s, which it sums",
                             block->tensors[0].name);
  }
  return TRUE;
}
