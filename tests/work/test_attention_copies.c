/* What a framework does around a fused attention kernel: copies, extra bytes from its file, and an unfused rotary
 * embedding. */
#include "plan.h"
#include "run_suite.h"
#include "small_workloads.h"

static Workload *copying(Recompute recompute, Attention attention) {
  g_autoptr(Plan) plan = plan_of(4, FALSE, attention, recompute);
  plan->time.attention_copies.forward = 17;
  plan->time.attention_copies.backward = 21;
  return workload_new(&llama, plan, NULL);
}

/* 2 sequences of 512 tokens; of tp 4 each rank has queries of 4 heads of 64 columns, 2 bytes each. */
static const double q_bytes = 2.0 * 1024 * 256;

TEST(copies_are_passes_over_the_queries_of_a_rank) {
  g_autoptr(Workload) workload = copying(RECOMPUTE_NONE, ATTENTION_FLASH);
  const WorkList *work = workload->work[PIECE_LAYER];
  ck_assert_double_eq(find(&work[PHASE_F], "attention_copies")->bytes, 17 * q_bytes);
  ck_assert_double_eq(find(&work[PHASE_B], "attention_copies.backward")->bytes, 21 * q_bytes);
  ck_assert_int_eq(count(&work[PHASE_I], "attention_copies.backward"), 1);
  ck_assert_int_eq(count(&work[PHASE_W], "attention_copies.backward"), 0);
}

TEST(a_layer_made_again_copies_again) {
  g_autoptr(Workload) workload = copying(RECOMPUTE_FULL, ATTENTION_FLASH);
  const WorkList *back = &workload->work[PIECE_LAYER][PHASE_B];
  ck_assert(find(back, "attention_copies")->recompute);
  ck_assert_double_eq(find(back, "attention_copies")->bytes, 17 * q_bytes);
}

/* It has copies of its own, and a framework that says none has none. */
TEST(unfused_attention_and_other_frameworks_have_none) {
  g_autoptr(Workload) unfused = copying(RECOMPUTE_NONE, ATTENTION_UNFUSED);
  g_autoptr(Workload) bare = workload_of(&llama, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  ck_assert_int_eq(count(&unfused->work[PIECE_LAYER][PHASE_F], "attention_copies"), 0);
  ck_assert_int_eq(count(&bare->work[PIECE_LAYER][PHASE_F], "attention_copies"), 0);
  ck_assert_int_eq(count(&bare->work[PIECE_LAYER][PHASE_B], "attention_copies.backward"), 0);
}

/* Under YaRN a framework of fused kernels reads and writes q and k; where it has single operations for the factor 12
 * passes forward and 14 back, of which 5 spread cosine and sine or negate half of the columns. */
TEST(a_factor_is_rotated_in_operations) {
  const double qk_bytes = 2.0 * 1024 * (256 + 128); /* keys of 2 heads */
  for (int scaled = FALSE; scaled <= TRUE; scaled++) {
    Model model = llama;
    model.scaled_rotation = scaled;
    for (int single = FALSE; single <= TRUE; single++) {
      g_autoptr(Plan) plan = plan_of(4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
      plan->time.scaled_rotation = single ? ROTATION_SINGLE : ROTATION_FUSED;
      g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
      const WorkList *work = workload->work[PIECE_LAYER];
      const WorkItem *f = find(&work[PHASE_F], "rope"), *b = find(&work[PHASE_B], "rope.backward");
      const gboolean apart = scaled && single;
      ck_assert_double_eq(f->bytes, (apart ? 12 : 2) * qk_bytes);
      ck_assert_double_eq(b->bytes, (apart ? 14 : 2) * qk_bytes);
      ck_assert_double_eq(f->strided_bytes, apart ? 5 * qk_bytes : 0);
      ck_assert_double_eq(b->strided_bytes, apart ? 5 * qk_bytes : 0);
      ck_assert_int_eq(f->n_launches, apart ? 24 : 0);
      ck_assert_int_eq(b->n_launches, apart ? 14 : 0);
      ck_assert_int_eq(count(&work[PHASE_W], "rope.backward"), 0);
    }
  }
}

int main(void) {
  return run_tests();
}
