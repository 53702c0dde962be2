/* What the tests of the engine share. */
#pragma once
#include "engine.h"
#include "hand_program.h"

#include <check.h>

#define ASSERT_RECORD(trace, rank, op, expected_start_ns, expected_end_ns)                                             \
  do {                                                                                                                 \
    ck_assert_int_eq((trace)->start_ns[(trace)->first[rank] + (op)], expected_start_ns);                               \
    ck_assert_int_eq((trace)->end_ns[(trace)->first[rank] + (op)], expected_end_ns);                                   \
  } while (0)

static inline gint64 issue_of(const Trace *trace, int rank, int op) {
  return trace->issue_ns[trace->first[rank] + op];
}

/* tp innermost, then dp, then pp: the default order without cp and ep. */
static inline Layout layout_of(int tp, int dp, int pp) {
  Layout layout = {.size = {[AXIS_TP] = tp, [AXIS_CP] = 1, [AXIS_EP] = 1, [AXIS_DP] = dp, [AXIS_PP] = pp},
                   .stride = {[AXIS_TP] = 1, [AXIS_CP] = tp, [AXIS_EP] = tp, [AXIS_DP] = tp, [AXIS_PP] = tp * dp},
                   .dp_shard = dp,
                   .n_ranks = tp * dp * pp};
  return layout;
}

static const Group dp_group = {.name = "dp", .axes = AXIS_BIT(AXIS_DP), .pp_first = -1, .pp_last = -1};
static const Group world_group = {
    .name = "world", .axes = AXIS_BIT(AXIS_TP), .spans_pp = TRUE, .pp_first = -1, .pp_last = -1};
