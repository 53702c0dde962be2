/* Kahn's algorithm. An op whose predecessors have all ended is posted, which gives it its place in the order. A
 * posted op ends at once; ops that meet end when all of them are posted. An ended op releases its successors. The
 * queue is first in, first out, so all ranks advance side by side, roughly as they do in time. */
#include "course.h"
#include "op_batches.h"

#include <string.h>

typedef struct {
  Course *course;
  const Program *program;
  CourseStep *of;    /* [ops] step of each op */
  gint32 *n_awaited; /* [ops] predecessors that have not ended yet */
  gint32 *n_coming;  /* [meetings] members not posted yet */
  gint32 *ready;     /* [ops] in the order in which they become ready */
  gint32 n_ready, n_posted;
  guint8 *is_posted; /* [ops] */
  gint32 *batch;     /* [ops] number of the batch it starts with; −1: starts alone; NULL: no batches */
  gint32 n_batches;
} Builder;

static const Group *group_of(const Program *program, const Op *op) {
  return &g_array_index(program->groups, Group, g_array_index(program->transfers, Transfer, op->work).group);
}

static inline CourseKind kind_of(const Program *program, const Op *op) {
  static const CourseKind kinds[] = {[OP_COMPUTE] = COURSE_COMPUTE,
                                     [OP_SEND] = COURSE_TRANSFER,
                                     [OP_RECV] = COURSE_TRANSFER,
                                     [OP_COLLECTIVE] = COURSE_COLLECTIVE,
                                     [OP_HOST] = COURSE_HOST};
  if (op->kind == OP_COLLECTIVE && group_of(program, op)->spans_pp)
    return COURSE_MEETING;
  return kinds[op->kind];
}

static inline gint32 in_row(gint32 first, gint32 op) {
  return op < 0 ? -1 : first + op;
}

static void describe_rank(Builder *builder, int rank, gint32 *const *match) {
  const OpList *list = &builder->program->ranks[rank];
  Course *course = builder->course;
  gint32 first = course->first[rank], last[N_STREAMS]; /* both numbered through all lists; −1: none yet */
  gint32 n_transfers = course->first_transfer[rank];
  memset(last, 0xff, sizeof last);
  for (gint32 i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    CourseStep *step = &builder->of[first + i];
    course->ops[first + i] = op;
    course->issues[first + i] = (CourseIssue){op->work, op->kind};
    *step = (CourseStep){.op = first + i,
                         .before = last[op->stream],
                         .after = in_row(first, op->after[0]),
                         .after_too = in_row(first, op->after[1]),
                         .barrier = last[STREAM_HOST],
                         .work = program_host_work(op),
                         .meets = -1,
                         .kind = kind_of(builder->program, op),
                         .rank = (guint16)rank,
                         .stream = op->stream,
                         .is_send = op->kind == OP_SEND,
                         .waits = op->after[2] >= 0 ? COURSE_AFTER_MORE : COURSE_AFTER_FEW};
    if (step->kind == COURSE_TRANSFER)
      step->meets = course->first[op->peer] + match[rank][i];
    if (step->kind >= COURSE_TRANSFER)
      course->transfers[n_transfers++] = (CourseTransfer){first + i, op->work, op->kind};
    last[op->stream] = first + i;
  }
  course->first_transfer[rank + 1] = n_transfers;
  course->most_transfers = MAX(course->most_transfers, n_transfers - course->first_transfer[rank]);
}

/* Collectives of one group over several pipeline ranks, rank by rank, the same number on each. */
typedef struct {
  GArray *ops; /* of gint32; NULL: none yet */
  int last_rank, n_members;
} Sequence;

static Sequence *sequences_of(const Builder *builder) {
  const Course *course = builder->course;
  const Program *program = builder->program;
  Sequence *sequences = g_new0(Sequence, program->groups->len);
  for (int rank = 0; rank < program->n_ranks; rank++)
    for (gint32 t = course->first_transfer[rank]; t < course->first_transfer[rank + 1]; t++) {
      const CourseTransfer *transfer = &course->transfers[t];
      if (builder->of[transfer->op].kind != COURSE_MEETING)
        continue;
      Sequence *sequence = &sequences[g_array_index(program->transfers, Transfer, transfer->work).group];
      if (sequence->ops == NULL)
        *sequence = (Sequence){g_array_new(FALSE, FALSE, sizeof(gint32)), -1, 0};
      g_array_append_val(sequence->ops, transfer->op);
      sequence->n_members += sequence->last_rank != rank;
      sequence->last_rank = rank;
    }
  return sequences;
}

/* The k-th collective of a group on one member is the k-th on every member. */
static void number_meetings(Builder *builder) {
  Course *course = builder->course;
  const guint n_groups = builder->program->groups->len;
  g_autofree Sequence *sequences = sequences_of(builder);
  g_autoptr(GArray) firsts = g_array_new(FALSE, FALSE, sizeof(gint32)); /* into members */
  g_autoptr(GArray) members = g_array_new(FALSE, FALSE, sizeof(gint32));
  for (guint g = 0; g < n_groups; g++) {
    const Sequence *sequence = &sequences[g];
    int n_each = sequence->ops != NULL ? (int)sequence->ops->len / sequence->n_members : 0;
    for (int k = 0; k < n_each; k++) {
      g_array_append_val(firsts, members->len);
      for (int member = 0; member < sequence->n_members; member++) {
        gint32 op = g_array_index(sequence->ops, gint32, member * n_each + k);
        g_array_append_val(members, op);
        builder->of[op].meets = course->n_meetings;
      }
      course->n_meetings++;
    }
    if (sequence->ops != NULL)
      g_array_unref(sequence->ops);
  }
  g_array_append_val(firsts, members->len);
  course->first_member = (gint32 *)(void *)g_array_free(g_steal_pointer(&firsts), FALSE);
  course->members = (gint32 *)(void *)g_array_free(g_steal_pointer(&members), FALSE);
}

/* What an op itself waits for: the previous op on its stream, its `after`, the host. */
enum { MOST_AWAITED = OP_MAX_AFTER + 2 };
static int awaited_alone(const Builder *builder, gint32 index, gint32 found[MOST_AWAITED]) {
  const CourseStep *step = &builder->of[index];
  const Op *op = builder->course->ops[index];
  int n = 0;
  if (step->before >= 0)
    found[n++] = step->before;
  if (step->barrier >= 0)
    found[n++] = step->barrier;
  if (step->after < 0)
    return n;
  gint32 first = step->after - op->after[0];
  for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++)
    found[n++] = first + op->after[k];
  return n;
}

/* For each stream, numbers the first op of a batch. */
static void number_batches(Builder *builder, int rank) {
  const OpList *list = &builder->program->ranks[rank];
  const gint32 first_op = builder->course->first[rank];
  g_autofree gint32 *first = op_list_batches(list);
  if (first == NULL)
    return;
  if (builder->batch == NULL) {
    builder->batch = g_new(gint32, builder->course->n_ops);
    memset(builder->batch, 0xff, sizeof(gint32) * (gsize)builder->course->n_ops);
  }
  g_autofree guint *streams = g_new0(guint, list->n_ops); /* bit set, at each batch's first op */
  for (gint32 i = 0; i < list->n_ops; i++) {
    if (first[i] < 0)
      continue;
    if (streams[first[i]] >> list->ops[i].stream & 1) {
      builder->course->splits_batches = TRUE;
      continue;
    }
    streams[first[i]] |= 1u << list->ops[i].stream;
    builder->batch[first_op + i] = first[i] == i ? builder->n_batches++ : builder->batch[first_op + first[i]];
  }
}

/* Merges what the ops of each batch wait for, without duplicates; begin[batch] has room for all of it. Returns the
 * end for each batch. */
static gint32 *gather_awaited(const Builder *builder, const gint32 *begin) {
  gint32 found[MOST_AWAITED], *all = builder->course->awaited;
  gint32 *end = g_memdup2(begin, sizeof(gint32) * (gsize)builder->n_batches);
  for (gint32 i = 0; i < builder->course->n_ops; i++) {
    const gint32 batch = builder->batch[i];
    const int n = batch >= 0 ? awaited_alone(builder, i, found) : 0;
    for (int k = 0; k < n; k++) {
      gint32 at = begin[batch];
      while (at < end[batch] && all[at] != found[k])
        at++;
      all[at] = found[k];
      end[batch] = MAX(end[batch], at + 1);
    }
  }
  return end;
}

static void describe_batches(Builder *builder) {
  Course *course = builder->course;
  for (int rank = 0; rank < builder->program->n_ranks; rank++)
    number_batches(builder, rank);
  if (builder->batch == NULL)
    return;
  gint32 found[MOST_AWAITED];
  g_autofree gint32 *begin = g_new0(gint32, builder->n_batches + 1);
  for (gint32 i = 0; i < course->n_ops; i++)
    if (builder->batch[i] >= 0)
      begin[builder->batch[i] + 1] += awaited_alone(builder, i, found);
  for (gint32 b = 0; b < builder->n_batches; b++)
    begin[b + 1] += begin[b];
  course->awaited = g_new(gint32, begin[builder->n_batches] + 1);
  g_autofree gint32 *end = gather_awaited(builder, begin);
  for (gint32 i = 0; i < course->n_ops; i++) {
    const gint32 batch = builder->batch[i];
    if (batch < 0)
      continue;
    builder->of[i].waits = COURSE_AFTER_BATCH;
    builder->of[i].after = begin[batch];
    builder->of[i].after_too = end[batch];
  }
}

/* What must have ended before an op starts; may be stored in `found`. */
static const gint32 *awaited(const Builder *builder, gint32 index, gint32 found[MOST_AWAITED], int *n) {
  const CourseStep *step = &builder->of[index];
  if (step->waits == COURSE_AFTER_BATCH) {
    *n = step->after_too - step->after;
    return &builder->course->awaited[step->after];
  }
  *n = awaited_alone(builder, index, found);
  return found;
}

/* Successor lists in CSR form: counted first, then filled in. */
typedef struct {
  gint32 *first;      /* [ops + 1] while counting, entry op + 1 holds the successors of op */
  gint32 *successors; /* NULL: counting */
} Successors;

/* Returns the number of edges added: 0 or 1. */
static inline gint32 add_edge(const Successors *of, gint32 from, gint32 to) {
  if (from < 0)
    return 0;
  if (of->successors != NULL)
    of->successors[of->first[from]++] = to;
  else
    of->first[from + 1]++;
  return 1;
}

/* If an op has a predecessor on its stream since the last host wait, it needs no edge from that wait: the predecessor
 * already has one. */
static inline gint32 add_edges(const Builder *builder, const Successors *of, gint32 i) {
  const CourseStep *step = &builder->of[i];
  if (step->waits == COURSE_AFTER_FEW)
    return add_edge(of, step->before, i) + (step->barrier > step->before ? add_edge(of, step->barrier, i) : 0) +
           add_edge(of, step->after, i) + add_edge(of, step->after_too, i);
  gint32 found[MOST_AWAITED];
  int n;
  const gint32 *ops = awaited(builder, i, found, &n);
  for (int k = 0; k < n; k++)
    add_edge(of, ops[k], i);
  return n;
}

static void list_successors(Builder *builder) {
  Course *course = builder->course;
  gint32 *first = course->first_successor;
  const Successors counts = {first, NULL};
  for (gint32 i = 0; i < course->n_ops; i++)
    builder->n_awaited[i] = add_edges(builder, &counts, i);
  for (gint32 i = 0; i < course->n_ops; i++)
    first[i + 1] += first[i];
  course->n_awaited = g_memdup2(builder->n_awaited, sizeof(gint32) * (gsize)course->n_ops);
  course->successors = g_new(gint32, first[course->n_ops] + 1);
  g_autofree gint32 *next = g_memdup2(first, sizeof(gint32) * (gsize)course->n_ops);
  const Successors list = {next, course->successors};
  for (gint32 i = 0; i < course->n_ops; i++)
    add_edges(builder, &list, i);
}

static void complete(Builder *builder, gint32 op) {
  const Course *course = builder->course;
  gint32 *n_awaited = builder->n_awaited, *ready = builder->ready, n_ready = builder->n_ready;
  for (gint32 s = course->first_successor[op]; s < course->first_successor[op + 1]; s++)
    if (--n_awaited[course->successors[s]] == 0)
      ready[n_ready++] = course->successors[s];
  builder->n_ready = n_ready;
}

static void post(Builder *builder, gint32 op) {
  const CourseStep *step = &builder->of[op];
  const Course *course = builder->course;
  builder->course->place[op] = builder->n_posted;
  builder->course->steps[builder->n_posted++] = *step;
  builder->is_posted[op] = TRUE;
  if (step->kind == COURSE_TRANSFER) {
    if (!builder->is_posted[step->meets])
      return;
    complete(builder, step->meets);
    complete(builder, op);
  } else if (step->kind == COURSE_MEETING) {
    if (--builder->n_coming[step->meets] > 0)
      return;
    for (gint32 m = course->first_member[step->meets]; m < course->first_member[step->meets + 1]; m++)
      complete(builder, course->members[m]);
  } else {
    complete(builder, op);
  }
}

/* Whether every op gets posted. */
static gboolean walk(Builder *builder) {
  const Course *course = builder->course;
  for (int m = 0; m < course->n_meetings; m++)
    builder->n_coming[m] = course->first_member[m + 1] - course->first_member[m];
  for (gint32 i = 0; i < course->n_ops; i++)
    if (builder->n_awaited[i] == 0)
      builder->ready[builder->n_ready++] = i;
  while (builder->n_posted < builder->n_ready) {
    course->open[builder->n_posted] = builder->n_ready;
    post(builder, builder->ready[builder->n_posted]);
  }
  return builder->n_posted == course->n_ops;
}

static Course *course_empty(const Program *program) {
  Course *course = g_new0(Course, 1);
  course->first = g_new0(gint32, program->n_ranks + 1);
  for (int rank = 0; rank < program->n_ranks; rank++)
    course->first[rank + 1] = course->first[rank] + program->ranks[rank].n_ops;
  course->n_ops = course->first[program->n_ranks];
  course->steps = g_new(CourseStep, course->n_ops);
  course->open = g_new(gint32, course->n_ops);
  course->ops = g_new(const Op *, course->n_ops);
  course->issues = g_new(CourseIssue, course->n_ops);
  course->transfers = g_new(CourseTransfer, course->n_ops);
  course->place = g_new(gint32, course->n_ops);
  course->first_successor = g_new0(gint32, course->n_ops + 1);
  course->first_transfer = g_new0(gint32, program->n_ranks + 1);
  return course;
}

Course *course_new(const Program *program, gint32 *const *match) {
  if (program->n_ranks > G_MAXUINT16)
    return NULL;
  Course *course = course_empty(program);
  gsize n_ops = (gsize)course->n_ops;
  Builder builder = {.course = course,
                     .program = program,
                     .of = g_new(CourseStep, n_ops),
                     .n_awaited = g_new(gint32, n_ops),
                     .ready = g_new(gint32, n_ops),
                     .is_posted = g_new0(guint8, n_ops)};
  for (int rank = 0; rank < program->n_ranks; rank++)
    describe_rank(&builder, rank, match);
  number_meetings(&builder);
  describe_batches(&builder);
  builder.n_coming = g_new(gint32, course->n_meetings + 1);
  list_successors(&builder);
  const gboolean reaches_end = walk(&builder);
  g_free(builder.of);
  g_free(builder.n_awaited);
  g_free(builder.n_coming);
  g_free(builder.ready);
  g_free(builder.is_posted);
  g_free(builder.batch);
  if (!reaches_end)
    g_clear_pointer(&course, course_free);
  return course;
}

void course_free(Course *course) {
  if (course == NULL)
    return;
  g_free(course->steps);
  g_free(course->open);
  g_free(course->ops);
  g_free(course->issues);
  g_free(course->first);
  g_free(course->place);
  g_free(course->n_awaited);
  g_free(course->first_successor);
  g_free(course->successors);
  g_free(course->first_member);
  g_free(course->members);
  g_free(course->awaited);
  g_free(course->first_transfer);
  g_free(course->transfers);
  g_free(course);
}
