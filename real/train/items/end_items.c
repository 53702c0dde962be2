/* Before the first layer and after the last: word and position tables, final norm, cross-entropy. The loss of a step
 * is the mean over the global batch's tokens, so every rank divides by all of them and nothing is divided later. */
#include "item_parts.h"
#include "state.h"

/* The tokens `n_behind` positions after each of the micro-batch's tokens. */
static const gint32 *tokens_behind(const ItemCall *call, int n_behind) {
  const Trainer *trainer = call->trainer;
  const gint64 micro_batch = call->step * trainer->workload->method->n_micro_batches + call->micro_batch;
  return trainer->tokens + n_behind * trainer->n_tokens + micro_batch * trainer->parameters->local.tokens;
}

static void run_embedding(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const Parameters *parameters = call->trainer->parameters;
  const gboolean is_backward = call->argument;
  const Block *block = item_block(call, BLOCK_TABLE);
  Kernel kernel = {.kind = is_backward ? KERNEL_EMBEDDING_BACKWARD : KERNEL_EMBEDDING_FORWARD,
                   .embedding = {.number = (guint8)parameters->number,
                                 .gradient = (guint8)parameters->gradient_number,
                                 .tokens = local->tokens,
                                 .width = local->model->hidden,
                                 .first_word = block->tensors[0].first_row,
                                 .n_words = local->vocab_width,
                                 .token = tokens_behind(call, call->mtp),
                                 .factor = item_factor(local->model->factors.embedding)}};
  if (is_backward) {
    kernel.embedding.dout = item_embedding_gathered(call);
    kernel.embedding.dtable = block_gradient(parameters, block, ROLE_TABLE);
  } else {
    kernel.embedding.table = block_weight(parameters, block, ROLE_TABLE);
    kernel.embedding.out = local->tp > 1 ? item_memory(call)->partial : item_embedding_output(call);
  }
  item_launch(call, &kernel);
}

/* In place; the norm's input is kept separately. */
static void run_embedding_norm(const ItemCall *call) {
  const SavedNorm kept = activations_embedding(item_memory(call), call->slot);
  Kernel kernel = {.kind = call->is_backward ? KERNEL_NORM_BACKWARD : KERNEL_NORM_FORWARD,
                   .norm = item_norm(call, item_block(call, BLOCK_POSITIONS), ROLE_NORM1, &kept)};
  if (call->is_backward)
    kernel.norm.dy = kernel.norm.dx = item_embedding_gradient(call);
  else
    kernel.norm.x = kernel.norm.y = item_embedding_output(call);
  item_launch(call, &kernel);
}

/* Rows of several documents come without sequence parallelism (trainable.c). */
static void run_positions(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const Parameters *parameters = call->trainer->parameters;
  const GArray *documents = item_documents(call);
  const gboolean is_backward = call->argument;
  const gint64 row_bytes = local->model->hidden * (gint64)local->element_bytes;
  const Block *block = item_block(call, BLOCK_POSITIONS);
  for (guint i = 0; i < documents->len; i++) {
    const Document *document = &g_array_index(documents, Document, i);
    Kernel kernel = {
        .kind = is_backward ? KERNEL_POSITIONS_BACKWARD : KERNEL_POSITIONS_FORWARD,
        .positions = {.number = (guint8)parameters->number,
                      .gradient = (guint8)parameters->gradient_number,
                      .rows = documents->len > 1 ? document->length : local->split_tokens,
                      .width = local->model->hidden,
                      .first_row = local->sequence_parallel ? parameters->at.at[AXIS_TP] * local->split_tokens : 0,
                      .seq_len = document->length,
                      .pieces = item_pieces(call)}};
    if (is_backward) {
      kernel.positions.dx = item_embedding_gathered(call) + (document->first + kernel.positions.first_row) * row_bytes;
      kernel.positions.dtable = block_gradient(parameters, block, ROLE_POSITIONS);
    } else {
      kernel.positions.table = block_weight(parameters, block, ROLE_POSITIONS);
      kernel.positions.x = item_embedding_output(call) + document->first * row_bytes;
    }
    item_launch(call, &kernel);
  }
}

static void run_final_norm(const ItemCall *call) {
  const SavedHead head = activations_head(item_memory(call), call->slot, call->mtp);
  const Block *block = item_block(call, call->mtp > 0 ? BLOCK_MTP : BLOCK_FINAL_NORM);
  Kernel kernel = {.kind = call->is_backward ? KERNEL_NORM_BACKWARD : KERNEL_NORM_FORWARD,
                   .norm = item_norm(call, block, call->mtp > 0 ? ROLE_MTP_FINAL_NORM : ROLE_NORM1, NULL)};
  kernel.norm.x = head.x;
  kernel.norm.y = head.norm;
  kernel.norm.mean = head.mean;
  kernel.norm.rstd = head.rstd;
  if (call->is_backward) {
    kernel.norm.dy = item_reduced(call);
    kernel.norm.dx = item_head_gradient(call);
  }
  item_launch(call, &kernel);
}

static double *loss_of(const ItemCall *call) {
  const Workload *workload = call->trainer->workload;
  return &call->trainer->losses[call->step * training_n_losses(workload) +
                                call->micro_batch * (1 + workload->method->mtp_layers) + call->mtp];
}

/* MTP heads have weight 0.3 together (arXiv 2412.19437 §2.2, §4.2), the model's own head 1. */
static double loss_weight(const ItemCall *call) {
  return call->mtp > 0 ? 0.3 / call->trainer->workload->method->mtp_layers : 1;
}

void item_sum_loss(const ItemCall *call) {
  call->trainer->comm->type->all_reduce_doubles(call->group, call->stream, loss_of(call), 1);
}

static void run_loss(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const Workload *workload = call->trainer->workload;
  const double tokens = workload_tokens(workload) / workload->method->islands; /* whose mean is an island's loss */
  const double scale = loss_weight(call) / tokens;
  const SavedHead head = activations_head(item_memory(call), call->slot, call->mtp);
  Kernel kernel = {.kind = (guint8)call->argument,
                   .loss = {.number = (guint8)call->trainer->parameters->number,
                            .tokens = local->tokens,
                            .width = local->vocab_width,
                            .first_word = call->trainer->parameters->at.at[AXIS_TP] * local->vocab_width,
                            .n_words = local->model->vocab,
                            .target = tokens_behind(call, call->mtp + 1),
                            .logits = head.capped != NULL ? head.capped : head.logits,
                            .row_max = head.row_max,
                            .row_sum = head.row_sum,
                            .row_target = head.row_target,
                            .probabilities = head.probabilities,
                            .loss = loss_of(call),
                            .loss_scale = scale,
                            .gradient_scale = (float)scale,
                            .scale = loss_scaling_of(call->trainer, call->step),
                            .dlogits = head.d_logits}};
  item_launch(call, &kernel);
}

/* Uses Gemma 2's cap, whatever the config says. */
static void run_logit_cap(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const SavedHead head = activations_head(item_memory(call), call->slot, call->mtp);
  Kernel kernel = {.kind = call->is_backward ? KERNEL_CAP_BACKWARD : KERNEL_CAP_FORWARD,
                   .cap = {.number = (guint8)call->trainer->parameters->number,
                           .rows = local->tokens,
                           .width = local->vocab_width,
                           .cap = item_logit_cap,
                           .x = head.logits,
                           .y = head.capped,
                           .dy = head.d_logits,
                           .dx = head.d_logits}};
  item_launch(call, &kernel);
}

const ItemKernel end_kernels[] = {
    {"embedding", run_embedding, FALSE},
    {"embedding.wgrad", run_embedding, TRUE},
    {"embedding_norm", run_embedding_norm, 0},
    {"embedding_norm.backward", run_embedding_norm, 0},
    {"positions", run_positions, FALSE},
    {"positions.wgrad", run_positions, TRUE},
    {"final_norm", run_final_norm, 0},
    {"final_norm.backward", run_final_norm, 0},
    {"logit_cap", run_logit_cap, 0},
    {"logit_cap.backward", run_logit_cap, 0},
    {"loss.max", run_loss, KERNEL_LOSS_MAX},
    {"loss.exp", run_loss, KERNEL_LOSS_EXP},
    {"loss.softmax", run_loss, KERNEL_LOSS_SOFTMAX},
    {"loss.backward", run_loss, KERNEL_LOSS_BACKWARD},
    {NULL, NULL, 0},
};
