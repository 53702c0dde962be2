/* Ops of small hand-written traces, and their expected charges. */
#pragma once
#include "metrics.h"

#include <check.h>

#include "hand_trace.h"

G_GNUC_UNUSED static const Group dp_group = {
    .name = "dp", .axes = AXIS_BIT(AXIS_DP), .pp_first = -1, .pp_last = -1, .charge = AXIS_DP};
G_GNUC_UNUSED static const Group tp_group = {
    .name = "tp", .axes = AXIS_BIT(AXIS_TP), .pp_first = -1, .pp_last = -1, .charge = AXIS_TP};
G_GNUC_UNUSED static const Group world_group = {
    .name = "world", .spans_pp = TRUE, .pp_first = -1, .pp_last = -1, .charge = AXIS_PP};

/* Checks every charge of a rank, in the order of BreakdownKind; those not given must be 0. */
static inline void check_ns(const Metrics *metrics, int rank, RankBreakdown expected) {
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    ck_assert_msg(metrics->ranks[rank].ns[kind] == expected.ns[kind],
                  "rank %d, %s: %" G_GINT64_FORMAT " ns, not %" G_GINT64_FORMAT, rank, breakdown_name(kind),
                  metrics->ranks[rank].ns[kind], expected.ns[kind]);
}

static inline Op forward(Hand *hand, int rank, int micro_batch) {
  return hand_compute(hand, rank, PHASE_F, ACTION_F, micro_batch);
}

static inline Op backward(Hand *hand, int rank, int micro_batch) {
  return hand_compute(hand, rank, PHASE_B, ACTION_B, micro_batch);
}

static inline Op optimizer(Hand *hand, int rank) {
  return hand_compute(hand, rank, PHASE_OPTIMIZER, ACTION_OPTIMIZER, -1);
}

static inline Op reduce_grad(Hand *hand) {
  return hand_collective(hand, &dp_group, STREAM_DP, ACTION_REDUCE_GRAD, 1e6);
}

static inline Op norm(Hand *hand) {
  return hand_collective(hand, &world_group, STREAM_DP, ACTION_NORM, 4);
}
