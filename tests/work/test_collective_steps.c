/* Collectives step by step: for every number of GPUs, all end with what the operation promises, in as many steps and
 * bytes as theory says. */
#include "collective_text.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

/* The state after all steps; a value added twice or a chunk that is not there yet aborts. */
static ChunkState end_of(const CollectiveSteps *steps) {
  ChunkState state;
  collective_steps_start(steps, &state);
  for (int step = 1; step <= steps->n_steps; step++)
    collective_steps_advance(steps, step, &state);
  return state;
}

/* Chunks that the GPU has in full. */
static int n_complete(const CollectiveSteps *steps, const ChunkState *state, int gpu) {
  int n = 0;
  for (int chunk = 0; chunk < steps->n_chunks; chunk++)
    n += state->of[gpu][chunk] == (1u << steps->n_gpus) - 1;
  return n;
}

static int sends_from(const CollectiveSteps *steps, int gpu) {
  int n = 0;
  for (guint i = 0; i < steps->sends->len; i++)
    n += g_array_index(steps->sends, ChunkSend, i).from == gpu;
  return n;
}

TEST(a_ring_all_reduce_ends_everywhere_after_two_laps) {
  for (int n = 2; n <= MAX_STEPS_GPUS; n++) {
    CollectiveSteps steps = collective_steps_ring(COLLECTIVE_ALL_REDUCE, n);
    ChunkState state = end_of(&steps);
    /* 2(n − 1) steps; each GPU sends a chunk of S/n in each: 2(n − 1)/n·S */
    ck_assert_int_eq(steps.n_steps, 2 * (n - 1));
    for (int gpu = 0; gpu < n; gpu++) {
      ck_assert_int_eq(n_complete(&steps, &state, gpu), n);
      ck_assert_double_eq_tol(sends_from(&steps, gpu) / (double)n, collective_sent_bytes(COLLECTIVE_ALL_REDUCE, n, 1),
                              1e-12);
    }
    collective_steps_clear(&steps);
  }
}

TEST(a_naive_all_reduce_takes_as_many_steps_with_all_of_the_buffer) {
  for (int n = 2; n <= MAX_STEPS_GPUS; n++) {
    CollectiveSteps steps = collective_steps_naive(n);
    ChunkState state = end_of(&steps);
    ck_assert_int_eq(steps.n_steps, 2 * (n - 1));
    ck_assert_int_eq(sends_from(&steps, 0), n - 1);
    for (int gpu = 0; gpu < n; gpu++)
      ck_assert_int_eq(n_complete(&steps, &state, gpu), 1);
    collective_steps_clear(&steps);
  }
}

TEST(half_an_all_reduce_is_a_lap) {
  for (int n = 2; n <= MAX_STEPS_GPUS; n++) {
    CollectiveSteps scatter = collective_steps_ring(COLLECTIVE_REDUCE_SCATTER, n);
    CollectiveSteps gather = collective_steps_ring(COLLECTIVE_ALL_GATHER, n);
    ChunkState scattered = end_of(&scatter), gathered = end_of(&gather);
    ck_assert_int_eq(scatter.n_steps, n - 1);
    ck_assert_int_eq(gather.n_steps, n - 1);
    for (int gpu = 0; gpu < n; gpu++) {
      ck_assert_uint_eq(scattered.of[gpu][gpu], (1u << n) - 1); /* its own chunk, and only that */
      ck_assert_int_eq(n_complete(&scatter, &scattered, gpu), 1);
      ck_assert_int_eq(n_complete(&gather, &gathered, gpu), n);
    }
    collective_steps_clear(&scatter);
    collective_steps_clear(&gather);
  }
}

/* In one step and tree nobody sends twice or receives twice. */
static gboolean takes_turns(const CollectiveSteps *steps) {
  gboolean sent[64][2][MAX_STEPS_GPUS] = {{{0}}}, received[64][2][MAX_STEPS_GPUS] = {{{0}}};
  for (guint i = 0; i < steps->sends->len; i++) {
    const ChunkSend *send = &g_array_index(steps->sends, ChunkSend, i);
    gboolean *out = &sent[send->step][send->chunk][send->from], *in = &received[send->step][send->chunk][send->to];
    if (*out || *in)
      return FALSE;
    *out = *in = TRUE;
  }
  return TRUE;
}

TEST(both_trees_reach_everyone) {
  for (int n = 2; n <= MAX_STEPS_GPUS; n++) {
    CollectiveSteps steps = collective_steps_tree(n);
    ChunkState state = end_of(&steps);
    for (int gpu = 0; gpu < n; gpu++)
      ck_assert_int_eq(n_complete(&steps, &state, gpu), 2);
    /* n − 1 edges, up and down, in both trees; never more steps than a chain would take */
    ck_assert_uint_eq(steps.sends->len, 4 * (n - 1));
    ck_assert_int_le(steps.n_steps, 2 * (n - 1) + 2);
    ck_assert(takes_turns(&steps));
    collective_steps_clear(&steps);
  }
}

TEST(an_inner_node_of_one_tree_is_a_leaf_of_the_other) {
  CollectiveSteps steps = collective_steps_tree(8);
  gboolean adds[2][8] = {{0}};
  for (guint i = 0; i < steps.sends->len; i++) {
    const ChunkSend *send = &g_array_index(steps.sends, ChunkSend, i);
    if (send->adds)
      adds[send->chunk][send->to] = TRUE;
  }
  for (int gpu = 0; gpu < 8; gpu++)
    ck_assert_int_eq(adds[0][gpu] + adds[1][gpu], 1);
  collective_steps_clear(&steps);
}

TEST(the_drawing_shows_sends_and_sums) {
  CollectiveSteps steps = collective_steps_ring(COLLECTIVE_ALL_REDUCE, 3);
  g_autoptr(GString) out = g_string_new(NULL);
  text_collective_steps(&steps, out);
  g_auto(GStrv) lines = g_strsplit(out->str, "\n", -1);
  ck_assert_uint_eq(g_strv_length(lines), 7); /* head, start, 4 steps, nothing after the last line's end */
  /* step 1: GPU i sends chunk i − 1: 0 sends c, 1 sends a, 2 sends b; each receiver then has two values of it */
  ck_assert_ptr_nonnull(strstr(lines[2], "1  reduce-scatter  0>1 c   1>2 a   2>0 b"));
  ck_assert_ptr_nonnull(strstr(lines[2], "|  121  112  211"));
  ck_assert_ptr_nonnull(strstr(lines[5], "|  ***  ***  ***"));
  collective_steps_clear(&steps);
}

int main(void) {
  return run_tests();
}
