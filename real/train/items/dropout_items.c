/* Dropout: after the embedding, on attention probabilities if they are in memory, and on what the two residuals of a
 * layer add (layer_items.c); fused attention applies its own.
 *
 * What is dropped is determined by a seed (the run's, step, layer, place) and the element's position in the whole
 * model and batch: sequence, position and column, or sequence, head, query and key. So every plan drops the same
 * elements, and backward and recomputation drop what forward did. No masks are kept; frameworks do keep them, and
 * predictions count them. */
#include "item_parts.h"

/* Rate 0 in a model without dropout. The run's seed and the step form one number: a step's tokens do not depend on
 * it. */
static Dropout dropout_of(const ItemCall *call, Drop drop) {
  const Model *model = item_local_sizes(call)->model;
  const double rates[N_DROPS] = {[DROP_EMBEDDING] = model->dropout_rate.embedding,
                                 [DROP_PROBABILITIES] = model->dropout_rate.attention,
                                 [DROP_ATTENTION] = model->dropout_rate.hidden,
                                 [DROP_MLP] = model->dropout_rate.hidden};
  const StageLayers *layers = &call->trainer->workload->stages[call->stage].layers;
  const gint64 layer = drop == DROP_EMBEDDING ? 0 : layers->first_layer + call->layer + 1;
  const guint64 run = (call->trainer->training.seed + (guint64)call->step) * G_GUINT64_CONSTANT(0xD1342543DE82EF95),
                place = (guint64)(layer * N_DROPS + (gint64)drop);
  return (Dropout){.seed = (guint64)kernel_random(run, 2 * place) << 32 | kernel_random(run, 2 * place + 1),
                   .rate = (float)rates[drop]};
}

/* The index of this rank's first sequence among the step's, as trainer.c distributes tokens. */
static gint64 first_sequence(const ItemCall *call) {
  const Method *method = call->trainer->workload->method;
  const gint64 before = call->trainer->parameters->at.at[AXIS_DP] * method->n_micro_batches + call->micro_batch;
  return before * method->micro_batch + call->trainer->training.island * method->global_batch;
}

ScoreDropout item_score_dropout(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  return (ScoreDropout){.dropout = dropout_of(call, DROP_PROBABILITIES),
                        .first_sequence = first_sequence(call),
                        .n_heads = local->model->n_heads,
                        .first_head = call->trainer->parameters->at.at[AXIS_TP] * local->heads,
                        .length = local->method->seq_len};
}

void item_drop_add(const ItemCall *call, Drop drop, const void *a, const void *b, const void *bias, void *out) {
  const LocalSizes *local = item_local_sizes(call);
  const Parameters *parameters = call->trainer->parameters;
  Kernel kernel = {
      .kind = KERNEL_DROP_ADD,
      .drop_add = {
          .number = (guint8)parameters->number,
          .rows = local->split_tokens,
          .width = local->model->hidden,
          .dropout = dropout_of(call, drop),
          .places = {.first_row = local->sequence_parallel ? parameters->at.at[AXIS_TP] * local->split_tokens : 0,
                     .seq_len = local->seq_len,
                     .first_sequence = first_sequence(call),
                     .length = local->method->seq_len,
                     .pieces = item_pieces(call)},
          .a = a,
          .b = b,
          .bias = bias,
          .out = out}};
  item_launch(call, &kernel);
}

static void drop_scores(const ItemCall *call, const char *from, char *to) {
  const LocalSizes *local = item_local_sizes(call);
  Kernel kernel = {.kind = KERNEL_DROP_SCORES,
                   .drop_scores = {.number = (guint8)call->trainer->parameters->number,
                                   .matrices = local->sequences * local->heads,
                                   .seq_len = local->seq_len,
                                   .n_heads = local->heads,
                                   .drop = item_score_dropout(call),
                                   .from = from,
                                   .to = to}};
  item_launch(call, &kernel);
}

static void run_dropout(const ItemCall *call) {
  if (call->piece == PIECE_EMBEDDING) {
    char *out = item_embedding_output(call);
    item_drop_add(call, DROP_EMBEDDING, NULL, out, NULL, out);
    return;
  }
  const SavedLayer saved = item_saved(call);
  drop_scores(call, saved.scores, saved.dropped);
}

/* In a layer: if hidden states are dropped, the second residual's and, unless it is the same one, the first's; then
 * attention's. */
static void run_dropout_backward(const ItemCall *call) {
  if (call->piece == PIECE_EMBEDDING) {
    char *gradient = item_embedding_gradient(call);
    item_drop_add(call, DROP_EMBEDDING, NULL, gradient, NULL, gradient);
    return;
  }
  const LayerGradients gradients = item_gradients(call);
  const Model *model = item_local_sizes(call)->model;
  const int n_hidden = model->dropout_rate.hidden == 0 ? 0 : model->parallel_block ? 1 : 2;
  if (call->occurrence >= n_hidden)
    drop_scores(call, item_memory(call)->d_scores, item_memory(call)->d_scores);
  else if (call->occurrence == 0)
    item_drop_add(call, DROP_MLP, NULL, item_output_gradient(call), NULL, gradients.d_mlp_branch);
  else
    item_drop_add(call, DROP_ATTENTION, NULL, gradients.d_x2, NULL, gradients.d_attention_branch);
}

const ItemKernel dropout_kernels[] = {
    {"dropout", run_dropout, 0},
    {"dropout.backward", run_dropout_backward, 0},
    {NULL, NULL, 0},
};
