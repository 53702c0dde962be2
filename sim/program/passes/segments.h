/* The segments of a piece's work list when compute ops become runs of kernels (pass_expand.c): collectives, and
 * stretches of kernels between them; others wait only for a stretch's end, and it waits for others only at its
 * start. */
#pragma once
#include "workload.h"

typedef struct {
  gboolean is_collective;
  gboolean is_awaited; /* the host issues it only after the preceding run has ended */
  int axis;            /* of a collective */
  int first_item, last_item;
  int waits_for; /* segment on another stream; −1: the start of the piece */
  gint32 entry;  /* work or transfer in the expanded program; −1: none yet */
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
