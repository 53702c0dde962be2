/* Three pieces, four phases, built once per plan; stages are counts of pieces.
 *
 *     stage 0               stage 1        …     stage n−1
 *     [embedding] layer×a   layer×b              layer×z [head]
 *
 * A tied vocabulary matrix lies on both end stages when they are on different pipeline ranks, and once otherwise. */
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

static void init_stages(Workload *workload, const Cut *cut) {
  const Model *model = workload->model;
  const Plan *plan = workload->plan;
  const gboolean is_copied = model->tied && plan->pp > 1;
  workload->n_stages = plan->pp * plan->chunks;
  workload->stages = g_new0(StageWork, (gsize)workload->n_stages);
  workload->tied_parameters = is_copied ? cut_vocab_parameters(cut) : 0;
  g_autofree StageLayers *layers = g_new(StageLayers, (gsize)workload->n_stages);
  layout_split_layers((int)model->n_layers, workload->n_stages, layers);
  for (int i = 0; i < workload->n_stages; i++) {
    workload->stages[i].layers = layers[i];
    workload->stages[i].parameters = stage_parameters(workload, &layers[i]);
    workload->stages[i].whole_parameters = stage_whole_parameters(cut, &layers[i]);
  }
  if (model->tied && !is_copied)
    workload->stages[workload->n_stages - 1].parameters -= cut_vocab_parameters(cut);
}

Workload *workload_new(const Model *model, const Plan *plan) {
  Workload *workload = g_new0(Workload, 1);
  workload->model = model_copy(model);
  workload->plan = plan_copy(plan);
  layout_init(&workload->layout, plan);
  const Cut cut = cut_of(workload->model, workload->plan);
  for (Piece piece = 0; piece < N_PIECES; piece++) {
    for (Phase phase = PHASE_F; phase < PHASE_OPTIMIZER; phase++)
      workload->work[piece][phase] = piece_list(&cut, piece, phase);
    workload->memory[piece] = piece_memory(&cut, piece);
    workload->piece_parameters[piece] = cut_piece_parameters(&cut, piece);
  }
  init_stages(workload, &cut);
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
  return workload->plan->zero >= 1 ? parameters / workload->layout.dp_shard : parameters;
}
