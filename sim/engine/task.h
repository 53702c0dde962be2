/* A Program's op lists made ready to run: one Task per op, with its times looked up, its place on its stream, and whom
 * it meets. Built once per pipeline rank and shared by all ranks of it. */
#pragma once
#include "trace.h"

/* One cache line: what the engine reads of an op. */
typedef struct {
  gint64 run_ns; /* as OpTime */
  union {
    gint64 tail_ns;   /* compute */
    gint64 launch_ns; /* communication: host time from issue to arrival */
  };
  gint64 issue_offset_ns;     /* host time from the end of `barrier` (or 0) to the issue of this op */
  gint32 after[OP_MAX_AFTER]; /* as Op.after */
  gint32 barrier;             /* latest OP_HOST before this op; −1 none */
  gint32 next;                /* next op on the same stream; −1 none */
  gint32 next_in_batch;       /* ring over the batch's first op on each stream; −1 alone */
  union {
    gint32 peer_offset; /* send, receive: recorded rank of the partner − own recorded rank */
    gint32 group;       /* collective */
  };
  union {
    gint32 match; /* send, receive: the partner's op in its list */
    gint32 slot;  /* collective: which of the group's open collectives this is (see meeting.h) */
  };
  guint8 kind; /* OpKind */
  guint8 stream;
  guint8 n_after;
  guint8 is_eager; /* send, receive: the send does not wait for the receive */
} Task;

typedef struct {
  Task *tasks; /* owned */
  int n_tasks;
  gint32 head[N_STREAMS]; /* first op on each stream; −1 none */
} TaskList;

/* [pipeline ranks of trace]. The program's sends and receives must match. */
TaskList *task_lists_new(const Trace *trace, gint64 eager_bytes);
void task_lists_free(TaskList *lists, int n_lists);
