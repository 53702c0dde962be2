#include "program.h"
#include "tape.h"

#include <string.h>

static const StreamInfo streams[N_STREAMS] = {
    [STREAM_COMPUTE] = {"compute", FALSE, N_AXES},
    [STREAM_TP] = {"tp", TRUE, AXIS_TP},
    [STREAM_CP] = {"cp", TRUE, AXIS_CP},
    [STREAM_EP] = {"ep", TRUE, AXIS_EP},
    [STREAM_SEND_F] = {"send_f", TRUE, AXIS_PP},
    [STREAM_RECV_F] = {"recv_f", TRUE, AXIS_PP},
    [STREAM_SEND_B] = {"send_b", TRUE, AXIS_PP},
    [STREAM_RECV_B] = {"recv_b", TRUE, AXIS_PP},
    [STREAM_SEND_F_BACK] = {"send_f_back", TRUE, AXIS_PP},
    [STREAM_RECV_F_BACK] = {"recv_f_back", TRUE, AXIS_PP},
    [STREAM_SEND_B_BACK] = {"send_b_back", TRUE, AXIS_PP},
    [STREAM_RECV_B_BACK] = {"recv_b_back", TRUE, AXIS_PP},
    [STREAM_DP] = {"dp", TRUE, AXIS_DP},
    [STREAM_COPY] = {"copy", FALSE, N_AXES},
    [STREAM_HOST] = {"host", FALSE, N_AXES},
    [STREAM_COPY_OUT] = {"copy_out", FALSE, N_AXES},
};
static const char *const memory_names[N_MEMORY] = {"weights", "gradients", "optimizer", "activations", "buffers"};

const StreamInfo *stream_info(Stream stream) {
  g_assert((guint)stream < N_STREAMS);
  return &streams[stream];
}

const char *memory_category_name(MemoryCategory category) {
  g_assert((guint)category < N_MEMORY);
  return memory_names[category];
}

void op_init(Op *op, OpKind kind, Stream stream, ActionKind action, int stage, int micro_batch) {
  static const Op blank = {.batch = -1, .work = -1, .peer = -1, .tag = -1, .after = {-1, -1, -1, -1, -1, -1, -1, -1}};
  G_STATIC_ASSERT(OP_MAX_AFTER == 8);
  *op = blank;
  op->kind = (guint8)kind;
  op->stream = (guint8)stream;
  op->action = (guint8)action;
  op->stage = stage;
  op->micro_batch = micro_batch;
}

Op op_new(OpKind kind, Stream stream, ActionKind action, int stage, int micro_batch) {
  Op op;
  op_init(&op, kind, stream, action, stage, micro_batch);
  return op;
}

void op_add_after(Op *op, gint32 index) {
  if (index < 0)
    return;
  for (int i = 0; i < OP_MAX_AFTER; i++) {
    if (op->after[i] == index)
      return;
    if (op->after[i] < 0) {
      op->after[i] = index;
      return;
    }
  }
  g_assert_not_reached(); /* an op that waits for more than OP_MAX_AFTER streams */
}

static Program *program_empty(int n_ranks) {
  Program *program = g_new0(Program, 1);
  program->n_ranks = n_ranks;
  program->n_references = 1;
  program->ranks = g_new0(OpList, n_ranks);
  return program;
}

Program *program_new(int n_ranks, int n_stages, int n_micro_batches) {
  Program *program = program_empty(n_ranks);
  program->n_stages = n_stages;
  program->n_micro_batches = n_micro_batches;
  program->n_steps = program->n_pipes = 1;
  program->works = g_array_new(FALSE, FALSE, sizeof(Work));
  program->transfers = g_array_new(FALSE, FALSE, sizeof(Transfer));
  program->groups = g_array_new(FALSE, FALSE, sizeof(Group));
  program->effects = g_array_new(FALSE, FALSE, sizeof(Effect));
  program->index = program_index_new();
  program_effect(program, &(Effect){0});
  return program;
}

Program *program_copy(Program *pattern) {
  Program *copy = program_empty(pattern->n_ranks);
  OpList *lists = copy->ranks;
  *copy = *pattern;
  copy->ranks = memcpy(lists, pattern->ranks, sizeof *lists * (gsize)pattern->n_ranks);
  copy->works = g_array_copy(pattern->works);
  copy->transfers = g_array_copy(pattern->transfers);
  copy->effects = g_array_copy(pattern->effects);
  copy->index = NULL;
  copy->tape = NULL;
  copy->n_references = 1;
  copy->pattern = pattern;
  g_atomic_int_inc(&pattern->n_references);
  return copy;
}

Program *program_ref(Program *program) {
  g_atomic_int_inc(&program->n_references);
  return program;
}

static void free_lists(Program *program) {
  for (int rank = 0; rank < program->n_ranks; rank++)
    g_free(program->ranks[rank].ops);
  program_index_free(program->index);
  tape_free(program->tape);
  g_array_unref(program->groups);
  if (program->terms != NULL)
    g_array_unref(program->terms);
  for (int table = 0; table < N_PROGRAM_TABLES; table++)
    if (program->aliases[table] != NULL)
      g_array_unref(program->aliases[table]);
}

void program_free(Program *program) {
  if (program == NULL || !g_atomic_int_dec_and_test(&program->n_references))
    return;
  if (program->pattern != NULL)
    program_free(program->pattern);
  else
    free_lists(program);
  g_free(program->ranks);
  g_array_unref(program->works);
  g_array_unref(program->transfers);
  g_array_unref(program->effects);
  g_free(program);
}
