/* An order in which the records of a Program can be worked out one by one, as long as no transfer slows another: every
 * op comes after all ops that must have ended before it starts, and ops that meet come after what the last of them
 * waits for. Ops of a batch start together, so each waits for whatever any of them waits for; of those on one stream
 * only the first waits so, and the others follow it. Made from a verified Program; depends on its ops alone, not on
 * times.
 *
 * Ops are numbered through all lists in a row, as records of a folded trace are. */
#pragma once
#include "program.h"

typedef enum {
  COURSE_COMPUTE,
  COURSE_HOST,
  COURSE_TRANSFER,   /* send, receive */
  COURSE_COLLECTIVE, /* members are copies of this list: in step */
  COURSE_MEETING,    /* collective with members on several pipeline ranks */
} CourseKind;

typedef enum {
  COURSE_AFTER_FEW,   /* after, after_too */
  COURSE_AFTER_MORE,  /* and the rest of Op.after */
  COURSE_AFTER_BATCH, /* Course.awaited [after, after_too): of all ops of its batch, before and barrier among them */
} CourseAfter;

typedef struct {
  gint32 op;
  gint32 before;    /* op before it on its stream; −1 none, as the others */
  gint32 after;     /* Op.after[0]; in a batch see CourseAfter */
  gint32 after_too; /* Op.after[1]; likewise */
  gint32 barrier;   /* latest OP_HOST before it in its list */
  gint32 work;      /* as Op.work */
  gint32 meets;     /* transfer: its partner; meeting: its number */
  guint16 rank;     /* whose list it is of */
  guint8 stream;    /* Stream */
  guint8 kind : 3;  /* CourseKind */
  guint8 waits : 2; /* CourseAfter */
  guint8 is_send : 1;
} CourseStep;

/* A transfer or collective, in list order. */
typedef struct {
  gint32 op, work;
  guint8 kind; /* OpKind */
} CourseTransfer;

/* What the host issues, in list order. */
typedef struct {
  gint32 work;
  guint8 kind; /* OpKind */
} CourseIssue;

struct Course {
  gint32 n_ops;
  CourseIssue *issues; /* [n_ops]; owned */
  CourseStep *steps;   /* [n_ops]; owned, as all below */
  const Op **ops;      /* [n_ops] */
  gint32 *open;        /* [n_ops]: steps s … open[s] − 1 wait for none from s on; all others from s on do */
  gint32 *first;       /* [ranks + 1] first op of each list */

  gint32 *place;           /* [n_ops] where the step of each op stands among steps */
  gint32 *n_awaited;       /* [n_ops] how often the op is a successor: of so many ops, or more often of some */
  gint32 *first_successor; /* [n_ops + 1] into successors */
  gint32 *successors;      /* ops that start when it, and all others that they are successors of, have ended */

  int n_meetings;
  gint32 *first_member; /* [meetings + 1] into members */
  gint32 *members;      /* ops */
  gint32 *awaited;      /* ops that batches wait for; NULL without batches */

  gint32 *first_transfer; /* [ranks + 1] into transfers */
  CourseTransfer *transfers;
  int most_transfers; /* of a rank */

  gboolean splits_batches; /* ops of a batch are on one stream, where they cannot start together */
};

/* `match` as program_match(). NULL for more ranks than a step can tell apart, and for a program that gets stuck: so a
 * course, if it splits no batch, proves what the untimed run does (verify.h). */
Course *course_new(const Program *program, gint32 *const *match);
void course_free(Course *course);
