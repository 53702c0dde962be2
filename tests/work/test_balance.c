#include <math.h>
#include <stdlib.h>

#include "balance.h"
#include "expert_cases.h"
#include "plan.h"
#include "run_suite.h"

/* A pipe of `pp` ranks under the layout given. */
static Workload *in_a_pipe(const Model *model, PlacementShape shape, int pp, int chunks, const char *layout) {
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_FULL);
  plan->pp = plan->gpus = pp;
  plan->chunks = chunks;
  plan->pipeline_layout = g_strdup(layout);
  g_autoptr(Placement) placement = placement_new(shape, pp, chunks);
  return workload_new(model, plan, placement);
}

/* --- the oracle: all ways to deal layers out --- */

/* FLOPs of one micro-batch on the fullest rank. */
static double fullest(const Workload *workload) {
  const Placement *placement = workload->placement;
  double most = 0;
  for (int rank = 0; rank < placement->n_ranks; rank++) {
    double flops = 0;
    for (int stage = 0; stage < workload->n_stages; stage++)
      for (int phase = PHASE_F; phase <= PHASE_B && placement->stage_rank[stage] == rank; phase++) {
        const StageLayers *layers = &workload->stages[stage].layers;
        if (phase != PHASE_F && phase != PHASE_B)
          continue;
        flops += layers->n_dense * workload->work[PIECE_DENSE_LAYER][phase].flops +
                 (layers->n_layers - layers->n_dense) * workload->work[PIECE_LAYER][phase].flops +
                 layers->has_head * workload->work[PIECE_HEAD][phase].flops;
      }
    most = fmax(most, flops);
  }
  return most;
}

/* Layouts of `n_layers` over the stages from `stage` on, each tried by being asked for. */
static double least_of_all(const Model *model, PlacementShape shape, int pp, int chunks, const char *dealt, int stage,
                           gint64 n_layers) {
  const int length = shape == PLACEMENT_BIDIRECTIONAL ? pp : pp * chunks;
  const gboolean is_end = stage == 0 || stage == length - 1;
  double least = INFINITY;
  for (gint64 n = is_end ? 0 : 1; n <= n_layers; n++) {
    g_autofree char *text = g_strdup_printf("%s%s%d", dealt, stage > 0 ? "+" : "", (int)n);
    if (stage < length - 1) {
      least = fmin(least, least_of_all(model, shape, pp, chunks, text, stage + 1, n_layers - n));
    } else if (n == n_layers) {
      g_autoptr(Workload) workload = in_a_pipe(model, shape, pp, chunks, text);
      least = fmin(least, fullest(workload));
    }
  }
  return least;
}

/* Heads of half a layer and of several, dense layers before those with experts, loops, Vs and two pipes. */
TEST(the_fullest_rank_has_as_little_as_any_layout_leaves_it) {
  Model models[] = {llama, llama, mixture()};
  models[0].n_layers = 7;
  models[0].vocab = 4096;
  models[1].vocab = 65536;
  const struct {
    PlacementShape shape;
    int pp, chunks;
  } pipes[] = {{PLACEMENT_LOOP, 2, 1}, {PLACEMENT_LOOP, 4, 1}, {PLACEMENT_V, 2, 2}, {PLACEMENT_BIDIRECTIONAL, 4, 2}};
  for (gsize m = 0; m < G_N_ELEMENTS(models); m++)
    for (gsize p = 0; p < G_N_ELEMENTS(pipes); p++) {
      g_autoptr(Workload) balanced = in_a_pipe(&models[m], pipes[p].shape, pipes[p].pp, pipes[p].chunks, "balanced");
      const double least =
          least_of_all(&models[m], pipes[p].shape, pipes[p].pp, pipes[p].chunks, "", 0, models[m].n_layers);
      ck_assert_double_eq_tol(fullest(balanced), least, 1e-9 * least);
    }
}

/* Llama-3-8B: the head's product, 128,256 × 4096 = 0.525 G, is 2.4 times those of a layer, 0.218 G. Over 8 ranks auto
 * leaves the last one 4 layers besides. */
TEST(a_large_head_takes_layers_off_the_last_stage) {
  Model model = llama;
  model.n_layers = 32, model.hidden = 4096, model.n_heads = 32, model.n_kv_heads = 8, model.head_dim = 128;
  model.ffn_hidden = 14336, model.vocab = 128256;
  g_autoptr(Workload) as_auto = in_a_pipe(&model, PLACEMENT_LOOP, 8, 1, NULL),
                      balanced = in_a_pipe(&model, PLACEMENT_LOOP, 8, 1, "balanced");
  ck_assert_int_eq(as_auto->stages[7].layers.n_layers, 4);
  ck_assert_int_eq(balanced->stages[7].layers.n_layers, 3);
  ck_assert_double_lt(fullest(balanced), 0.95 * fullest(as_auto));
  int first = 0;
  for (int stage = 0; stage < 8; stage++) {
    ck_assert_int_eq(balanced->stages[stage].layers.first_layer, first);
    first += balanced->stages[stage].layers.n_layers;
  }
  ck_assert_int_eq(first, 32);
}

TEST(stages_that_are_alike_stay_so) {
  Model model = llama;
  model.vocab = 128; /* a head of next to nothing */
  g_autoptr(Workload) balanced = in_a_pipe(&model, PLACEMENT_LOOP, 4, 2, "balanced");
  for (int stage = 0; stage < 8; stage++)
    ck_assert_int_eq(balanced->stages[stage].layers.n_layers, 1);
}

int main(void) {
  return run_tests();
}
