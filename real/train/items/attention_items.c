/* Attention between the QKV product and the output product. Rows of qkv hold this rank's heads side by side:
 *
 *     | q₀ … q_{n−1} | k₀ … k_{g−1} | v₀ … v_{g−1} |        n query heads read g key heads, n/g each
 *
 * QK norms run in place, before the rotation.
 *
 * Fused attention takes the heads as they are. The unfused products are batched over key heads: one batch per
 * sequence and per each of the n/g query heads that share a key head; results per key head (dK, dV) accumulate. */
#include "dense_product.h"
#include "item_parts.h"

#include <math.h>

/* Index of the call's layer in the model, from 0. */
static gint64 layer_of(const ItemCall *call) {
  return call->trainer->workload->stages[call->stage].layers.first_layer + call->layer;
}

static float scale_of(const ItemCall *call) {
  const Model *model = item_local_sizes(call)->model;
  const ModelFactors *factors = &model->factors;
  const float scale = factors->scores > 0 ? (float)factors->scores : 1 / sqrtf((float)model->head_dim);
  return factors->by_layer ? scale / (float)(layer_of(call) + 1) : scale;
}

static char *qkv_column(const LocalSizes *local, char *qkv, gint64 first) {
  return qkv + first * (gint64)local->element_bytes;
}

/* Advances the weight pointers by n elements. */
static void norm_move_weights(NormKernel *norm, gint64 n) {
  const gint64 bytes = n * kernel_element_bytes((Number)norm->number),
               gradient_bytes = n * kernel_element_bytes((Number)norm->gradient);
  norm->weight = (const char *)norm->weight + bytes;
  norm->shift = norm->shift != NULL ? (const char *)norm->shift + bytes : NULL;
  norm->dweight = norm->dweight != NULL ? (char *)norm->dweight + gradient_bytes : NULL;
  norm->dshift = norm->dshift != NULL ? (char *)norm->dshift + gradient_bytes : NULL;
}

/* The columns of q or k that one norm covers, on this rank. */
typedef struct {
  gint64 first, width, n_rows; /* first column in a row; columns, of one head or all; rows of all tokens */
  gint64 n_own;                /* groups of such columns, side by side, with weights of their own */
} NormedColumns;

static NormedColumns normed_columns(const LocalSizes *local, gboolean of_k) {
  const gint64 width = of_k ? local->kv_width : local->q_width, d = local->model->head_dim, heads = width / d;
  NormedColumns columns = {.first = of_k ? local->q_width : 0, .width = width, .n_rows = local->tokens, .n_own = 1};
  if (local->model->qk_norms == QK_NORMS_WHOLE)
    return columns;
  columns.width = d;
  if (local->model->qk_norms == QK_NORMS_OWN)
    columns.n_own = heads;
  else
    columns.n_rows *= heads;
  return columns;
}

/* The norm of the i-th group with its own weights. In place; the product's output is kept separately. The block has a
 * whole norm's weights for all ranks' columns, and so it has those of each head. */
static NormKernel qk_norm(const ItemCall *call, gboolean of_k, gint64 i) {
  const LocalSizes *local = item_local_sizes(call);
  const NormedColumns columns = normed_columns(local, of_k);
  const SavedLayer saved = item_saved(call);
  SavedNorm kept = of_k ? saved.k_norm : saved.q_norm;
  kept.kept += i * columns.n_rows * columns.width * (gint64)local->element_bytes;
  kept.mean += kept.mean != NULL ? i * columns.n_rows : 0;
  kept.rstd += i * columns.n_rows;
  const Block *block = item_block(call, BLOCK_LAYER);
  NormKernel norm = item_norm(call, block, of_k ? ROLE_K_NORM : ROLE_Q_NORM, &kept);
  norm.rows = columns.n_rows;
  norm.width = columns.width;
  norm.per_line = columns.n_rows / local->tokens;
  norm.ld = local_qkv_width(local);
  if (local->model->qk_norms != QK_NORMS_HEADS) {
    const gint64 first = call->trainer->parameters->at.at[AXIS_TP] * columns.n_own + i;
    norm_move_weights(&norm, first * columns.width);
  }
  if (local->model->qk_norms == QK_NORMS_WHOLE && local->tp > 1) {
    norm.whole_width = local->tp * columns.width;
    norm.sums[0] = item_memory(call)->qk_sums + (of_k ? local->tokens : 0);
    norm.sums[1] = norm.sums[0] + 2 * local->tokens;
  }
  const gint64 at = columns.first + i * columns.width;
  if (call->is_backward)
    norm.dy = norm.dx = qkv_column(local, item_gradients(call).d_qkv, at);
  else
    norm.x = norm.y = qkv_column(local, saved.qkv, at);
  return norm;
}

static void run_qk_norm(const ItemCall *call) {
  const gboolean of_k = call->argument;
  for (gint64 i = 0; i < normed_columns(item_local_sizes(call), of_k).n_own; i++) {
    const Kernel kernel = {.kind = call->is_backward ? KERNEL_NORM_BACKWARD : KERNEL_NORM_FORWARD,
                           .norm = qk_norm(call, of_k, i)};
    item_launch(call, &kernel);
  }
}

/* First q's, then k's. */
static void run_qk_norm_sums(const ItemCall *call) {
  for (int of_k = 0; of_k < 2; of_k++) {
    const Kernel kernel = {.kind = call->is_backward ? KERNEL_NORM_SUMS_BACKWARD : KERNEL_NORM_SUMS,
                           .norm = qk_norm(call, of_k, 0)};
    item_launch(call, &kernel);
  }
}

void item_rope(const ItemCall *call, gint64 n_heads, gint64 dim, gint64 ld, char *x) {
  const LocalSizes *local = item_local_sizes(call);
  for (guint i = 0; i < item_documents(call)->len; i++) {
    const Document *document = &g_array_index(item_documents(call), Document, i);
    const Kernel kernel = {.kind = KERNEL_ROPE,
                           .rope = {.number = (guint8)item_number(call),
                                    .inverse = call->argument != 0,
                                    .rows = document->length * document->sequences,
                                    .seq_len = document->length,
                                    .n_heads = n_heads,
                                    .head_dim = dim,
                                    .head_stride = local->model->head_dim,
                                    .ld = ld,
                                    .base = item_rope_base,
                                    .pieces = item_pieces(call),
                                    .x = x + document->first * ld * (gint64)local->element_bytes}};
    item_launch(call, &kernel);
  }
}

static void run_rope(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  item_rope(call, (local->q_width + local->kv_width) / local->model->head_dim, local->model->head_dim,
            local_qkv_width(local), call->argument ? item_gradients(call).d_qkv : item_saved(call).qkv);
}

/* The window of the call's layer; layers may differ. */
static gint64 window_of(const ItemCall *call) {
  const Model *model = item_local_sizes(call)->model;
  const gint64 layer = layer_of(call);
  const gboolean is_whole =
      model->windowed_layers != NULL && layer < model->n_layers && model->windowed_layers[layer] == '0';
  return is_whole ? 0 : model_window(model, item_local_sizes(call)->method->seq_len);
}

/* For this rank's heads, over whole sequences. */
static ScoreRule score_rule(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const Model *model = local->model;
  ScoreRule rule = {.window = window_of(call)};
  if (model->positions == POSITIONS_ALIBI) {
    rule.alibi_heads = model->n_heads;
    rule.first_head = call->trainer->parameters->at.at[AXIS_TP] * local->heads;
  }
  return rule;
}

/* In latent attention W does not read dK and dV, so they go to scratch. */
static void place_gradients(const ItemCall *call, FlashKernel *task) {
  const LocalSizes *local = item_local_sizes(call);
  const LayerGradients gradients = item_gradients(call);
  task->d_o = item_memory(call)->d_attention;
  task->dq = gradients.d_qkv;
  task->dk = qkv_column(local, gradients.d_qkv, local->q_width);
  if (local->model->latent.kv_rank > 0) {
    task->dq = gradients.d_q;
    task->dk = item_memory(call)->latent.d_kv;
    task->ld_dq = local->q_width;
    task->ld_dkv = local->kv_width + local->v_width;
  }
  task->dv = qkv_column(local, task->dk, local->kv_width);
}

FlashKernel item_flash(const ItemCall *call, gboolean is_backward) {
  const LocalSizes *local = item_local_sizes(call);
  const SavedLayer saved = item_saved(call);
  const gint64 k = local->q_width, v = local->q_width + local->kv_width;
  FlashKernel task = {.number = (guint8)call->trainer->parameters->number,
                      .sequences = local->sequences,
                      .seq_len = local->seq_len,
                      .n_heads = local->heads,
                      .n_kv_heads = local->kv_width / local->model->head_dim,
                      .head_dim = local->model->head_dim,
                      .v_head_dim = model_v_head_dim(local->model),
                      .scale = scale_of(call),
                      .rule = score_rule(call),
                      .drop = item_score_dropout(call),
                      .ld_qkv = local_qkv_width(local),
                      .ld_dq = local_qkv_width(local),
                      .ld_dkv = local_qkv_width(local),
                      .ld_o = local->out_width,
                      .q = saved.qkv,
                      .k = qkv_column(local, saved.qkv, k),
                      .v = qkv_column(local, saved.qkv, v),
                      .o = saved.attention,
                      .lse = saved.lse};
  if (is_backward)
    place_gradients(call, &task);
  return task;
}

/* Narrows a task to one document. */
static void look_at_document(const ItemCall *call, const Document *document, FlashKernel *task) {
  const LocalSizes *local = item_local_sizes(call);
  const gint64 first = document->first;
  task->sequences = document->sequences;
  task->seq_len = document->length;
  task->q = qkv_column(local, (char *)task->q, first * task->ld_qkv);
  task->k = qkv_column(local, (char *)task->k, first * task->ld_qkv);
  task->v = qkv_column(local, (char *)task->v, first * task->ld_qkv);
  task->o = qkv_column(local, task->o, first * task->ld_o);
  task->lse += first * task->n_heads;
  if (task->d_o == NULL)
    return;
  task->d_o = qkv_column(local, (char *)task->d_o, first * task->ld_o);
  task->dq = qkv_column(local, task->dq, first * task->ld_dq);
  task->dk = qkv_column(local, task->dk, first * task->ld_dkv);
  task->dv = qkv_column(local, task->dv, first * task->ld_dkv);
}

static void run_flash(const ItemCall *call) {
  const gboolean is_backward = call->argument;
  for (guint i = 0; i < item_documents(call)->len; i++) {
    Kernel kernel = {.kind = is_backward ? KERNEL_FLASH_BACKWARD : KERNEL_FLASH_FORWARD,
                     .flash = item_flash(call, is_backward)};
    look_at_document(call, &g_array_index(item_documents(call), Document, i), &kernel.flash);
    item_launch(call, &kernel);
  }
}

/* --- unfused ------------------------------------------------------------------------------------------------------ */

/* Matrices of one kind: s rows with leading dimension ld. */
typedef struct {
  char *base;
  gint64 ld;
  gint64 of_sequence; /* elements from one sequence's to the next */
  gint64 of_key_head; /* from one key head's to the next */
  gint64 of_query;    /* from one query head's to the next, among those sharing a key head; 0: one per key head */
} Operand;

/* Columns of T × ld rows, `width` of them per head. */
static Operand heads_at(const LocalSizes *local, char *base, gint64 ld, gint64 width, gboolean is_query) {
  const gint64 shared = local->q_width / local->kv_width;
  return (Operand){base, ld, local->seq_len * ld, is_query ? shared * width : width, is_query ? width : 0};
}

static Operand scores_at(const LocalSizes *local, char *base) {
  const gint64 s = local->seq_len, shared = local->q_width / local->kv_width;
  return (Operand){base, s, local->heads * s * s, shared * s * s, s * s};
}

static char *operand_at(const LocalSizes *local, const Operand *operand, gint64 sequence, gint64 query) {
  return operand->base + (sequence * operand->of_sequence + query * operand->of_query) * (gint64)local->element_bytes;
}

/* C = A·B for all heads. If C belongs to a key head, it is summed over the query heads that share it. */
static void products(const ItemCall *call, Operand a, Operand b, Operand c) {
  const LocalSizes *local = item_local_sizes(call);
  const gint64 shared = local->q_width / local->kv_width, key_heads = local->heads / shared;
  for (gint64 sequence = 0; sequence < local->sequences; sequence++)
    for (gint64 query = 0; query < shared; query++) {
      Kernel kernel = {.kind = KERNEL_MATMUL, .matmul = dense_product(call->item)};
      MatmulKernel *product = &kernel.matmul;
      product->accumulate = query > 0 && c.of_query == 0;
      product->batch = key_heads;
      product->lda = a.ld, product->stride_a = a.of_key_head;
      product->ldb = b.ld, product->stride_b = b.of_key_head;
      product->ldc = c.ld, product->stride_c = c.of_key_head;
      product->a = operand_at(local, &a, sequence, query);
      product->b = operand_at(local, &b, sequence, query);
      product->c = operand_at(local, &c, sequence, query);
      item_launch(call, &kernel);
    }
}

typedef enum { SCORES, CONTEXT, CONTEXT_DV, CONTEXT_DP, SCORES_DQ, SCORES_DK } Product;
enum { Q, K, V, O, D_O, DQ, DK, DV, P, S, DP };
static const guint8 operands[][3] = {
    [SCORES] = {Q, K, S},        [CONTEXT] = {P, V, O},     [CONTEXT_DV] = {P, D_O, DV},
    [CONTEXT_DP] = {D_O, V, DP}, [SCORES_DQ] = {DP, K, DQ}, [SCORES_DK] = {DP, Q, DK}};

/* Runs one of the unfused products, on fused attention's operands. */
static void run_product(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const SavedLayer saved = item_saved(call);
  const FlashKernel task = item_flash(call, call->is_backward);
  const gint64 d = task.head_dim, of_v = task.v_head_dim;
  const Operand all[] = {[Q] = heads_at(local, (char *)task.q, task.ld_qkv, d, TRUE),
                         [K] = heads_at(local, (char *)task.k, task.ld_qkv, d, FALSE),
                         [V] = heads_at(local, (char *)task.v, task.ld_qkv, of_v, FALSE),
                         [O] = heads_at(local, task.o, task.ld_o, of_v, TRUE),
                         [D_O] = heads_at(local, (char *)task.d_o, task.ld_o, of_v, TRUE),
                         [DQ] = heads_at(local, task.dq, task.ld_dq, d, TRUE),
                         [DK] = heads_at(local, task.dk, task.ld_dkv, d, FALSE),
                         [DV] = heads_at(local, task.dv, task.ld_dkv, of_v, FALSE),
                         [P] = scores_at(local, saved.dropped != NULL ? saved.dropped : saved.scores),
                         [S] = scores_at(local, saved.scores),
                         [DP] = scores_at(local, item_memory(call)->d_scores)};
  const guint8 *of = operands[call->argument];
  products(call, all[of[0]], all[of[1]], all[of[2]]);
}

static void run_softmax(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  Kernel kernel = {.kind = call->argument ? KERNEL_SOFTMAX_BACKWARD : KERNEL_SOFTMAX_FORWARD,
                   .softmax = {.number = (guint8)call->trainer->parameters->number,
                               .matrices = local->sequences * local->heads,
                               .seq_len = local->seq_len,
                               .scale = scale_of(call),
                               .n_heads = local->heads,
                               .rule = score_rule(call),
                               .scores = item_saved(call).scores,
                               .dscores = item_memory(call)->d_scores}};
  item_launch(call, &kernel);
}

const ItemKernel attention_kernels[] = {
    {"qk_norm.sums", run_qk_norm_sums, 0},
    {"qk_norm.sums.backward", run_qk_norm_sums, 0},
    {"q_norm", run_qk_norm, FALSE},
    {"k_norm", run_qk_norm, TRUE},
    {"q_norm.backward", run_qk_norm, FALSE},
    {"k_norm.backward", run_qk_norm, TRUE},
    {"rope", run_rope, FALSE},
    {"rope.backward", run_rope, TRUE},
    {"attention", run_flash, FALSE},
    {"attention.backward", run_flash, TRUE},
    {"scores", run_product, SCORES},
    {"softmax", run_softmax, FALSE},
    {"context", run_product, CONTEXT},
    {"context.dv", run_product, CONTEXT_DV},
    {"context.dp", run_product, CONTEXT_DP},
    {"softmax.backward", run_softmax, TRUE},
    {"scores.dq", run_product, SCORES_DQ},
    {"scores.dk", run_product, SCORES_DK},
    {NULL, NULL, 0},
};
