/* Four pieces, four phases, built once per plan; stages are counts of pieces.
 *
 *     stage 0               stage 1        …     stage n−1
 *     [embedding] layer×a   layer×b              layer×z [head]          dense layers of a model with experts first
 *
 * Heads that predict further tokens need the embedding's matrix on their rank: it is copied there with the head's
 * parameters, unless the rank has it already.
 *
 * A tied vocabulary matrix is held on both end stages if they are on different pipeline ranks, and once otherwise, as
 * on the ranks where a V, or two pipes, begin and end. */
#include "balance.h"
#include "pieces.h"
#include "pipeline_layout.h"

#include <math.h>

static void count_pieces(const StageLayers *layers, int counts[N_PIECES]) {
  counts[PIECE_EMBEDDING] = layers->has_embedding != 0;
  count_layers(layers->n_layers, layers->n_dense, &layers->others, counts);
  counts[PIECE_HEAD] = layers->has_head != 0;
}

/* --- what is trained --- */

gboolean workload_trains_table(const Workload *workload, Piece piece) {
  return piece == PIECE_HEAD ? logits_train(workload->model, workload->method)
                             : piece_trains(workload->method, PIECE_EMBEDDING);
}

static gint64 trained_of(const Workload *workload, const LocalSizes *local, Piece piece, gboolean of_experts) {
  const gint64 all = of_experts ? workload->expert_parameters[piece] : workload->piece_parameters[piece];
  if (!piece_trains(workload->method, piece))
    return 0;
  if (piece_is_layer(piece) && workload->method->training.rank > 0)
    return local_adapter_parameters(local, piece_family(piece), TRUE, FALSE) +
           (of_experts ? 0 : local_adapter_parameters(local, piece_family(piece), FALSE, FALSE));
  const gboolean has_table = piece == PIECE_HEAD && !of_experts;
  return has_table && !logits_train(local->model, local->method) ? all - local_vocab_parameters(local) : all;
}

/* Frozen ones in the format that the recipe has for those of layers' products, or in which they are computed with. */
static double frozen_bytes(const Workload *workload, const LocalSizes *local, Piece piece, gboolean of_experts) {
  const Recipe *recipe = &workload->method->recipe;
  const gint64 of_products = of_experts              ? local_expert_parameters(local, piece_family(piece))
                             : piece_is_layer(piece) ? local_linear_parameters(local, piece_family(piece))
                                                     : 0;
  const gint64 frozen = (of_experts ? workload->expert_parameters[piece] : workload->piece_parameters[piece]) -
                        trained_of(workload, local, piece, of_experts);
  const gint64 narrow = MIN(frozen, of_products);
  return recipe->frozen > 0 ? recipe->frozen * (double)narrow + local->element_bytes * (double)(frozen - narrow)
                            : recipe->weights * (double)frozen;
}

/* Adapters are parameters of their layers. */
static void settle_training(Workload *workload, const LocalSizes *local) {
  const gboolean is_adapted = workload->method->training.rank > 0;
  for (Piece piece = 0; piece < N_PIECES; piece++) {
    if (is_adapted && piece_is_layer(piece) && !piece_is_frozen(piece)) {
      const gint64 of_experts = local_adapter_parameters(local, piece_family(piece), TRUE, FALSE);
      workload->expert_parameters[piece] += of_experts;
      workload->piece_parameters[piece] +=
          of_experts + local_adapter_parameters(local, piece_family(piece), FALSE, FALSE);
    }
    workload->trained[piece] = trained_of(workload, local, piece, FALSE);
    workload->trained_experts[piece] = trained_of(workload, local, piece, TRUE);
    workload->weight_bytes[piece] = workload->method->recipe.weights * (double)workload->trained[piece] +
                                    frozen_bytes(workload, local, piece, FALSE);
    workload->expert_weight_bytes[piece] = workload->method->recipe.weights * (double)workload->trained_experts[piece] +
                                           frozen_bytes(workload, local, piece, TRUE);
  }
}

/* Of a piece's trained parameters those whose gradients tp sums. */
static gint64 tp_summed_of(const Workload *workload, const LocalSizes *local, Piece piece) {
  if (!piece_trains(workload->method, piece))
    return 0;
  if (piece_is_layer(piece) && workload->method->training.rank > 0)
    return local_adapter_parameters(local, piece_family(piece), FALSE, TRUE) +
           local_adapter_parameters(local, piece_family(piece), TRUE, TRUE);
  return local_tp_summed_parameters(local, piece_family(piece));
}

/* --- kinds of layers ---
 *
 *     uniform, n = 3   first · · | first · · | first ·     first: kept input, all three made again at once; the others
 *                                                         are APART
 *     block, n = 3     again again again | kept …         kept: APART
 *     every, n = 3     kept kept again | kept kept again | …
 *
 * A uniform group's layers are listed one by one, each made again right before its backward: the same kernels in
 * another order. */

static gboolean has_apart(const Method *method) {
  return method->recompute == RECOMPUTE_FULL && (method->recomputes == RECOMPUTE_BLOCK || method->recompute_layers > 1);
}

/* Of the i-th layer of a stage, from 0. */
static gboolean is_apart(const Method *method, int i) {
  const int n = method->recompute_layers;
  switch (method->recomputes) {
  case RECOMPUTE_FULL:
    return i % n != 0;
  case RECOMPUTE_BLOCK:
    return i >= n;
  default:
    return (i + 1) % n != 0;
  }
}

static void count_others(const Workload *workload, StageLayers *layers) {
  const gboolean has_others = has_apart(workload->method) || workload->method->training.frozen_layers > 0;
  for (int i = 0; i < layers->n_layers && has_others; i++) {
    const gboolean is_dense = model_dense_layers(workload->model, layers->first_layer + i, 1) > 0;
    const gboolean is_frozen = layers->first_layer + i < workload->method->training.frozen_layers;
    const Piece piece =
        piece_of_layer(is_dense, is_frozen, has_apart(workload->method) && is_apart(workload->method, i));
    layers->others.n[piece] += piece != piece_family(piece);
  }
}

/* Whether some layer may be of this kind. */
static gboolean is_used(const Workload *workload, Piece piece) {
  return (!piece_is_frozen(piece) || workload->method->training.frozen_layers > 0) &&
         (!piece_is_apart(piece) || has_apart(workload->method)) &&
         (!piece_is_dense(piece) || model_has_experts(workload->model));
}

/* `tp_summed`: local_tp_summed_parameters() of each piece. */
static void sum_parameters(const Workload *workload, const gint64 tp_summed[N_PIECES], StageWork *stage) {
  int counts[N_PIECES];
  count_pieces(&stage->layers, counts);
  for (Piece piece = 0; piece < N_PIECES; piece++) {
    stage->parameters += counts[piece] * workload->piece_parameters[piece];
    stage->expert_parameters += counts[piece] * workload->expert_parameters[piece];
    stage->tp_summed_parameters += counts[piece] * tp_summed[piece];
    stage->trained += counts[piece] * workload->trained[piece];
    stage->trained_experts += counts[piece] * workload->trained_experts[piece];
    stage->weight_bytes += counts[piece] * workload->weight_bytes[piece];
    stage->expert_weight_bytes += counts[piece] * workload->expert_weight_bytes[piece];
  }
}

/* Whether a rank also holds an embedding: two pipes have two of each end. */
static gboolean rank_has_embedding(const Workload *workload, int rank) {
  const Placement *placement = workload->placement;
  const int length = placement->n_stages / placement->n_pipes;
  for (int first = 0; first < placement->n_stages; first += length)
    if (placement->stage_rank[first] == rank)
      return TRUE;
  return FALSE;
}

static gboolean has_both_ends(const Workload *workload) {
  const Placement *placement = workload->placement;
  return rank_has_embedding(workload, placement->stage_rank[placement->n_stages - 1]);
}

/* Heads that predict further tokens look tokens up. */
static void copy_embedding(Workload *workload, const LocalSizes *local) {
  if (workload->method->mtp_layers == 0 || workload->model->tied || has_both_ends(workload))
    return;
  workload->tied_parameters = local_vocab_parameters(local);
  workload->piece_parameters[PIECE_HEAD] += workload->tied_parameters;
}

gboolean workload_heads_read_embedding(const Workload *workload) {
  return workload->method->mtp_layers > 0 && !workload->model->tied && workload->tied_parameters == 0;
}

/* Per parameter of the word table, and of the output layer's matrix. */
static double table_weight_bytes(const Workload *workload) {
  const Recipe *recipe = &workload->method->recipe;
  const gboolean is_wide = recipe->frozen > 0 && !workload_trains_table(workload, PIECE_EMBEDDING);
  return is_wide ? precision_info(workload->method->precision)->element_bytes : recipe->weights;
}

double workload_table_bytes(const Workload *workload) {
  return (double)workload->shared_parameters * table_weight_bytes(workload);
}

static void share_vocabulary(Workload *workload, const LocalSizes *local) {
  const gint64 vocabulary = local_vocab_parameters(local);
  if (!workload->model->tied)
    return;
  if (!has_both_ends(workload)) {
    workload->tied_parameters = vocabulary;
    return;
  }
  workload->shared_parameters = vocabulary;
  for (int stage = 0; stage < workload->n_stages; stage++)
    if (workload->stages[stage].layers.has_head) {
      StageWork *head = &workload->stages[stage];
      const gboolean is_trained = logits_train(local->model, local->method);
      head->parameters -= vocabulary;
      head->trained -= is_trained ? vocabulary : 0;
      head->weight_bytes -= table_weight_bytes(workload) * (double)vocabulary;
    }
}

/* The layers of a pipe's stages. The plan's pipeline_layout, if one was asked for, becomes the resulting list. Owned
 * by the caller. */
static int *deal_layers(const Workload *workload, int length) {
  int *layers = g_new(int, (gsize)length);
  const PipelineCounts counts = {(int)workload->model->n_layers, workload->method->mtp_layers, length};
  const char *layout = workload->method->pipeline_layout;
  const gboolean is_dealt = pipeline_layout_deal(layout, &counts, layers, NULL);
  g_assert(is_dealt);
  if (pipeline_layout_is_balanced(layout))
    workload_balance_layers(workload, length, layers);
  if (layout != NULL)
    method_set_layout(workload->method, pipeline_layout_text(layers, length));
  return layers;
}

static void init_stages(Workload *workload, const LocalSizes *local) {
  const Placement *placement = workload->placement;
  const int length = placement->n_stages / placement->n_pipes;
  workload->n_stages = placement->n_stages;
  workload->stages = g_new0(StageWork, (gsize)workload->n_stages);
  g_autofree int *layers = deal_layers(workload, length);
  gint64 tp_summed[N_PIECES];
  for (Piece piece = 0; piece < N_PIECES; piece++)
    tp_summed[piece] = tp_summed_of(workload, local, piece);
  for (int i = 0, first = 0; i < workload->n_stages; i++) {
    const int at = i % length;
    first = at == 0 ? 0 : first + layers[at - 1];
    StageLayers *own = &workload->stages[i].layers;
    *own = (StageLayers){first, layers[at], .has_embedding = at == 0, .has_head = at == length - 1};
    own->n_dense = (int)model_dense_layers(workload->model, own->first_layer, own->n_layers);
    count_others(workload, own);
    sum_parameters(workload, tp_summed, &workload->stages[i]);
  }
  share_vocabulary(workload, local);
}

/* What of a piece is copied out of the gather's buffer, and whose gradients are copied into the reduction's; 0: neither
 * has a buffer. Of the piece alone, without an embedding that heads have beside it. */
static CopiedParameters copied_parameters(const Workload *workload, const LocalSizes *local, Piece piece) {
  const Method *method = workload->method;
  const Layout *layout = &workload->layout;
  if (!zero_shards_weights(method->zero) || method->time.zero3.buffers == ZERO3_BUFFERS_SHARED)
    return (CopiedParameters){0};
  const gint64 experts = local_expert_parameters(local, piece_family(piece)),
               others = local_piece_parameters(local, piece_family(piece)) - experts;
  const double share = layout->n_shards > 1, of_experts = layout->n_expert_shards > 1;
  if (training_is_of_all(&method->training)) {
    const double copied = share * (double)others + of_experts * (double)experts;
    return (CopiedParameters){method->recipe.weights * copied, copied};
  }
  return (CopiedParameters){share * (workload->weight_bytes[piece] - workload->expert_weight_bytes[piece]) +
                                of_experts * workload->expert_weight_bytes[piece],
                            share * (double)(workload->trained[piece] - workload->trained_experts[piece]) +
                                of_experts * (double)workload->trained_experts[piece]};
}

/* Returns the items of all lists. Owned by the caller. */
static WorkItem *list_work(const Workload *workload, const LocalSizes *local, WorkList work[N_PIECES][N_PHASES]) {
  WorkItems all = {0};
  for (Piece piece = 0; piece < N_PIECES; piece++) {
    const CopiedParameters copied = copied_parameters(workload, local, piece);
    for (Phase phase = PHASE_F; phase < PHASE_OPTIMIZER && is_used(workload, piece); phase++)
      work[piece][phase] = piece_list(local, piece, phase, &copied, &all);
  }
  for (int piece = 0, first = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < N_PHASES; first += work[piece][phase++].n_items)
      work[piece][phase].items = all.items + first;
  return all.items;
}

static LocalSizes sizes_of_nth(const Workload *workload, int micro_batch) {
  return local_sizes_of_micro_batch(workload->model, workload->method, workload->batch,
                                    batch_at(workload->batch, workload->dp, micro_batch));
}

void workload_add_lists(Workload *workload) {
  if (workload->items == NULL) {
    const LocalSizes local = local_sizes_of(workload->model, workload->method);
    workload->items = list_work(workload, &local, workload->work);
  }
  for (int m = 0; workload->micro_batches != NULL && m < workload->batch->n_micro_batches; m++) {
    MicroBatchWork *own = &workload->micro_batches[m];
    const LocalSizes local = sizes_of_nth(workload, m);
    if (own->items == NULL)
      own->items = list_work(workload, &local, own->work);
  }
}

/* A table that the head shares is held while either is at work (pass_memory.c). */
static double kept_table_bytes(const Workload *workload) {
  const Method *method = workload->method;
  const gboolean is_kept = method->memory.word_table == WORD_TABLE_KEPT && zero_shards_weights(method->zero) &&
                           method->pp == 1 && workload->layout.n_shards > 1 && !workload->model->tied;
  if (!is_kept)
    return 0;
  return workload->weight_bytes[PIECE_EMBEDDING] +
         method->recipe.gradients * (double)workload->trained[PIECE_EMBEDDING];
}

/* The most that are recomputed at once. */
static int layers_at_once(const Workload *workload) {
  const Method *method = workload->method;
  int most = 1;
  for (int stage = 0; stage < workload->n_stages && method->recomputes == RECOMPUTE_FULL; stage++)
    most = MAX(most, MIN(method->recompute_layers, workload->stages[stage].layers.n_layers));
  return most;
}

/* The widest frozen weights as they are computed with, if they are kept in fewer bits. */
static double widened_bytes(const Workload *workload, const LocalSizes *local) {
  const double frozen = workload->method->recipe.frozen;
  double most = 0;
  LinearKind kinds[N_LINEARS];
  const int n = frozen > 0 && frozen < local->linear_bytes ? layer_linears(local, PIECE_LAYER, kinds) : 0;
  for (int i = 0; i < n; i++) {
    const Linear linear = linear_of(local, kinds[i]);
    most = MAX(most, local->linear_bytes * (double)(linear.n * linear.k));
  }
  return most;
}

/* --- compressed gradients --- */

static void find_matrices(Workload *workload, const LocalSizes *local) {
  const GradCompression *how = &workload->method->compression;
  for (Piece piece = 0; how->kind == COMPRESS_POWERSGD && piece < N_PIECES; piece++) {
    workload->low_rank[piece] = local_low_rank(local, piece, FALSE, how->rank);
    workload->low_rank_experts[piece] = local_low_rank(local, piece, TRUE, how->rank);
  }
}

/* A matrix that embedding and head share on one rank is among the embedding's. */
CompressedSum workload_stage_sum(const Workload *workload, int stage, gboolean of_experts) {
  const StageWork *work = &workload->stages[stage];
  CompressedSum sum = {of_experts ? (double)work->trained_experts : (double)(work->trained - work->trained_experts),
                       {0}};
  int counts[N_PIECES];
  count_pieces(&work->layers, counts);
  if (workload->shared_parameters > 0)
    counts[PIECE_HEAD] = 0;
  for (int piece = 0; piece < N_PIECES; piece++)
    low_rank_add_times(&sum.low_rank, counts[piece],
                       of_experts ? &workload->low_rank_experts[piece] : &workload->low_rank[piece]);
  return sum;
}

static int ranks_of_sum(const Workload *workload, gboolean of_experts) {
  return of_experts ? layout_group_size(&workload->layout, AXIS_BIT_EXPERT_SHARD | AXIS_BIT_DP_REPLICA)
                    : workload->method->data_ranks;
}

static double compression_state(const Workload *workload, int stage) {
  const Method *method = workload->method;
  double bytes = 0;
  for (int of_experts = 0; of_experts < 2; of_experts++) {
    const CompressedSum sum = workload_stage_sum(workload, stage, of_experts);
    bytes += compressed_state_bytes(&method->compression, &sum, method->gradient_sum_bytes,
                                    ranks_of_sum(workload, of_experts));
  }
  return bytes;
}

/* For the largest bucket: as many parameters as start one, and the piece that fills it. */
static double compression_buffers(const Workload *workload) {
  const Method *method = workload->method;
  double of_stage = 0, of_piece = 0;
  for (int stage = 0; stage < workload->n_stages; stage++)
    of_stage = MAX(of_stage, (double)workload->stages[stage].trained);
  for (int piece = 0; piece < N_PIECES; piece++)
    of_piece = MAX(of_piece, (double)workload->trained[piece]);
  const double most = method->overlap_grad ? MIN(of_stage, of_piece + (double)method->bucket_parameters) : of_stage;
  return compressed_buffer_bytes(&method->compression, most, method->gradient_sum_bytes, method->data_ranks);
}

static void take_memory(const Workload *workload, const LocalSizes *local, PieceMemory memory[N_PIECES]) {
  for (Piece piece = 0; piece < N_PIECES; piece++)
    if (is_used(workload, piece) || piece == piece_family(piece))
      memory[piece] = piece_memory(local, piece, layers_at_once(workload));
}

static double boundary_bytes(const LocalSizes *local) {
  const double bytes = local->element_bytes * (double)local->split_tokens * (double)local->model->hidden;
  return local->method->splits_stage_tensors ? bytes / (double)local->tp : bytes;
}

static gboolean has_plain_batch(const Workload *workload) {
  const Batch *batch = workload->batch;
  for (int i = 0; batch != NULL && i < batch->n_ranks * batch->n_micro_batches; i++)
    if (!batch_is_plain(batch, &batch->micro_batches[i], workload->method))
      return FALSE;
  return TRUE;
}

/* Without lists. */
static void add_micro_batches(Workload *workload) {
  if (has_plain_batch(workload))
    return;
  workload->micro_batches = g_new0(MicroBatchWork, (gsize)workload->batch->n_micro_batches);
  for (int m = 0; m < workload->batch->n_micro_batches; m++) {
    const LocalSizes own = sizes_of_nth(workload, m);
    take_memory(workload, &own, workload->micro_batches[m].memory);
    workload->micro_batches[m].boundary_bytes = boundary_bytes(&own);
  }
}

static void free_micro_batches(Workload *workload) {
  for (int m = 0; workload->micro_batches != NULL && m < workload->batch->n_micro_batches; m++)
    g_free(workload->micro_batches[m].items);
  g_clear_pointer(&workload->micro_batches, g_free);
}

static Workload *outline(const Model *model, Method *method, Placement *placement) {
  Workload *workload = g_new0(Workload, 1);
  workload->model = model_copy(model);
  workload->method = method;
  workload->plan = method->plan;
  workload->placement = placement;
  g_assert(placement->n_ranks == method->pp && placement->n_stages == method->pp * method->chunks);
  layout_init(&workload->layout, workload->method);
  const LocalSizes local = local_sizes_of(workload->model, workload->method);
  for (Piece piece = 0; piece < N_PIECES; piece++) {
    workload->piece_parameters[piece] = local_piece_parameters(&local, piece_family(piece));
    workload->expert_parameters[piece] = local_expert_parameters(&local, piece_family(piece));
  }
  if (pipeline_layout_is_balanced(method->pipeline_layout)) /* by the work of each stage */
    workload->items = list_work(workload, &local, workload->work);
  copy_embedding(workload, &local);
  settle_training(workload, &local);
  find_matrices(workload, &local);
  init_stages(workload, &local);
  take_memory(workload, &local, workload->memory);
  workload->framework_bytes = method->memory.fragmentation_bytes;
  if (method->memory.spare_gradients == SPARE_GRADIENTS_KEPT && method->training.rank == 0)
    workload->framework_bytes += local.element_bytes * local_layer_matrices(&local);
  workload->framework_bytes += widened_bytes(workload, &local);
  if (local.n_experts > 0)
    workload->framework_bytes += expert_gathered_bytes(&local);
  if (method->data_ranks > 1)
    workload->framework_bytes += method->memory.bucket_bytes;
  workload->framework_bytes += kept_table_bytes(workload) + compression_buffers(workload);
  workload->framework_bytes = round(workload->framework_bytes);
  workload->boundary_bytes = boundary_bytes(&local);
  workload->batch = batch_new(method);
  add_micro_batches(workload);
  return workload;
}

void workload_view_init(Workload *view, const Workload *workload, int dp) {
  *view = *workload;
  view->dp = dp;
  add_micro_batches(view);
  workload_add_lists(view);
}

void workload_view_clear(Workload *view) {
  free_micro_batches(view);
}

void workload_set_data_rank(Workload *workload, int dp) {
  workload->dp = dp;
  if (workload->micro_batches == NULL)
    return;
  free_micro_batches(workload);
  add_micro_batches(workload);
  workload_add_lists(workload);
}

static Workload *with_lists(Workload *workload) {
  if (workload != NULL)
    workload_add_lists(workload);
  return workload;
}

Workload *workload_outline_of_method(const Model *model, Method *method) {
  return outline(model, method, method_placement(method));
}

Workload *workload_outline(const Model *model, const Cluster *cluster, const Plan *plan, GError **error) {
  Method *method = method_complete(model, cluster, plan, error);
  return method != NULL ? workload_outline_of_method(model, method) : NULL;
}

Workload *workload_of_method(const Model *model, Method *method) {
  return with_lists(workload_outline_of_method(model, method));
}

Workload *workload_complete(const Model *model, const Cluster *cluster, const Plan *plan, GError **error) {
  return with_lists(workload_outline(model, cluster, plan, error));
}

Workload *workload_new(const Model *model, const Plan *plan, const Placement *placement) {
  Method *method = method_new(plan);
  return placement != NULL ? with_lists(outline(model, method, placement_copy(placement)))
                           : workload_of_method(model, method);
}

void workload_free(Workload *workload) {
  if (workload == NULL)
    return;
  free_micro_batches(workload);
  batch_unref(workload->batch);
  g_free(workload->items);
  g_free(workload->stages);
  placement_free(workload->placement);
  model_free(workload->model);
  method_free(workload->method);
  g_free(workload);
}

/* Fused Adam: reads the gradient, reads and writes both moments and the copy it updates (the master, else the weights
 * themselves); with a master, the rounded weights are written too. */
WorkItem workload_optimizer_item(const Workload *workload, double parameters) {
  const Recipe *recipe = &workload->method->recipe;
  const double updated = recipe->master > 0 ? 2 * recipe->master + recipe->weights : 2 * recipe->weights;
  return (WorkItem){
      .name = "adam",
      .kind = ITEM_MEMORY,
      .after = NO_ITEM,
      .bytes = parameters * (recipe->gradients + 2 * recipe->moments + updated),
  };
}

double workload_optimizer_parameters(const Workload *workload, int stage) {
  g_assert(stage >= 0 && stage < workload->n_stages);
  const StageWork *work = &workload->stages[stage];
  if (!zero_shards_optimizer(workload->method->zero))
    return (double)work->trained;
  return (double)(work->trained - work->trained_experts) / workload->layout.n_shards +
         (double)work->trained_experts / workload->layout.n_expert_shards;
}

/* Of a layer with frozen weights: its linears, and two matrices for each adapter. */
static int frozen_matrices(const Workload *workload, Piece piece, gboolean of_experts) {
  const LocalSizes local = local_sizes_of(workload->model, workload->method);
  LinearKind kinds[N_LINEARS];
  const int n_linears = layer_linears(&local, piece_family(piece), kinds);
  int n = 0;
  for (int i = 0; i < n_linears; i++) {
    Adapter adapters[MOST_ADAPTERS];
    const Linear linear = linear_of(&local, kinds[i]);
    const int n_adapters = piece_is_frozen(piece) ? 0 : adapters_of(&local, kinds[i], &linear, adapters);
    if ((kinds[i] == LINEAR_EXPERT_UP || kinds[i] == LINEAR_EXPERT_DOWN) == of_experts)
      n += (int)linear.group * (1 + 2 * n_adapters);
  }
  return n;
}

/* Each matrix has one product for its gradient; a rank's experts share one. */
int workload_piece_matrices(const Workload *workload, Piece piece, gboolean of_experts) {
  if (piece_is_layer(piece) && (workload->method->training.rank > 0 || piece_is_frozen(piece)))
    return frozen_matrices(workload, piece, of_experts);
  const WorkList *list = &workload->work[piece][PHASE_W];
  int n = piece == PIECE_EMBEDDING && !of_experts;
  for (int i = 0; i < list->n_items; i++)
    if (list->items[i].kind == ITEM_MATMUL && g_str_has_prefix(list->items[i].name, "expert_") == of_experts)
      n += (int)list->items[i].batch;
  return n;
}

int workload_stage_matrices(const Workload *workload, int stage, gboolean of_experts) {
  const StageLayers *layers = &workload->stages[stage].layers;
  int counts[N_PIECES], n = 0;
  count_pieces(layers, counts);
  for (Piece piece = 0; piece < N_PIECES; piece++)
    n += counts[piece] > 0 ? counts[piece] * workload_piece_matrices(workload, piece, of_experts) : 0;
  return n;
}

StateBytes workload_stage_state(const Workload *workload, int stage, int zero) {
  const StageWork *work = &workload->stages[stage];
  const Layout *layout = &workload->layout;
  const Recipe *recipe = &workload->method->recipe;
  const int shards = zero_shards_optimizer(zero) ? layout->n_shards : 1,
            expert_shards = zero_shards_optimizer(zero) ? layout->n_expert_shards : 1;
  StateBytes sum = state_memory(recipe, (double)(work->trained - work->trained_experts), zero, shards);
  const StateBytes experts = state_memory(recipe, (double)work->trained_experts, zero, expert_shards);
  const double others_bytes = work->weight_bytes - work->expert_weight_bytes; /* of frozen ones, too */
  sum.weights_bytes = round(others_bytes / (zero_shards_weights(zero) ? shards : 1) +
                            work->expert_weight_bytes / (zero_shards_weights(zero) ? expert_shards : 1));
  sum.gradients_bytes = round(sum.gradients_bytes + experts.gradients_bytes);
  sum.optimizer_bytes = round(sum.optimizer_bytes + experts.optimizer_bytes +
                              (zero_shards_optimizer(zero) ? 0 : compression_state(workload, stage)));
  return sum;
}

/* --- where the model state of a rank is held --- */

gboolean workload_gradients_leave(const Workload *workload, gboolean of_experts) {
  const Method *method = workload->method;
  const Layout *layout = &workload->layout;
  if (method->offload.optimizer == TIER_GPU || !zero_shards_gradients(method->zero))
    return FALSE;
  if (of_experts)
    return layout->n_expert_shards > 1 || layout_group_size(layout, AXIS_BIT_EXPERT_SHARD | AXIS_BIT_DP_REPLICA) == 1;
  return layout->n_shards > 1 || method->data_ranks == 1;
}

/* Gradients that stay on the GPU until the step's last are summed, and those of what the GPU updates. */
static double staying_gradients(const Workload *workload, int stage) {
  const StageWork *work = &workload->stages[stage];
  const Layout *layout = &workload->layout;
  const gboolean is_cut = zero_shards_gradients(workload->method->zero);
  const double kept = offload_kept_share(&workload->method->offload);
  const double others = (double)(work->trained - work->trained_experts) / (is_cut ? layout->n_shards : 1),
               experts = (double)work->trained_experts / (is_cut ? layout->n_expert_shards : 1);
  const double parameters = others * (workload_gradients_leave(workload, FALSE) ? kept : 1) +
                            experts * (workload_gradients_leave(workload, TRUE) ? kept : 1);
  return round(parameters * workload->method->recipe.gradients);
}

double workload_outer_parameters(const Workload *workload, int stage) {
  const StageWork *work = &workload->stages[stage];
  const int copies = layout_group_size(&workload->layout, AXIS_BIT_EXPERT_SHARD | AXIS_BIT_DP_REPLICA);
  return workload->method->islands == 1
             ? 0
             : (double)(work->trained - work->trained_experts) / workload->method->data_ranks +
                   (double)work->trained_experts / copies;
}

void workload_stage_tiers(const Workload *workload, int stage, StateBytes tiers[N_TIERS]) {
  const Offload *offload = &workload->method->offload;
  const StateBytes whole = workload_stage_state(workload, stage, workload->method->zero);
  for (int tier = 0; tier < N_TIERS; tier++)
    tiers[tier] = (StateBytes){0};
  tiers[offload->weights].weights_bytes = whole.weights_bytes;
  const double optimizer_bytes = servers_are_used(&workload->method->servers) ? 0 : whole.optimizer_bytes;
  const double kept_bytes = round(offload_kept_share(offload) * optimizer_bytes);
  tiers[TIER_GPU].optimizer_bytes = kept_bytes;
  tiers[offload->optimizer].optimizer_bytes += optimizer_bytes - kept_bytes;
  tiers[TIER_GPU].optimizer_bytes +=
      round(outer_step_state_bytes(&workload->method->outer) * workload_outer_parameters(workload, stage));
  if (offload->optimizer == TIER_GPU) {
    tiers[TIER_GPU].gradients_bytes = whole.gradients_bytes;
    return;
  }
  tiers[TIER_GPU].gradients_bytes = staying_gradients(workload, stage);
  tiers[method_gradient_tier(workload->method, workload->method->zero)].gradients_bytes = round(
      offload_share(offload) * workload_optimizer_parameters(workload, stage) * workload->method->recipe.gradients);
}
