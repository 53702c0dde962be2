/* What a piece's list of work is cut into when compute ops become runs of kernels (pass_expand.c): collectives, and
 * stretches of kernels without one in them, that nothing waits for but at their end, and that wait for nothing but at
 * their start. */
#pragma once
#include "workload.h"

typedef struct {
  gboolean is_collective;
  gboolean is_awaited; /* the host issues it when the run before has ended */
  int axis;            /* of a collective */
  int first_item, last_item;
  int waits_for; /* segment on the other stream; −1: where the piece begins */
  gint32 entry;  /* its work or transfer in the expanded program; −1: none yet */
} Segment;

typedef struct {
  Segment *segments; /* owned */
  int n_segments;
} SegmentList;

typedef struct {
  SegmentList of[N_PIECES][N_PHASES]; /* the optimizer's are empty */
} Segments;

void segments_init(Segments *segments, const Workload *workload);
void segments_clear(Segments *segments);
