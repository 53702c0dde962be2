/* The boxes of a timeline as rows of data for gnuplot: lane, side where there are two, kind, start, end, chunk,
 * micro-batch. Boxes of one kind closer to each other than a fraction of a pixel are joined into one: a step of 405B
 * has a million collectives, a screen has two thousand columns. */
#pragma once
#include "timeline_kinds.h"

typedef struct {
  gint64 start_ns, end_ns;
  int kind;               /* TimelineKind */
  int chunk, micro_batch; /* chunk 0, micro_batch −1 where the kind has none */
} TimelineBox;

enum { TIMELINE_ONE_SIDE = -1 };

typedef struct {
  GString *data;  /* the rows so far; the owner's */
  double unit_ns; /* of the times written */
  gint64 join_ns; /* gaps up to this are not seen */
  int lane;
  int side;                              /* TIMELINE_ONE_SIDE: no such column */
  TimelineBox pending[N_TIMELINE_KINDS]; /* the last box of each kind, not yet written; end_ns < 0: none */
} TimelineBoxes;

/* Steps are drawn in this many fractions: finer than a picture's 1,600 pixels, coarse enough for its file. */
enum { TIMELINE_SPANS_PER_LANE = 6000 };

/* A lane (and side) begins: all of it idle, drawn first, so that gaps show it. */
void timeline_boxes_begin(TimelineBoxes *boxes, gint64 end_ns);
/* Makes the last box of this kind longer where this one goes on with it; FALSE: it does not. */
gboolean timeline_boxes_join(TimelineBoxes *boxes, const TimelineBox *box);
/* A box that is not joined; the last of its kind is written. */
void timeline_boxes_add(TimelineBoxes *boxes, const TimelineBox *box);
/* Writes what is pending. */
void timeline_boxes_end(TimelineBoxes *boxes);
