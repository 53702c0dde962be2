/* Shared by follow.c and follow_clock.c, and private to them: the records being made, and what is ready when. */
#pragma once
#include "course.h"
#include "follow.h"

typedef struct {
  gint64 begin_ns, end_ns;
  guint ways;
} Interval;

typedef struct {
  Interval *intervals; /* owned */
  int n;
} IntervalList;

struct Follow {
  const Course *course;
  const Timing *timing;
  Trace *trace;
  guint *ways;            /* [transfers] bit set of the ways a transfer takes; 0: none, it takes its own time;
                             owned */
  const gint64 *begin_ns; /* as in Simulation */
  gint64 *offset_ns;      /* [ops] host time from the last barrier (none: from 0) to the op's issue; owned */
  gint64 *meeting_ns;     /* [meetings] latest (arrival + run) so far; owned */
  gint32 *n_coming;       /* [meetings] members still to arrive; owned */
  gint32 n_past;          /* leading steps whose records are final */
  gint32 n_made;          /* leading steps that have a record */
  gint32 *first_left;     /* [ranks] index of the first transfer that may not have ended; owned */
  gint32 *last_transfer;  /* [ranks] no later op is a transfer with a record; −1: none is; owned */
  gboolean has_ways;      /* some transfer takes a way */
  IntervalList out, in;   /* scratch: the transfers of one rank */
};

/* The latest end of what an op waits for, not counting its host. */
static inline gint64 follow_ready_time(const Follow *follow, const CourseStep *step) {
  const gint64 *end_ns = follow->trace->end_ns;
  gint64 ready_ns = step->before >= 0 ? end_ns[step->before] : 0;
  if (step->waits == COURSE_AFTER_MORE) {
    const Op *op = follow->course->ops[step->op];
    const gint32 first = step->after - op->after[0];
    for (int i = 0; i < OP_MAX_AFTER && op->after[i] >= 0; i++)
      ready_ns = MAX(ready_ns, end_ns[first + op->after[i]]);
    return ready_ns;
  }
  if (step->waits == COURSE_AFTER_BATCH) {
    for (gint32 a = step->after; a < step->after_too; a++)
      ready_ns = MAX(ready_ns, end_ns[follow->course->awaited[a]]);
    return ready_ns;
  }
  if (step->after >= 0)
    ready_ns = MAX(ready_ns, end_ns[step->after]);
  if (step->after_too >= 0)
    ready_ns = MAX(ready_ns, end_ns[step->after_too]);
  return ready_ns;
}

/* When everything the op waits for has ended, and (*issue_ns) when it is issued. Does not include the host's launch
 * of the op itself. */
static G_ALWAYS_INLINE inline gint64 follow_ready_and_issue(const Follow *follow, const CourseStep *step,
                                                            gint64 *issue_ns) {
  gint64 ready_ns = follow_ready_time(follow, step);
  *issue_ns = follow->offset_ns[step->op];
  if (step->barrier < 0)
    return follow->begin_ns != NULL ? MAX(ready_ns, follow->begin_ns[step->rank]) : ready_ns;
  *issue_ns += follow->trace->end_ns[step->barrier];
  return MAX(ready_ns, follow->trace->end_ns[step->barrier]);
}

/* Makes the record of a kernel or host op. */
static inline void follow_run_step(const Follow *follow, const CourseStep *step, gint64 ready_ns, gint64 issue_ns) {
  gint64 *start_ns = &follow->trace->start_ns[step->op], *end_ns = &follow->trace->end_ns[step->op];
  *start_ns = MAX(ready_ns, issue_ns);
  if (step->kind == COURSE_HOST) {
    *end_ns = *start_ns + timing_host_run_ns(follow->timing, step->work);
    return;
  }
  const OpTime *time = &follow->timing->works[step->work];
  *end_ns = MAX(ready_ns + time->run_ns, issue_ns + time->tail_ns);
}

static inline void follow_expect_members(const Follow *follow) {
  const Course *course = follow->course;
  for (int m = 0; m < course->n_meetings; m++) {
    follow->meeting_ns[m] = 0;
    follow->n_coming[m] = course->first_member[m + 1] - course->first_member[m];
  }
}
