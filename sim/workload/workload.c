/* Three pieces, four phases, built once per plan; stages are counts of pieces.
 *
 *     stage 0               stage 1        …     stage n−1
 *     [embedding] layer×a   layer×b              layer×z [head]
 *
 * A tied vocabulary matrix lies on both end stages when they are on different pipeline ranks, and once otherwise, as on
 * the ranks where a V, or two pipes, begin and end. */
#include "pieces.h"

static gint64 stage_parameters(const Workload *workload, const StageLayers *layers) {
  gint64 parameters = layers->n_layers * workload->piece_parameters[PIECE_LAYER];
  if (layers->has_embedding)
    parameters += workload->piece_parameters[PIECE_EMBEDDING];
  if (layers->has_head)
    parameters += workload->piece_parameters[PIECE_HEAD];
  return parameters;
}

static gint64 stage_whole_parameters(const Cut *cut, const StageLayers *layers) {
  return layers->n_layers * cut_whole_parameters(cut, PIECE_LAYER) +
         (layers->has_embedding ? cut_whole_parameters(cut, PIECE_EMBEDDING) : 0) +
         (layers->has_head ? cut_whole_parameters(cut, PIECE_HEAD) : 0);
}

/* Whether a stage's rank holds an embedding (head) too: two pipes have two of each. */
static gboolean rank_has_embedding(const Workload *workload, int rank) {
  const Placement *placement = workload->placement;
  const int length = placement->n_stages / placement->n_pipes;
  for (int first = 0; first < placement->n_stages; first += length)
    if (placement->stage_rank[first] == rank)
      return TRUE;
  return FALSE;
}

static void share_vocabulary(Workload *workload, const Cut *cut) {
  const gint64 vocabulary = cut_vocab_parameters(cut);
  const Placement *placement = workload->placement;
  if (!workload->model->tied)
    return;
  if (!rank_has_embedding(workload, placement->stage_rank[workload->n_stages - 1])) {
    workload->tied_parameters = vocabulary;
    return;
  }
  workload->shared_parameters = vocabulary;
  for (int stage = 0; stage < workload->n_stages; stage++)
    if (workload->stages[stage].layers.has_head)
      workload->stages[stage].parameters -= vocabulary;
}

static void init_stages(Workload *workload, const Cut *cut) {
  const Placement *placement = workload->placement;
  const int length = placement->n_stages / placement->n_pipes;
  workload->n_stages = placement->n_stages;
  workload->stages = g_new0(StageWork, (gsize)workload->n_stages);
  g_autofree StageLayers *layers = g_new(StageLayers, (gsize)length);
  layout_split_layers((int)workload->model->n_layers, length, layers);
  for (int i = 0; i < workload->n_stages; i++) {
    workload->stages[i].layers = layers[i % length];
    workload->stages[i].parameters = stage_parameters(workload, &layers[i % length]);
    workload->stages[i].whole_parameters = stage_whole_parameters(cut, &layers[i % length]);
  }
  share_vocabulary(workload, cut);
}

Workload *workload_new(const Model *model, const Plan *plan, const Placement *placement) {
  Workload *workload = g_new0(Workload, 1);
  workload->model = model_copy(model);
  workload->plan = plan_copy(plan);
  workload->placement =
      placement != NULL ? placement_copy(placement) : placement_new(PLACEMENT_LOOP, plan->pp, plan->chunks);
  g_assert(workload->placement->n_ranks == plan->pp && workload->placement->n_stages == plan->pp * plan->chunks);
  layout_init(&workload->layout, workload->plan);
  const Cut cut = cut_of(workload->model, workload->plan);
  for (Piece piece = 0; piece < N_PIECES; piece++) {
    for (Phase phase = PHASE_F; phase < PHASE_OPTIMIZER; phase++)
      workload->work[piece][phase] = piece_list(&cut, piece, phase);
    workload->memory[piece] = piece_memory(&cut, piece);
    workload->piece_parameters[piece] = cut_piece_parameters(&cut, piece);
  }
  init_stages(workload, &cut);
  workload->framework_bytes = plan->memory.fragmentation_bytes;
  if (plan->memory.spare_gradients == SPARE_GRADIENTS_KEPT)
    workload->framework_bytes += cut.element_bytes * cut_layer_matrices(&cut);
  workload->boundary_bytes = cut.element_bytes * cut.split_tokens * model->hidden;
  return workload;
}

void workload_free(Workload *workload) {
  if (workload == NULL)
    return;
  for (Piece piece = 0; piece < N_PIECES; piece++)
    for (Phase phase = 0; phase < N_PHASES; phase++)
      g_free(workload->work[piece][phase].items);
  g_free(workload->stages);
  placement_free(workload->placement);
  model_free(workload->model);
  plan_free(workload->plan);
  g_free(workload);
}

/* Fused Adam: reads the gradient, reads and writes both moments and the copy it updates (the master, else the weights
 * themselves); a master's rounding to the weights is written too. */
WorkItem workload_optimizer_item(const Workload *workload, double parameters) {
  const Recipe *recipe = &workload->plan->recipe;
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
  const double parameters = workload->stages[stage].parameters;
  return workload->plan->zero >= 1 ? parameters / workload->layout.n_shards : parameters;
}
