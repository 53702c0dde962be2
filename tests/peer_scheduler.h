/* What the zero-bubble authors' own scheduler reaches on the times they profiled: bubble rates on stage spans, 1 − work
 * over span, to 4 digits; the facts of ../shared/reference/peer_runs.md, obtained by running it.
 *
 * Memory in its model: an F holds 34·h + 5·a·s of a micro-batch (s = 1024, its own test's), its W drops 32·h of it, its
 * I the rest. Caps in forwards of a stage: ZB-1p p, ZB-2p 2p; ZB-V, two chunks, 2p of a chunk; V-half and V-min count
 * an F until its W and hold at most p + 2 and 2·⌊(p + 4)/3⌋ chunks (arXiv 2405.15362, Table 1; its orders hold just
 * that). The times are of a chunk where there are two. */
#pragma once
#include "order_cost.h"

typedef enum { PEER_ZB_1P, PEER_ZB_2P, PEER_ZB_V, PEER_V_HALF, PEER_V_MIN, N_PEER_SCHEDULES } PeerSchedule;

static const char *const peer_schedule_names[] = {"ZB-1p", "ZB-2p", "ZB-V", "V-half", "V-min"};

typedef struct {
  int p, m;
  int f_us, i_us, w_us, send_us;
  int hidden, heads;
  double rates[N_PEER_SCHEDULES];
} PeerRow;

static const PeerRow peer_rows[] = {
    {8, 24, 18522, 18086, 9337, 601, 2304, 24, {.1585, .0433, .0603, .1610, .3175}},
    {8, 32, 18513, 18086, 9331, 626, 2304, 24, {.1242, .0039, .0462, .1262, .2912}},
    {8, 64, 18546, 18097, 9321, 762, 2304, 24, {.0674, .0026, .0246, .0684, .2516}},
    {8, 24, 29718, 29444, 19927, 527, 4096, 32, {.1323, .0029, .0349, .1397, .2613}},
    {16, 48, 11347, 11248, 8132, 377, 5120, 40, {.1397, .0066, .0393, .1592, .2715}},
    {16, 128, 11325, 11308, 8109, 378, 5120, 40, {.0576, .0028, .0153, .0664, .1847}},
    {32, 96, 10419, 10207, 7715, 408, 6144, 48, {.1422, .0038, .0406, .1673, .2772}},
    {32, 256, 10402, 10248, 7698, 460, 6144, 48, {.0594, .0018, .0166, .0708, .1924}},
    {8, 32, 10000, 10000, 10000, 0, 2304, 24, {.0680, .0000, .0000, .0813, .1233}},
};

/* The problem of a row's column; free with peer_problem_clear(). */
typedef struct {
  OrderProblem problem;
  Placement *placement;
  StageCost *stages;
  double *cap;
  gint64 work_ns; /* of a rank */
} PeerProblem;

static inline PeerProblem peer_problem(const PeerRow *row, PeerSchedule schedule) {
  gboolean is_v = schedule >= PEER_ZB_V, holds_until_w = schedule >= PEER_V_HALF;
  const double caps[] = {row->p, 2 * row->p, 2 * row->p, row->p + 2, 2 * ((row->p + 4) / 3)};
  double f = 34.0 * row->hidden + 5.0 * row->heads * 1024, w = holds_until_w ? f : 32.0 * row->hidden;
  PeerProblem peer = {.placement = placement_new(is_v ? PLACEMENT_V : PLACEMENT_LOOP, row->p, is_v ? 2 : 1)};
  peer.stages = g_new(StageCost, peer.placement->n_stages);
  for (int stage = 0; stage < peer.placement->n_stages; stage++)
    peer.stages[stage] = (StageCost){row->f_us * 1000, row->i_us * 1000, row->w_us * 1000, f, f - w, w};
  peer.cap = g_new(double, row->p);
  for (int rank = 0; rank < row->p; rank++)
    peer.cap[rank] = caps[schedule] * f;
  peer.work_ns = (gint64)(row->f_us + row->i_us + row->w_us) * 1000 * row->m * (is_v ? 2 : 1);
  peer.problem = (OrderProblem){peer.placement, row->m, peer.stages, row->send_us * 1000, peer.cap, FALSE};
  return peer;
}

static inline void peer_problem_clear(PeerProblem *peer) {
  placement_free(peer->placement);
  g_free(peer->stages);
  g_free(peer->cap);
}
