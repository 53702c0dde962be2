#include "timeline_kinds.h"

static int compute_kind(ActionKind action) {
  static const int kinds[N_ACTIONS] = {
      [ACTION_F] = TIMELINE_F, [ACTION_I] = TIMELINE_I, [ACTION_W] = TIMELINE_W, [ACTION_B] = TIMELINE_B};
  return action_info(action)->is_compute ? kinds[action] : TIMELINE_OPTIMIZER;
}

int timeline_kind_of_axis(Axis axis) {
  static const int kinds[N_AXES] = {[AXIS_TP] = TIMELINE_TP,
                                    [AXIS_CP] = TIMELINE_CP,
                                    [AXIS_EP] = TIMELINE_EP,
                                    [AXIS_DP] = TIMELINE_DP,
                                    [AXIS_PP] = TIMELINE_PP};
  return kinds[axis];
}

int timeline_kind(Stream stream, ActionKind action) {
  switch (stream) {
  case STREAM_COMPUTE:
    return compute_kind(action);
  case STREAM_COPY:
    return TIMELINE_COPY_IN;
  case STREAM_COPY_OUT:
    return TIMELINE_COPY_OUT;
  case STREAM_HOST:
    return action == ACTION_OPTIMIZER ? TIMELINE_HOST_UPDATE : -1;
  default:
    return timeline_kind_of_axis(stream_info(stream)->axis);
  }
}
