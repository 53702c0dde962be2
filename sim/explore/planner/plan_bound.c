/* A compute op takes its work's run_ns or longer, whatever the rest of the step does, and ops of a rank's compute
 * stream run one after the other. So
 *
 *     step ≥ Σ over stages of a rank, over micro-batches, F + B     B = I + W at once, or the two apart if shorter
 *
 * for every rank, but for exchanges with experts where a pass may spend them beside another: the fullest one counts.
 * Without overlap_p2p a rank also waits for what it sends before its next action, or round of a forward and a backward;
 * a round sends one activation and one gradient at most, so that all activations take their time, or all gradients, but
 * for the last one. Where a backward is one op (B) and a step ends before the next begins, no rank starts before a
 * forward came down to its first stage s, and what follows its last backward goes up from there:
 *
 *     step ≥ Σ_{stages before s} F + send  +  the rank's work  +  Σ_{stages before s} B + send
 *
 * which on equal stages is (m + (p − 1)/v)·(F + B), all there is to 1f1b and interleaved but communication. With fewer
 * micro-batches than ranks the longest is the way of one of them, behind the others in one stage:
 *
 *     step ≥ Σ_{stages of a pipe} F + B (or I) + sends  +  (m − 1) · the longest F (or B, or I)
 *
 * Where parameters are gathered or gradients are reduced in every micro-batch (ZeRO-2 and 3), these collectives run one
 * after the other too, on the dp stream of their rank:
 *
 *     step ≥ Σ over stages of a rank, over micro-batches, gathers for F and for B + reductions
 *
 * Transfers take longer where they share links, never less than alone.
 *
 * Where stages run on into the next step without waiting for each other, the step is the distance between two ends of
 * steps. The rank which ended the first of the two issued nothing of the second before, so that all its own work lies
 * between them; which rank that is, is not known. There the emptiest one counts. */
#include "plan_bound.h"

#include "lowering.h"
#include "plan.h"
#include "schedules.h"
#include "timing_model.h"

/* A collective of the dp stream, so many times for a stage's micro-batch. */
typedef struct {
  gint32 transfer;
  int n;
} Moves;

/* Of one stage. */
typedef struct {
  gint32 sends[2];              /* transfers of a gradient, an activation; −1: to no other rank */
  guint first_moves, end_moves; /* on its dp stream */
  gint64 forward_ns, backward_ns;
  gint64 turn_ns; /* backward, until its gradient can be sent: all of B, or I */
  gint64 sends_ns[2];
  gint64 moves_ns;
} Stage;

typedef struct {
  const Workload *workload;
  Program *program;                    /* of transfers alone; owned */
  Timing *timing;                      /* owned */
  GArray *moves;                       /* of Moves; owned */
  GArray *cuts;                        /* of Part, for the moment; owned */
  Stage *stages;                       /* owned */
  gint64 n_micro_batches;              /* that a pipe has: its part of them */
  gint64 piece_ns[N_PIECES][N_PHASES]; /* kernels and what they wait for */
} Bound;

/* --- transfers --- */

static void move(Bound *bound, const DpCollective *done, const Moved *moved, int n) {
  const Moves moves = {dp_collective(bound->program, bound->workload, done, moved).work, n};
  g_array_append_val(bound->moves, moves);
}

/* A matrix that embedding and head share moves with one of them: here with none. */
static Moved fewest_moved(const Part *part, gboolean of_experts) {
  return (Moved){*part, part->n_embedding > 0 ? PIECE_HEAD : PIECE_EMBEDDING, of_experts, FALSE};
}

/* `n` such parts of a stage, for a forward and for a backward. */
static void add_gathers(Bound *bound, int stage, const Part *part, int n, gboolean is_passed_back) {
  const Workload *workload = bound->workload;
  const int shards[] = {lowering_shards(workload), lowering_expert_shards(workload)};
  for (int of_experts = 0; of_experts < 2; of_experts++) {
    const Moved moved = fewest_moved(part, of_experts);
    const DpCollective gather = {ACTION_UNSHARD, stage, COLLECTIVE_ALL_GATHER, AXIS_BIT_DP_SHARD, SIZE_WEIGHTS, -1};
    if (shards[of_experts] > 1 && moved_weights(workload, &moved) > 0)
      move(bound, &gather, &moved, is_passed_back ? 2 * n : n);
  }
}

static void add_reductions(Bound *bound, int stage, const Part *part, int n) {
  const Workload *workload = bound->workload;
  const int shards[] = {lowering_shards(workload), lowering_expert_shards(workload)};
  for (int of_experts = 0; of_experts < 2; of_experts++) {
    const Moved moved = fewest_moved(part, of_experts);
    const DpCollective scatter = {ACTION_REDUCE_GRAD, stage,          COLLECTIVE_REDUCE_SCATTER,
                                  AXIS_BIT_DP_SHARD,  SIZE_GRADIENTS, -1};
    const DpCollective of_shards = {ACTION_REDUCE_GRAD,  stage, COLLECTIVE_ALL_REDUCE, AXIS_BIT_DP_REPLICA,
                                    SIZE_GRADIENT_SHARD, -1};
    if (shards[of_experts] < 2 || !(moved_gradients(workload, &moved) > 0))
      continue;
    move(bound, &scatter, &moved, n);
    if (lowering_replicas(workload) > 1)
      move(bound, &of_shards, &moved, n);
  }
}

/* What a stage's micro-batch moves over dp, if every one does (pass_unshard.c, pass_reduce_grad.c). */
static void add_moves(Bound *bound, int stage) {
  const Workload *workload = bound->workload;
  const Method *method = workload->method;
  const gboolean reduces = zero_shards_gradients(method->zero) && !method->reduces_once;
  const Part whole = part_of_stage(workload, stage);
  int counts[N_PIECES];
  part_pieces(&whole, counts);
  for (Piece piece = 0; zero_shards_weights(method->zero) && piece < N_PIECES; piece++) {
    const Part one = part_of_piece(piece);
    if (counts[piece] == 0)
      continue;
    add_gathers(bound, stage, &one, counts[piece], piece_passes_back(method, piece));
    if (reduces)
      add_reductions(bound, stage, &one, counts[piece]);
  }
  if (zero_shards_weights(method->zero) || !reduces)
    return;
  g_array_set_size(bound->cuts, 0);
  part_cut(workload, &whole, TRUE, method->bucket_parameters, bound->cuts);
  for (guint i = 0; i < bound->cuts->len; i++)
    add_reductions(bound, stage, &g_array_index(bound->cuts, Part, i), 1);
}

static gint32 send_of(Bound *bound, int stage, gboolean forward) {
  const Placement *placement = bound->workload->placement;
  const int next = stage_next(stage, forward, placement->n_stages, placement->n_pipes);
  const int from = placement->stage_rank[stage], to = next >= 0 ? placement->stage_rank[next] : from;
  const gboolean is_sent = next < 0 || forward || lowering_needs_gradient(bound->workload, next);
  const Transfer send = {.group = -1,
                         .source = from,
                         .target = to,
                         .collective = COLLECTIVE_SEND_RECV,
                         .bytes = is_sent ? bound->workload->boundary_bytes : 0};
  return from != to ? program_transfer(bound->program, &send) : -1;
}

static gboolean is_like(const StageLayers *a, const StageLayers *b) {
  return a->n_layers == b->n_layers && a->n_dense == b->n_dense && others_equal(&a->others, &b->others) &&
         a->has_embedding == b->has_embedding && a->has_head == b->has_head;
}

static const StageLayers *layers_of(const Bound *bound, int stage) {
  return &bound->workload->stages[stage].layers;
}

/* An order from a file, or made for its times, says itself what moves when; a tensor below the threshold is sent
 * without waiting. */
static void add_transfers(Bound *bound, const Cluster *cluster, gboolean of_any_shards) {
  const Method *method = bound->workload->method;
  const gboolean is_known = method_schedule(method) != NULL,
                 moves = is_known && !of_any_shards && lowering_is_sharded(bound->workload) &&
                         !offload_is_any(&method->offload),
                 sends = is_known && bound->workload->boundary_bytes > cluster->eager_bytes;
  for (int i = 0; i < bound->workload->n_stages; i++) {
    Stage *stage = &bound->stages[i];
    for (int forward = 0; forward < 2; forward++)
      stage->sends[forward] = sends ? send_of(bound, i, forward) : -1;
    if (i > 0 && is_like(layers_of(bound, i), layers_of(bound, i - 1))) {
      stage->first_moves = stage[-1].first_moves;
      stage->end_moves = stage[-1].end_moves;
      continue;
    }
    stage->first_moves = bound->moves->len;
    if (moves)
      add_moves(bound, i);
    stage->end_moves = bound->moves->len;
  }
}

/* --- times --- */

/* A forward and a backward may run as one, or take turns (pass interleave): kernels of one stand beside exchanges of
 * the other. Nowhere else do they, as what follows a pass waits for its end. */
static gboolean hides_exchanges(const Workload *workload) {
  return plan_schedule(workload->plan)->defers_w || lowering_takes_turns(workload);
}

static void time_pieces(Bound *bound) {
  const gboolean hides = hides_exchanges(bound->workload);
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++) {
      const TimedList *list = &bound->timing->lists[piece][phase];
      bound->piece_ns[piece][phase] = list->time.run_ns - (hides ? list->split.charged_ns[CHARGE_EP] : 0);
    }
}

static gint64 run_ns(const Bound *bound, const StageLayers *layers, Phase phase) {
  const gint64(*piece_ns)[N_PHASES] = bound->piece_ns;
  int counts[N_PIECES];
  gint64 sum_ns = (layers->has_embedding != 0) * piece_ns[PIECE_EMBEDDING][phase] +
                  (layers->has_head != 0) * piece_ns[PIECE_HEAD][phase];
  count_layers(layers->n_layers, layers->n_dense, &layers->others, counts);
  for (int piece = PIECE_EMBEDDING + 1; piece < PIECE_HEAD; piece++)
    sum_ns += counts[piece] * piece_ns[piece][phase];
  return sum_ns;
}

static void time_stage(const Bound *bound, int i) {
  Stage *stage = &bound->stages[i];
  const StageLayers *layers = layers_of(bound, i);
  const OpTime *transfers = bound->timing->transfers;
  const gint64 at_once_ns = run_ns(bound, layers, PHASE_B), i_ns = run_ns(bound, layers, PHASE_I);
  stage->forward_ns = run_ns(bound, layers, PHASE_F);
  stage->backward_ns = MIN(at_once_ns, i_ns + run_ns(bound, layers, PHASE_W));
  stage->turn_ns = MIN(at_once_ns, i_ns);
  for (int forward = 0; forward < 2; forward++)
    stage->sends_ns[forward] = stage->sends[forward] >= 0 ? transfers[stage->sends[forward]].run_ns : 0;
  for (guint k = stage->first_moves; k < stage->end_moves; k++) {
    const Moves *moves = &g_array_index(bound->moves, Moves, k);
    stage->moves_ns += moves->n * transfers[moves->transfer].run_ns;
  }
}

/* --- bounds --- */

static gboolean ranks_differ(const Plan *plan, const Cluster *cluster) {
  return plan->jitter > 0 || plan->slow_ranks->len > 0 || cluster_other_gpus(cluster, plan->gpus) > 0;
}

static gboolean is_on(const Bound *bound, int stage, int rank) {
  return bound->workload->placement->stage_rank[stage] == rank;
}

/* Kernels that copy gathered parameters; those of experts are not copied where shards over fewer ranks leave them
 * whole. */
static gboolean may_copy_less(const Workload *workload) {
  return workload->method->time.zero3.buffers != ZERO3_BUFFERS_SHARED && workload->layout.n_expert_shards > 1;
}

/* Of all micro-batches on a rank, without what it waits for. */
static gint64 computed_ns(const Bound *bound, int rank) {
  gint64 sum_ns = 0;
  for (int i = 0; i < bound->workload->n_stages; i++)
    if (is_on(bound, i, rank))
      sum_ns += bound->stages[i].forward_ns + bound->stages[i].backward_ns;
  return bound->n_micro_batches * sum_ns;
}

/* What a rank sends before it goes on. */
static gint64 sent_ns(const Bound *bound, int rank) {
  gint64 most_ns = 0;
  for (int forward = 0; forward < 2 && !bound->workload->method->overlap_p2p; forward++) {
    gint64 sum_ns = 0, longest_ns = 0;
    for (int i = 0; i < bound->workload->n_stages; i++) {
      const gint64 send_ns = is_on(bound, i, rank) ? bound->stages[i].sends_ns[forward] : 0;
      sum_ns += bound->n_micro_batches * send_ns;
      longest_ns = MAX(longest_ns, send_ns);
    }
    most_ns = MAX(most_ns, sum_ns - longest_ns);
  }
  return most_ns;
}

static gint64 moved_ns(const Bound *bound, int rank) {
  gint64 sum_ns = 0;
  for (int i = 0; i < bound->workload->n_stages; i++)
    if (is_on(bound, i, rank))
      sum_ns += bound->n_micro_batches * bound->stages[i].moves_ns;
  return sum_ns;
}

/* From a stage's forward to the next one's, and from that one's backward back to its own. */
static gint64 there_and_back_ns(const Bound *bound, int stage) {
  const Stage *own = &bound->stages[stage];
  const gboolean is_last = stage + 1 == bound->workload->n_stages;
  return own->forward_ns + own->sends_ns[TRUE] + (is_last ? 0 : own[1].sends_ns[FALSE]) + own->turn_ns;
}

/* Of the fullest rank; where steps do not run into each other and a backward is one op, with the way down to it and up
 * from it: stages 0 … p − 1 are the first ones of their ranks. */
static gint64 fullest_ns(const Bound *bound) {
  const Plan *plan = bound->workload->plan;
  const gboolean is_filled = !plan_schedule(plan)->defers_w;
  gint64 before_ns = 0, most_ns = 0;
  for (int rank = 0; rank < plan->pp; rank++) {
    most_ns = MAX(most_ns, before_ns + computed_ns(bound, rank) + sent_ns(bound, rank));
    most_ns = MAX(most_ns, moved_ns(bound, rank));
    before_ns += is_filled ? there_and_back_ns(bound, rank) : 0;
  }
  return most_ns;
}

/* Of the micro-batch that is the last one in a stage. */
static gint64 longest_way_ns(const Bound *bound) {
  const int n_stages = bound->workload->n_stages, length = n_stages / bound->workload->placement->n_pipes;
  gint64 way_ns = 0, longest_ns = 0, most_ns = 0;
  for (int i = 0; i < n_stages; i++) {
    const Stage *stage = &bound->stages[i];
    way_ns += there_and_back_ns(bound, i);
    longest_ns = MAX(longest_ns, MAX(stage->forward_ns, stage->turn_ns));
    if ((i + 1) % length == 0) {
      most_ns = MAX(most_ns, way_ns + (bound->n_micro_batches - 1) * longest_ns);
      way_ns = longest_ns = 0;
    }
  }
  return most_ns;
}

static gint64 emptiest_ns(const Bound *bound) {
  gint64 least_ns = G_MAXINT64;
  for (int rank = 0; rank < bound->workload->plan->pp; rank++)
    least_ns = MIN(least_ns, MAX(computed_ns(bound, rank) + sent_ns(bound, rank), moved_ns(bound, rank)));
  return least_ns;
}

static void bound_clear(Bound *bound) {
  program_free(bound->program);
  timing_free(bound->timing);
  g_array_unref(bound->moves);
  g_array_unref(bound->cuts);
  g_free(bound->stages);
}

gint64 plan_bound_step_ns(const Workload *workload, const Cluster *cluster, gboolean of_any_shards, Costs *costs) {
  const Plan *plan = workload->plan;
  if (ranks_differ(plan, cluster) || workload->micro_batches != NULL || (of_any_shards && may_copy_less(workload)))
    return 0;
  Bound bound = {.workload = workload,
                 .program = program_new(plan->pp, workload->n_stages, (int)plan->n_micro_batches),
                 .moves = g_array_new(FALSE, FALSE, sizeof(Moves)),
                 .cuts = g_array_new(FALSE, FALSE, sizeof(Part)),
                 .stages = g_new0(Stage, workload->n_stages),
                 .n_micro_batches = plan->n_micro_batches / workload->placement->n_pipes};
  add_transfers(&bound, cluster, of_any_shards);
  bound.timing = timing_model(bound.program, workload, cluster, costs);
  time_pieces(&bound);
  for (int i = 0; i < workload->n_stages; i++)
    time_stage(&bound, i);
  const gint64 least_ns = plan->steps > 1 ? emptiest_ns(&bound) : MAX(fullest_ns(&bound), longest_way_ns(&bound));
  bound_clear(&bound);
  return least_ns;
}
