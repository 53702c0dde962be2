/* A Program's op lists prepared for running: one Task per op, with its place on its stream and whom it meets. Built
 * once per pipeline rank and shared by all its ranks. */
#pragma once
#include "meeting.h"

enum { CACHE_LINE_BYTES = 64 };

typedef enum {
  TASK_IS_EAGER = 1 << 0,     /* send, receive: the send does not wait for the receive */
  TASK_IN_BATCH = 1 << 1,     /* other ops start with it: TaskList.next_in_batch */
  TASK_AFTER_HOST = 1 << 2,   /* an OP_HOST precedes it: TaskList.barrier */
  TASK_AFTER_OTHERS = 1 << 3, /* Op.after has more than one entry */
} TaskFlags;

/* What the engine reads of every op: half a cache line. Rarely needed fields are kept elsewhere. */
typedef struct {
  gint64 issue_offset_ns; /* host time from the end of the preceding OP_HOST to the issue of this op; without one: the
                             issue time */
  gint32 next;            /* next op on the same stream; −1 none */
  gint32 work;            /* as Op.work; for a host op as program_host_work() */
  gint32 after;           /* first entry of Op.after; −1 none */
  union {
    gint32 peer_offset; /* send, receive: recorded rank of the partner − own recorded rank */
    gint32 group;       /* collective */
  };
  union {
    gint32 match; /* send, receive: the partner's op in its list */
    gint32 slot;  /* collective: see meeting.h */
  };
  guint8 kind;         /* OpKind */
  guint8 stream;       /* Stream */
  guint8 flags;        /* TaskFlags */
  guint8 after_stream; /* stream of `after` */
} Task;

typedef struct {
  const Op *ops; /* borrowed */
  Task *tasks;   /* one block for all lists, owned by the first */
  int n_tasks;
  gint32 head[N_STREAMS]; /* first op on each stream; −1 none */
  gint32 *barrier;        /* latest OP_HOST before each op, −1 none; owned; NULL when no op has one */
  gint32 *next_in_batch;  /* ring through the first op of the batch on each stream; owned; NULL without batches */
} TaskList;

/* Returns [pipeline ranks of the trace] and numbers the collectives. The program's sends and receives must match. */
TaskList *task_lists_new(const Trace *trace, gint64 eager_bytes, Meetings *meetings);
void task_lists_free(TaskList *lists, int n_lists);
