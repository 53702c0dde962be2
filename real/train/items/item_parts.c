#include "item_parts.h"

const float item_norm_epsilon = 1e-5f;
const double item_rope_base = 10000;
const float item_logit_cap = 30; /* Gemma 2, arXiv 2408.00118 §2 */

void item_launch(const ItemCall *call, const Kernel *kernel) {
  call->stream->device->type->launch(call->stream, kernel);
}

void item_add_rows(const ItemCall *call, gint64 rows, const char *a, const char *b, const void *bias, char *out) {
  const Kernel kernel = {.kind = KERNEL_ADD,
                         .add = {.number = (guint8)item_number(call),
                                 .rows = rows,
                                 .width = item_local_sizes(call)->model->hidden,
                                 .a = a,
                                 .b = b,
                                 .bias = bias,
                                 .out = out}};
  item_launch(call, &kernel);
}

void item_add(const ItemCall *call, const char *a, const char *b, char *out) {
  item_add_rows(call, item_local_sizes(call)->split_tokens, a, b, NULL, out);
}

void item_collective(const ItemCall *call, Number number, const void *in, void *out, gint64 n) {
  const CollectiveSpec spec = {
      .collective = (Collective)call->item->collective, .number = number, .in = in, .out = out, .n = n};
  call->trainer->comm->type->collective(call->group, call->stream, &spec);
}

void item_hidden_collective(const ItemCall *call, const void *in, void *out) {
  const LocalSizes *local = item_local_sizes(call);
  item_collective(call, item_number(call), in, out, local->tokens * local->model->hidden);
}

void item_move(const ItemCall *call, Extent extent, Rows a, Rows b, Rows out) {
  Kernel kernel = {.kind = KERNEL_MOVE,
                   .move = {.number = (guint8)item_number(call),
                            .batch = extent.batch,
                            .rows = extent.rows,
                            .width = extent.width,
                            .ld_a = a.ld,
                            .ld_b = b.ld,
                            .ld_out = out.ld,
                            .stride_a = a.step,
                            .stride_b = b.step,
                            .stride_out = out.step,
                            .a = a.at,
                            .b = b.at,
                            .out = out.at}};
  item_launch(call, &kernel);
}

void item_copy(const ItemCall *call, Extent extent, Rows from, Rows to) {
  item_move(call, extent, from, (Rows){0}, to);
}

Block *item_block(const ItemCall *call, BlockKind kind) {
  return parameters_block(call->trainer->parameters, call->stage, kind, call->layer);
}

const void *item_weight(const ItemCall *call, BlockKind kind, Role role) {
  return block_weight(call->trainer->parameters, item_block(call, kind), role);
}

NormKernel item_norm(const ItemCall *call, const Block *block, Role weight, const SavedNorm *kept) {
  const LocalSizes *local = item_local_sizes(call);
  const Parameters *parameters = call->trainer->parameters;
  NormKernel norm = {.number = (guint8)parameters->number,
                     .gradient = (guint8)parameters->gradient_number,
                     .is_rms = local->model->norm == NORM_RMSNORM,
                     .rows = local->split_tokens,
                     .width = local->model->hidden,
                     .epsilon = item_norm_epsilon,
                     .weight = block_weight(parameters, block, weight),
                     .shift = block_weight(parameters, block, weight + 1)};
  if (call->is_backward) {
    norm.dweight = block_gradient(parameters, block, weight);
    norm.dshift = block_gradient(parameters, block, weight + 1);
  }
  if (kept != NULL) {
    norm.kept = kept->kept;
    norm.mean = kept->mean;
    norm.rstd = kept->rstd;
  }
  return norm;
}

float item_factor(double factor) {
  return factor > 0 ? (float)factor : 1;
}

const char *item_reduced(const ItemCall *call) {
  const Activations *activations = &call->trainer->activations;
  return call->trainer->parameters->local.tp > 1 ? activations->reduced : activations->partial;
}

char *item_output_gradient(const ItemCall *call) {
  const Trainer *trainer = call->trainer;
  const StageLayers *layers = &trainer->workload->stages[call->stage].layers;
  if (call->layer + 1 == layers->n_layers && !layers->has_head)
    return call->slot->gradient_in->memory;
  return activations_stream_gradient(&trainer->activations, call->slot, call->layer + 1);
}

char *item_branch_gradient(const ItemCall *call) {
  const Activations *activations = &call->trainer->activations;
  char *dropped = activations_gradients(activations, call->slot, call->layer).d_mlp_branch;
  return dropped != NULL ? dropped : item_output_gradient(call);
}

static gboolean is_embedding_alone(const ItemCall *call) {
  const StageLayers *layers = &call->trainer->workload->stages[call->stage].layers;
  return layers->n_layers == 0 && !layers->has_head;
}

char *item_embedding_output(const ItemCall *call) {
  if (call->mtp > 0)
    return activations_mtp(&call->trainer->activations, call->slot, call->mtp).words;
  return is_embedding_alone(call) ? call->output : activations_input(&call->trainer->activations, call->slot, 0);
}

char *item_embedding_gradient(const ItemCall *call) {
  if (call->mtp > 0)
    return call->trainer->parameters->local.sequence_parallel ? call->trainer->activations.mtp.d_words
                                                              : item_embedding_gathered(call);
  return is_embedding_alone(call) ? call->slot->gradient_in->memory
                                  : activations_stream_gradient(&call->trainer->activations, call->slot, 0);
}

char *item_embedding_gathered(const ItemCall *call) {
  const Activations *activations = &call->trainer->activations;
  if (call->mtp > 0)
    return activations_mtp_gradients(activations, call->slot, call->mtp).d_embedding;
  return call->trainer->parameters->local.sequence_parallel ? activations_embedding_gradient(activations, call->slot)
                                                            : item_embedding_gradient(call);
}

char *item_head_gradient(const ItemCall *call) {
  const int n_layers = call->trainer->workload->stages[call->stage].layers.n_layers;
  const gboolean leaves_stage = n_layers == 0 && call->mtp == 0 && call->gradient_out != NULL;
  return leaves_stage ? call->gradient_out
                      : activations_stream_gradient(&call->trainer->activations, call->slot, n_layers + 2 * call->mtp);
}

gint64 item_expert_elements(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  return 3 * local->expert_width * local->model->hidden;
}
