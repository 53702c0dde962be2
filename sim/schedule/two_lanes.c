#include "two_lanes.h"

void two_lanes_init(TwoLanes *lanes, Order *order, int rank, const int stage[2]) {
  const Placement *placement = order->placement;
  int m = order->n_micro_batches, of_first_pipe = m;
  while (micro_batch_pipe(of_first_pipe - 1, m, placement->n_pipes) > 0)
    of_first_pipe--;
  *lanes = (TwoLanes){.order = order, .rank = rank, .inputs = g_array_new(FALSE, FALSE, sizeof(LanePass))};
  for (int lane = 0; lane < 2; lane++) {
    gboolean is_second_pipe = stage[lane] / (placement->n_stages / placement->n_pipes) == 1;
    lanes->stage[lane] = stage[lane];
    lanes->first[lane] = is_second_pipe ? of_first_pipe : 0;
    lanes->n_micro_batches[lane] = is_second_pipe ? m - of_first_pipe : of_first_pipe;
  }
}

void two_lanes_clear(TwoLanes *lanes) {
  g_clear_pointer(&lanes->inputs, g_array_unref);
}

/* Whether the pass was added. */
static gboolean add(TwoLanes *lanes, ActionKind kind, int lane, int micro_batch) {
  if (micro_batch >= lanes->n_micro_batches[lane])
    return FALSE;
  order_add(lanes->order, lanes->rank, kind, lanes->stage[lane], lanes->first[lane] + micro_batch);
  return TRUE;
}

void two_lanes_forward(TwoLanes *lanes, int lane) {
  add(lanes, ACTION_F, lane, lanes->n_forward[lane]++);
}

void two_lanes_backward(TwoLanes *lanes, int lane) {
  add(lanes, ACTION_B, lane, lanes->n_backward[lane]++);
}

void two_lanes_input(TwoLanes *lanes, int lane) {
  LanePass pass = {lane, lanes->n_backward[lane]++};
  add(lanes, ACTION_I, lane, pass.micro_batch);
  g_array_append_val(lanes->inputs, pass);
}

void two_lanes_weight(TwoLanes *lanes) {
  if (lanes->n_weights == lanes->inputs->len)
    return;
  LanePass pass = g_array_index(lanes->inputs, LanePass, lanes->n_weights++);
  add(lanes, ACTION_W, pass.lane, pass.micro_batch);
}

void two_lanes_all_weights(TwoLanes *lanes) {
  while (lanes->n_weights < lanes->inputs->len)
    two_lanes_weight(lanes);
}

void two_lanes_pair(TwoLanes *lanes, int forward_lane, int backward_lane) {
  gboolean has_forward = add(lanes, ACTION_F, forward_lane, lanes->n_forward[forward_lane]++);
  gboolean has_backward = add(lanes, ACTION_B, backward_lane, lanes->n_backward[backward_lane]++);
  GArray *actions = lanes->order->actions[lanes->rank];
  if (has_forward && has_backward)
    g_array_index(actions, Action, actions->len - 2).overlaps_next = TRUE;
}
