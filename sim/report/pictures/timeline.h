/* A picture of the step: per pipeline rank, a lane with its compute stream and thin lanes below it with its
 * communication. Drawn by plots/timeline.gp. */
#pragma once
#include "picture.h"
#include "program.h"
#include "trace.h"
#include "units.h"

/* The time axis is in `unit`, which for the relative times of bare orders is not a unit of time. A terminal of that
 * many columns gets the drawing of draw_schedule(); 0: none is made. Owned by the caller; NULL with INPUT if nothing
 * takes any time, or a send of the program has no receive. */
Picture *timeline_picture(const Trace *trace, TimeUnit unit, const char *title, int columns, GError **error);

/* The boxes of a timeline as rows of data for gnuplot: lane, side (if there are two), kind, start, end, chunk,
 * micro-batch. Boxes of one kind separated by less than a fraction of a pixel are merged: a step of 405B has a
 * million collectives, a screen two thousand columns. */

/* What timelines distinguish, by the numbers that plots/timeline.gp and plots/compare.gp use for the kinds. */
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

typedef struct {
  gint64 start_ns, end_ns;
  int kind;               /* TimelineKind */
  int chunk, micro_batch; /* chunk 0, micro_batch −1 if the kind has none */
} TimelineBox;

enum { TIMELINE_ONE_SIDE = -1 };

typedef struct {
  GString *data;  /* the rows so far; owned by the caller */
  double unit_ns; /* unit of the times written */
  gint64 join_ns; /* gaps up to this are closed */
  int lane;
  int side;                              /* TIMELINE_ONE_SIDE: no such column */
  TimelineBox pending[N_TIMELINE_KINDS]; /* the last box of each kind, not yet written; end_ns < 0: none */
} TimelineBoxes;

/* A step is drawn in this many fractions: finer than a picture's 1,600 pixels, coarse enough for its file size. */
enum { TIMELINE_SPANS_PER_LANE = 6000 };

/* Start a lane (and side): drawn idle over its whole length first, so that gaps show as idle. */
void timeline_boxes_begin(TimelineBoxes *boxes, gint64 end_ns);
/* Extends the last box of this kind if this one continues it; FALSE: it does not. */
gboolean timeline_boxes_join(TimelineBoxes *boxes, const TimelineBox *box);
/* A box that is not merged; writes out the last one of its kind. */
void timeline_boxes_add(TimelineBoxes *boxes, const TimelineBox *box);
/* Write out what is pending. */
void timeline_boxes_end(TimelineBoxes *boxes);
