/* Attention where each rank has two pieces of every sequence, with PyTorch's ring: implements the items that
 * context_blocks.c lists. Pieces, blocks and visibility are those of context_items.c. A block has K and V of as many
 * heads as Q, | k₀ … k_{n−1} | v₀ … v_{n−1} |; all ranks' blocks are gathered at once, and step k uses rank
 * (c − k)'s.
 *
 *     forward    a block's output in `part`, merged into the fp32 sum of all, `wide`
 *     backward   a block's dQ in `part`, added to `wide`; its dK and dV in d_kv[0], added to wide_kv[0], which is
 *                sent on from wide_kv[1]: the next rank has the same block next, so each gets home after cp steps */
#include "context_rows.h"

static gint64 block_width(const Cut *cut) {
  return cut->q_width + cut->out_width;
}

static gint64 block_elements(const Cut *cut) {
  return cut->tokens * block_width(cut);
}

/* A cp rank's block among all blocks. */
static char *block_of(const ItemCall *call, gint64 rank) {
  const Cut *cut = item_cut(call);
  return context_element(cut, scratch(call)->kv[0], rank * block_elements(cut));
}

static gint64 rank_of_step(const ItemCall *call, gint64 step) {
  const gint64 cp = item_cut(call)->cp;
  return (own_rank(call) - step + cp) % cp;
}

/* Whether kv_repeat is an item of its own in the list. */
static gboolean is_repeated(const Cut *cut) {
  return cut->kv_width + cut->v_width < 2 * cut->q_width;
}

/* --- heads of grouped queries --- */

/* Q heads per K head. */
static gint64 n_shared(const Cut *cut) {
  return cut->heads / (cut->kv_width / cut->model->head_dim);
}

/* Rows of K or V heads and of one of the query heads that share each: a token is a batch, a head a row. */
typedef struct {
  Extent extent;
  Rows own, block;
} SharedHeads;

static SharedHeads shared_heads(const ItemCall *call, gboolean of_v, gint64 which, Rows own, char *block) {
  const Cut *cut = item_cut(call);
  const gint64 dim = of_v ? model_v_head_dim(cut->model) : cut->model->head_dim;
  const gint64 shared = n_shared(cut);
  return (SharedHeads){
      {cut->tokens, cut->heads / shared, dim},
      {context_element(cut, own.at, of_v ? cut->kv_width : 0), dim, own.ld},
      {context_element(cut, block, (of_v ? cut->q_width : 0) + which * dim), shared * dim, block_width(cut)},
  };
}

static void repeat_heads(const ItemCall *call, char *block) {
  const Cut *cut = item_cut(call);
  const Rows own = context_tokens(cut, item_saved(call).qkv, context_qkv_width(cut), 0, cut->q_width);
  for (int of_v = 0; of_v < 2; of_v++)
    for (gint64 which = 0; which < n_shared(cut); which++) {
      const SharedHeads heads = shared_heads(call, of_v, which, own, block);
      item_copy(call, heads.extent, heads.own, heads.block);
    }
}

/* Sums the gradients of the query heads that share a key head. */
static void sum_heads(const ItemCall *call, char *block) {
  const Cut *cut = item_cut(call);
  const Rows none = {0}, own = context_own_dkv(call);
  for (int of_v = 0; of_v < 2; of_v++)
    for (gint64 which = 0; which < n_shared(cut); which++) {
      const SharedHeads heads = shared_heads(call, of_v, which, own, block);
      item_move(call, heads.extent, heads.block, which > 0 ? heads.own : none, heads.own);
    }
}

static void run_repeat(const ItemCall *call) {
  if (call->is_backward)
    sum_heads(call, scratch(call)->d_kv[0]);
  else
    repeat_heads(call, scratch(call)->kv[1]);
}

static void run_pack(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  char *own = block_of(call, own_rank(call));
  if (call->is_backward || !is_repeated(cut)) {
    repeat_heads(call, own);
    return;
  }
  const Extent extent = {1, cut->tokens, block_width(cut)};
  item_copy(call, extent, (Rows){scratch(call)->kv[1], extent.width, 0}, (Rows){own, extent.width, 0});
}

/* --- sums in fp32 --- */

static void convert(const ItemCall *call, ConvertKernel task) {
  item_launch(call, &(Kernel){.kind = KERNEL_CONVERT, .convert = task});
}

static void widen(const ItemCall *call, const char *from, float *to, gint64 n) {
  convert(call,
          (ConvertKernel){
              .from_number = (guint8)item_number(call), .to_number = NUMBER_FP32, .n = n, .from = from, .to = to});
}

static void narrow(const ItemCall *call, const float *from, char *to, gint64 n) {
  convert(call,
          (ConvertKernel){
              .from_number = NUMBER_FP32, .to_number = (guint8)item_number(call), .n = n, .from = from, .to = to});
}

/* Adds rows from `first` on of every sequence. */
static void add_rows(const ItemCall *call, const char *part, gint64 width, gint64 first, gint64 rows, float *sum) {
  const Cut *cut = item_cut(call);
  for (gint64 sequence = 0; sequence < cut->sequences; sequence++) {
    const gint64 at = (sequence * cut->seq_len + first) * width;
    convert(call, (ConvertKernel){.from_number = (guint8)item_number(call),
                                  .to_number = NUMBER_FP32,
                                  .accumulate = TRUE,
                                  .n = rows * width,
                                  .from = context_element(cut, part, at),
                                  .to = sum + at});
  }
}

/* --- forward --- */

/* Sets the task's keys and values to a rank's block, all heads. */
static void look_at_block(const ItemCall *call, ContextView view, gint64 rank, FlashKernel *task) {
  const Cut *cut = item_cut(call);
  const char *block = block_of(call, rank);
  context_look_at(call, view, block, task);
  task->v = context_element(cut, block, cut->q_width);
  task->block.ld_kv = block_width(cut);
  task->n_kv_heads = task->n_heads;
}

static void run_forward(const ItemCall *call) {
  const gint64 rank = rank_of_step(call, call->occurrence);
  FlashKernel task = item_flash(call, FALSE);
  if (call->occurrence > 0) {
    task.o = scratch(call)->part;
    task.lse = scratch(call)->part_lse;
  }
  look_at_block(call, context_view(call, rank), rank, &task);
  context_launch(call, &task);
}

static void run_merge(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const ContextView view = context_view(call, rank_of_step(call, call->occurrence + 1));
  const gint64 first = view.first_query * cut->out_width;
  Kernel kernel = {.kind = KERNEL_MERGE,
                   .merge = {.number = (guint8)item_number(call),
                             .sum = NUMBER_FP32,
                             .sequences = cut->sequences,
                             .seq_len = cut->seq_len,
                             .queries = view.queries,
                             .n_heads = cut->heads,
                             .head_dim = model_v_head_dim(cut->model),
                             .o = scratch(call)->wide + first,
                             .lse = item_saved(call).lse + view.first_query,
                             .other = context_element(cut, scratch(call)->part, first),
                             .other_lse = scratch(call)->part_lse + view.first_query}};
  item_launch(call, &kernel);
}

static void widen_out(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  widen(call, item_saved(call).attention, scratch(call)->wide, cut->tokens * cut->out_width);
}

static void narrow_out(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  narrow(call, scratch(call)->wide, item_saved(call).attention, cut->tokens * cut->out_width);
}

/* --- backward --- */

static void clear_sums(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const gint64 n[] = {cut->tokens * cut->q_width, block_elements(cut)};
  float *const sums[] = {scratch(call)->wide, scratch(call)->wide_kv[0]};
  for (int i = 0; i < 2; i++) {
    Kernel zero = {.kind = KERNEL_FILL, .fill = {.bytes = n[i] * (gint64)sizeof(float), .to = sums[i]}};
    item_launch(call, &zero);
  }
}

static void run_backward(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const gint64 rank = rank_of_step(call, call->occurrence);
  const ContextView view = context_view(call, rank);
  FlashKernel task = item_flash(call, TRUE);
  look_at_block(call, view, rank, &task);
  task.d_o = context_element(cut, task.d_o, view.first_query * task.ld_o);
  task.dq = context_element(cut, scratch(call)->part, view.first_query * cut->q_width);
  task.dk = scratch(call)->d_kv[0];
  task.dv = context_element(cut, task.dk, cut->q_width);
  task.block.ld_dq = cut->q_width;
  task.block.ld_dkv = block_width(cut);
  context_launch(call, &task);
}

static void sum_dkv(const ItemCall *call) {
  const ContextView view = context_view(call, rank_of_step(call, call->occurrence));
  add_rows(call, scratch(call)->d_kv[0], block_width(item_cut(call)), 0, view.keys, scratch(call)->wide_kv[0]);
}

static void pack_dkv(const ItemCall *call) {
  const ContextScratch *context = scratch(call);
  convert(call, (ConvertKernel){.from_number = NUMBER_FP32,
                                .to_number = NUMBER_FP32,
                                .n = block_elements(item_cut(call)),
                                .from = context->wide_kv[0],
                                .to = context->wide_kv[1]});
}

static void sum_dq(const ItemCall *call) {
  const ContextView view = context_view(call, rank_of_step(call, call->occurrence));
  add_rows(call, scratch(call)->part, item_cut(call)->q_width, view.first_query, view.queries, scratch(call)->wide);
}

static void narrow_dq(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  char *part = scratch(call)->part;
  narrow(call, scratch(call)->wide, part, cut->tokens * cut->q_width);
  item_copy(call, (Extent){cut->sequences, cut->seq_len, cut->q_width}, context_tokens(cut, part, cut->q_width, 0, 0),
            context_own_dq(call, 0));
}

static void narrow_dkv(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  char *block = scratch(call)->d_kv[0];
  narrow(call, scratch(call)->wide_kv[0], block, block_elements(cut));
  if (!is_repeated(cut))
    sum_heads(call, block);
}

void ring_of_blocks_exchange(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const ContextScratch *context = scratch(call);
  if ((Collective)call->item->collective == COLLECTIVE_SEND_RECV)
    context_exchange(call, COLLECTIVE_SEND_RECV, NUMBER_FP32, (const char *)context->wide_kv[1],
                     (char *)context->wide_kv[0], block_elements(cut));
  else
    context_exchange(call, COLLECTIVE_ALL_GATHER, item_number(call), block_of(call, own_rank(call)), context->kv[0],
                     cut->cp * block_elements(cut));
}

const ItemKernel ring_of_blocks_kernels[] = {
    {"attention.kv_repeat", run_repeat, 0},  {"attention.kv_pack", run_pack, 0},
    {"attention", run_forward, 0},           {"attention.out_widen", widen_out, 0},
    {"attention.merge", run_merge, 0},       {"attention.out_narrow", narrow_out, 0},
    {"attention.clear", clear_sums, 0},      {"attention.backward", run_backward, 0},
    {"attention.dkv_sum", sum_dkv, 0},       {"attention.dkv_pack", pack_dkv, 0},
    {"attention.dq_sum", sum_dq, 0},         {"attention.dq_narrow", narrow_dq, 0},
    {"attention.dkv_narrow", narrow_dkv, 0}, {NULL, NULL, 0},
};
