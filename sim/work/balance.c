/* Distributes layers by what stages compute: `--pipeline-layout balanced`.
 *
 *     FLOPs     ██  ██  ██  ██▒▒▒        ▒ the head: with equal layers everywhere three ranks wait for the last
 *               ██▌ ██▌ ██  ▌ ▒▒▒
 *
 * A rank's load is the FLOPs of all its stages, forward and backward, heads and recomputation included; memory-bound
 * kernels are not counted. Starting from the layout of auto, the fullest rank repeatedly gives one layer to the stage
 * that minimises the largest load, for as long as that decreases, or fewer ranks reach it. */
#include "balance.h"

typedef struct {
  const Workload *workload;
  int length;             /* stages of a pipe */
  int *layers;            /* [length] */
  double *on_rank;        /* [n_ranks]: FLOPs of one micro-batch */
  const int *n_dense;     /* [layers + 1]: dense layers among the model's first i */
  double flops[N_PIECES]; /* of one piece */
} Dealing;

static void count_flops(Dealing *dealing) {
  const Placement *placement = dealing->workload->placement;
  for (int rank = 0; rank < placement->n_ranks; rank++)
    dealing->on_rank[rank] = 0;
  for (int stage = 0, first = 0; stage < placement->n_stages; stage++) {
    const int at = stage % dealing->length, n = dealing->layers[at];
    first = at == 0 ? 0 : first;
    const double n_dense = dealing->n_dense[first + n] - dealing->n_dense[first];
    first += n;
    dealing->on_rank[placement->stage_rank[stage]] += n_dense * dealing->flops[PIECE_DENSE_LAYER] +
                                                      (n - n_dense) * dealing->flops[PIECE_LAYER] +
                                                      (at == dealing->length - 1) * dealing->flops[PIECE_HEAD];
  }
}

static int fullest_rank(const Dealing *dealing) {
  int fullest = 0;
  for (int rank = 1; rank < dealing->workload->placement->n_ranks; rank++)
    if (dealing->on_rank[rank] > dealing->on_rank[fullest])
      fullest = rank;
  return fullest;
}

/* The largest load of a rank, and how many ranks have it. */
typedef struct {
  double flops;
  int n_ranks;
} Fullest;

/* Sums of the same terms in another order may differ in their last bits. */
static const double rounding = 1e-9;

static Fullest fullest(Dealing *dealing) {
  count_flops(dealing);
  Fullest found = {dealing->on_rank[fullest_rank(dealing)], 0};
  for (int rank = 0; rank < dealing->workload->placement->n_ranks; rank++)
    found.n_ranks += dealing->on_rank[rank] >= found.flops * (1 - rounding);
  return found;
}

static gboolean is_less(const Fullest *a, const Fullest *b) {
  if (a->flops < b->flops * (1 - rounding))
    return TRUE;
  return a->flops <= b->flops * (1 + rounding) && a->n_ranks < b->n_ranks;
}

/* Only the first and last stages may be without a layer. */
static gboolean may_give(const Dealing *dealing, int stage) {
  const gboolean is_end = dealing->length > 1 && (stage == 0 || stage == dealing->length - 1);
  return dealing->layers[stage] > (is_end ? 0 : 1);
}

/* The last stage of the fullest rank that has a layer to give; −1: none. */
static int giver(const Dealing *dealing) {
  const Placement *placement = dealing->workload->placement;
  const int rank = fullest_rank(dealing);
  for (int stage = dealing->length - 1; stage >= 0; stage--)
    if (placement->stage_rank[stage] == rank && may_give(dealing, stage))
      return stage;
  return -1;
}

static void move(Dealing *dealing, int from, int to) {
  dealing->layers[from]--;
  dealing->layers[to]++;
}

/* Loads of ranks that a layer was given to. */
typedef struct {
  double *loads; /* as they were without it */
  int n;
} Tried;

/* Where all layers are alike and one moves in one pipe, ranks with equal loads are as good as each other. */
static gboolean is_like_tried(const Dealing *dealing, Tried *tried, int from, int to, double load) {
  const Placement *placement = dealing->workload->placement;
  const gboolean are_alike = dealing->n_dense[dealing->workload->model->n_layers] == 0;
  if (!are_alike || placement->n_pipes > 1 || placement->stage_rank[from] == placement->stage_rank[to])
    return FALSE;
  for (int i = 0; i < tried->n; i++)
    if (tried->loads[i] == load)
      return TRUE;
  tried->loads[tried->n++] = load;
  return FALSE;
}

/* Moves a layer to the stage that minimises the largest load; FALSE: no move helps. */
static gboolean give_one(Dealing *dealing) {
  Fullest least = fullest(dealing);
  const int from = giver(dealing);
  int taker = -1;
  const Placement *placement = dealing->workload->placement;
  g_autofree double *on_rank = g_memdup2(dealing->on_rank, (gsize)placement->n_ranks * sizeof(double)),
                    *loads = g_new(double, (gsize)dealing->length);
  Tried tried = {loads, 0};
  for (int to = 0; from >= 0 && to < dealing->length; to++) {
    if (is_like_tried(dealing, &tried, from, to, on_rank[placement->stage_rank[to]]))
      continue;
    move(dealing, from, to);
    const Fullest found = fullest(dealing);
    if (is_less(&found, &least)) {
      least = found;
      taker = to;
    }
    move(dealing, to, from);
  }
  if (taker >= 0)
    move(dealing, from, taker);
  return taker >= 0;
}

/* Owned by the caller. */
static int *count_dense(const Model *model) {
  int *n_dense = g_new(int, (gsize)model->n_layers + 1);
  n_dense[0] = 0;
  for (int layer = 0; layer < model->n_layers; layer++)
    n_dense[layer + 1] = n_dense[layer] + (int)model_dense_layers(model, layer, 1);
  return n_dense;
}

void workload_balance_layers(const Workload *workload, int length, int *layers) {
  g_autofree double *on_rank = g_new(double, (gsize)workload->placement->n_ranks);
  g_autofree int *n_dense = count_dense(workload->model);
  Dealing dealing = {workload, length, layers, on_rank, n_dense, {0}};
  for (Piece piece = 0; piece < N_PIECES; piece++)
    dealing.flops[piece] = workload->work[piece][PHASE_F].flops + workload->work[piece][PHASE_B].flops;
  while (give_one(&dealing))
    ;
}
