/* An order in which the records of a Program can be computed one by one, as long as no transfer slows another. Every
 * op comes after all ops that must have ended before it starts. Of ops that meet (send and receive, members of a
 * collective) only the last comes after everything that any of them waits for: there their end is known, and what
 * waits for any of them comes after it. Ops of a batch start together, so each waits for whatever any of them waits
 * for; if several are on one stream, only the first does, and the others follow it. Made from a verified Program;
 * depends only on its ops, not on times.
 *
 * Ops are numbered consecutively through all lists, like the records of a folded trace. */
#pragma once
#include "program.h"

typedef enum {
  COURSE_COMPUTE,
  COURSE_HOST,
  COURSE_TRANSFER,   /* send, receive */
  COURSE_COLLECTIVE, /* all members are copies of this list, in step with it */
  COURSE_MEETING,    /* collective with members on several pipeline ranks */
} CourseKind;

typedef enum {
  COURSE_AFTER_FEW,   /* only after and after_too */
  COURSE_AFTER_MORE,  /* those and the rest of Op.after */
  COURSE_AFTER_BATCH, /* Course.awaited [after, after_too): the whole batch's, with before and barrier */
} CourseAfter;

typedef struct {
  gint32 op;
  gint32 before;    /* previous op on its stream; −1 none, as below */
  gint32 after;     /* Op.after[0]; for a batch see CourseAfter */
  gint32 after_too; /* Op.after[1]; likewise */
  gint32 barrier;   /* latest OP_HOST before it in its list */
  gint32 work;      /* as Op.work */
  gint32 meets;     /* transfer: its partner; meeting: number of the meeting */
  guint16 rank;     /* whose list it is in */
  guint8 stream;    /* Stream */
  guint8 kind : 3;  /* CourseKind */
  guint8 waits : 2; /* CourseAfter */
  guint8 is_send : 1;
} CourseStep;

/* A transfer or collective; kept in list order. */
typedef struct {
  gint32 op, work;
  guint8 kind; /* OpKind */
} CourseTransfer;

/* What the host issues; kept in list order. */
typedef struct {
  gint32 work;
  guint8 kind; /* OpKind */
} CourseIssue;

struct Course {
  gint32 n_ops;
  CourseIssue *issues; /* [n_ops]; owned */
  CourseStep *steps;   /* [n_ops]; owned, as all below */
  const Op **ops;      /* [n_ops] */
  gint32 *open;        /* [n_ops]: steps s … open[s] − 1 wait for no step from s on; all later steps do */
  gint32 *first;       /* [ranks + 1] first op of each list */

  gint32 *place;           /* [n_ops] index of each op's step in `steps` */
  gint32 *n_awaited;       /* [n_ops] entries of `successors` that are this op: duplicates count */
  gint32 *first_successor; /* [n_ops + 1] into successors */
  gint32 *successors;      /* ops that can start once this op, and all others they succeed, have ended */

  int n_meetings;
  gint32 *first_member; /* [meetings + 1] into members */
  gint32 *members;      /* ops */
  gint32 *awaited;      /* ops that batches wait for; NULL: no batches */

  gint32 *first_transfer; /* [ranks + 1] into transfers */
  CourseTransfer *transfers;
  int most_transfers; /* most on any rank */

  gboolean splits_batches; /* some batch has several ops on one stream, which cannot start together */
};

/* `match` as from program_match(). NULL for more ranks than a step can number, and for a program that gets stuck: so
 * a course that splits no batch proves the same as the untimed run (verify.h). */
Course *course_new(const Program *program, gint32 *const *match);
void course_free(Course *course);
