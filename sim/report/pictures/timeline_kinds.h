/* What timelines distinguish, by the numbers that plots/timeline.gp and plots/compare.gp use for the kinds. */
#pragma once
#include "program.h"

typedef enum {
  TIMELINE_F,
  TIMELINE_I,
  TIMELINE_W,
  TIMELINE_B,
  TIMELINE_OPTIMIZER,
  TIMELINE_TP,
  TIMELINE_CP,
  TIMELINE_EP,
  TIMELINE_DP,
  TIMELINE_PP,
  TIMELINE_IDLE,
  TIMELINE_COPY_IN, /* from host memory or drives */
  TIMELINE_COPY_OUT,
  TIMELINE_HOST_UPDATE, /* the optimizer, on the node's processors */
  N_TIMELINE_KINDS
} TimelineKind;

/* The kind of an action on a stream; −1: waits and reads of the host, which are not drawn. */
int timeline_kind(Stream stream, ActionKind action);
int timeline_kind_of_axis(Axis axis);
