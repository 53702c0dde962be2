/* A Program's ops as steps, in an order in which each follows from the ones before it: a run whose transfers do not
 * slow each other is one pass of maxima and sums over the tape. It depends on the ops alone, not on times, so runs of
 * one structure share it.
 *
 * An op comes after everything that must have ended before it starts. Of ops that meet (send and receive, members of a
 * collective) only the last comes after everything that any of them waits for: there their end is known, and what
 * waits for any of them comes after it. Ops of a batch start together, so each waits for whatever any of them waits
 * for; of several on one stream only the first does, and the others follow it.
 *
 * Ops are numbered through all lists, like the records of a folded trace. */
#pragma once
#include "program.h"

typedef enum {
  TAPE_COMPUTE,
  TAPE_HOST,
  TAPE_SEND,
  TAPE_RECEIVE,
  TAPE_COLLECTIVE, /* all members run this list, in step with it if folded */
  TAPE_MEETING,    /* a collective with members on several pipeline ranks */
} TapeKind;

typedef struct {
  gint32 op;
  gint32 first_awaited; /* into Tape.awaited */
  gint32 barrier;       /* latest OP_HOST before it in its list; −1: none */
  gint32 work;          /* as Op.work; of a host op as program_host_work() */
  gint32 meets;         /* send, receive: the partner; meeting: its number; otherwise −1 */
  gint32 rank;          /* pipeline rank whose list it is in */
  guint8 n_awaited;
  guint8 kind; /* TapeKind */
  guint8 stream;
} TapeStep;

static inline gboolean tape_is_transfer(const TapeStep *step) {
  return step->kind >= TAPE_SEND;
}

typedef struct Tape {
  gint32 n_ops;
  int n_ranks;
  gint32 **match; /* of program_number(), as is `count`; owned */
  int *count;
  gint32 *first;     /* [ranks + 1] first op of each list; owned, as are all below */
  TapeStep *steps;   /* [n_ops] */
  gint32 *place;     /* [n_ops] the step of each op */
  gint32 *open;      /* [n_ops] steps s … open[s] − 1 wait for no step from s on; all later steps do */
  gint32 *awaited;   /* ops */
  guint8 *n_awaited; /* [n_ops] how many each op waits for */

  gint32 *first_successor; /* [n_ops + 1] into successors */
  gint32 *successors;      /* ops that wait for this one, as often as they have it in `awaited` */

  int n_meetings;
  gint32 *first_member; /* [meetings + 1] into members */
  gint32 *members;      /* ops */

  gint32 *first_transfer; /* [ranks + 1] into transfers */
  gint32 *transfers;      /* ops that are sends, receives or collectives, in list order */
  int most_transfers;     /* of a rank */
} Tape;

/* Of a verified Program. NULL: it gets stuck. */
Tape *tape_new(const Program *program);
void tape_free(Tape *tape);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Tape, tape_free)

/* Of the Program, or its pattern, which keeps it; made on first use, by one thread. NULL: it gets stuck. */
const Tape *program_tape(Program *program);
/* NULL: not made. */
const Tape *program_known_tape(const Program *program);

static inline const TapeStep *tape_step(const Tape *tape, gint32 op) {
  return &tape->steps[tape->place[op]];
}
