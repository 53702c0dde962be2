/* The proof in eight steps, each linear in the ops of a Program made by the passes:
 *
 *     check_tables, check_ops   every index is in range (all later steps rely on it), transfers fit their ops
 *     program_match             every send has its receive
 *     check_transfers           of equal bytes; every member of a group over pipeline ranks has the same sequence
 *     actions_check             every action once, after its inputs (actions.c)
 *     host_copies_check         what the host updates gets there and back (host_copies.c)
 *     accesses_check            weights, gradients and activations are complete when used (accesses.c)
 *     untimed_run               nothing waits in a cycle (untimed_run.c) */
#include "verify.h"

#include "checks.h"
#include "error.h"
#include "fail_op.h"
#include "gather_buffers.h"

#include <string.h>

static gboolean check_group(const Program *program, guint i, GError **error) {
  const Group *group = &g_array_index(program->groups, Group, i);
  gboolean all = group->pp_first == -1 && group->pp_last == -1;
  gboolean two = group->pp_first >= 0 && group->pp_first < program->n_ranks && group->pp_last >= 0 &&
                 group->pp_last < program->n_ranks && group->pp_first != group->pp_last;
  if (group->spans_pp && !all && !two)
    return fail_impossible(error, "group %u (%s): pipeline ranks %d and %d; expected two different ones below %d", i,
                           group->name, group->pp_first, group->pp_last, program->n_ranks);
  if (group->charge >= N_AXES)
    return fail_impossible(error, "group %u (%s): no axis has number %d", i, group->name, group->charge);
  return TRUE;
}

static gboolean check_tables(const Program *program, GError **error) {
  if (program->n_ranks < 1 || program->n_stages < 1 || program->n_micro_batches < 1 || program->n_steps < 1)
    return fail_impossible(error, "program of %d ranks, %d stages, %d micro-batches, %d steps: each must be at least 1",
                           program->n_ranks, program->n_stages, program->n_micro_batches, program->n_steps);
  for (guint i = 0; i < program->groups->len; i++)
    if (!check_group(program, i, error))
      return FALSE;
  for (guint i = 0; i < program->transfers->len; i++) {
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, i);
    if (transfer->group < -1 || transfer->group >= (gint32)program->groups->len)
      return fail_impossible(error, "transfer %u: group %d; the program has %u", i, transfer->group,
                             program->groups->len);
    if (transfer->collective >= N_COLLECTIVES)
      return fail_impossible(error, "transfer %u: no collective has number %d", i, transfer->collective);
  }
  for (guint i = 0; i < program->works->len; i++) {
    const Work *work = &g_array_index(program->works, Work, i);
    if (work->phase >= N_PHASES || work->piece < -1 || work->piece >= N_PIECES)
      return fail_impossible(error, "work %u: phase %d, piece %d: no such", i, work->phase, work->piece);
    if (work->n_dense < 0 || work->n_dense > work->n_layers)
      return fail_impossible(error, "work %u: %d dense layers of %d", i, work->n_dense, work->n_layers);
    int counts[N_PIECES];
    work_pieces(work, counts);
    for (int piece = 0; piece < N_PIECES; piece++)
      if (counts[piece] < 0)
        return fail_impossible(error, "work %u: more layers of other kinds than its %d", i, work->n_layers);
    if (work->piece >= 0 && (work->first_item < 0 || work->last_item < work->first_item))
      return fail_impossible(error, "work %u: items %d..%d; expected the first and last item of a run", i,
                             work->first_item, work->last_item);
  }
  return TRUE;
}

/* least ≤ end. */
static inline gboolean in_range(gint32 value, gint32 least, gint32 end) {
  return (guint32)value - (guint32)least < (guint32)end - (guint32)least;
}

/* Each smaller than the op's own index; used slots come first. */
static inline gboolean check_after(const Program *program, int rank, int i, const gint32 *after, GError **error) {
  static const gint32 none[] = {-1, -1, -1, -1, -1, -1};
  G_STATIC_ASSERT(G_N_ELEMENTS(none) == OP_MAX_AFTER - 2);
  int n = 0, k;
  for (; n < OP_MAX_AFTER && after[n] >= 0 && after[n] < i; n++)
    ;
  if ((n == 2 || (n < 2 && after[n] == -1 && after[1] == -1)) && memcmp(&after[2], none, sizeof none) == 0)
    return TRUE; /* the usual case */
  for (k = n; k < OP_MAX_AFTER && after[k] == -1; k++)
    ;
  return k == OP_MAX_AFTER || fail_at_op(program, rank, i, error, "waits for op %d, which is not before it", after[k]);
}

static inline gboolean check_op_place(const Program *program, int rank, int i, const Op *op, GError **error) {
  if (op->kind >= N_OP_KINDS || op->stream >= N_STREAMS || op->action >= N_ACTIONS)
    return fail_at_op(program, rank, i, error, "kind %d, stream %d, action %d: no such", op->kind, op->stream,
                      op->action);
  int least = action_info(op->action)->has_micro_batch ? 0 : -1;
  if (!in_range(op->stage, least, program->n_stages))
    return fail_at_op(program, rank, i, error, "stage %d; the program has %d", op->stage, program->n_stages);
  if (!in_range(op->micro_batch, least, program->n_micro_batches))
    return fail_at_op(program, rank, i, error, "micro-batch %d; the program has %d", op->micro_batch,
                      program->n_micro_batches);
  if (!in_range(op->step, 0, program->n_steps))
    return fail_at_op(program, rank, i, error, "step %d; the program has %d", op->step, program->n_steps);
  if (op->unit < 0)
    return fail_at_op(program, rank, i, error, "unit %d; expected a layer of its stage or a part, from 0", op->unit);
  if (!in_range(op->effect, 0, (gint32)program->effects->len))
    return fail_at_op(program, rank, i, error, "effect %d; the program has %u", op->effect, program->effects->len);
  return check_after(program, rank, i, op->after, error);
}

static const Phase phase_of[] = {
    [ACTION_F] = PHASE_F, [ACTION_I] = PHASE_I, [ACTION_W] = PHASE_W, [ACTION_B] = PHASE_B};

static gboolean check_compute_op(const Program *program, int rank, int i, const Op *op, GError **error) {
  if (!in_range(op->work, 0, (gint32)program->works->len))
    return fail_at_op(program, rank, i, error, "work %d; the program has %u", op->work, program->works->len);
  const Work *work = &g_array_index(program->works, Work, op->work);
  if (work->on_host)
    return fail_at_op(program, rank, i, error, "work %d is of the host's processors", op->work);
  if (op->stream != STREAM_COMPUTE)
    return fail_at_op(program, rank, i, error, "computes on the stream %s; expected compute",
                      stream_info(op->stream)->name);
  if (action_info(op->action)->is_compute && work->phase != phase_of[op->action])
    return fail_at_op(program, rank, i, error, "work %d is of another phase", op->work);
  return TRUE;
}

/* It either waits, or computes one of the works for processors. */
static gboolean check_host_op(const Program *program, int rank, int i, const Op *op, GError **error) {
  if (op->work == -1)
    return TRUE;
  if (!in_range(op->work, 0, (gint32)program->works->len))
    return fail_at_op(program, rank, i, error, "work %d; the program has %u", op->work, program->works->len);
  return g_array_index(program->works, Work, op->work).on_host ||
         fail_at_op(program, rank, i, error, "work %d is of the GPU, no update on the host", op->work);
}

static gboolean check_transfer_op(const Program *program, int rank, int i, const Op *op, GError **error) {
  if (!in_range(op->work, 0, (gint32)program->transfers->len))
    return fail_at_op(program, rank, i, error, "transfer %d; the program has %u", op->work, program->transfers->len);
  const Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work);
  if (op->kind == OP_COLLECTIVE)
    return transfer->group >= 0 ||
           fail_at_op(program, rank, i, error, "transfer %d is a send, no collective", op->work);
  if (!in_range(op->peer, 0, program->n_ranks) || op->peer == rank)
    return fail_at_op(program, rank, i, error, "peer %d; expected another one of %d ranks", op->peer, program->n_ranks);
  int source = op->kind == OP_SEND ? rank : op->peer, target = op->kind == OP_SEND ? op->peer : rank;
  if (transfer->group >= 0 || transfer->source != source || transfer->target != target)
    return fail_at_op(program, rank, i, error, "transfer %d is no send from rank %d to rank %d", op->work, source,
                      target);
  return TRUE;
}

/* Streams that sums, gathers and copies may be on: of each such kind the latest op must be the last to end
 * (accesses.c). */
static const guint streams_of[N_ACTIONS] = {
    [ACTION_REDUCE_GRAD] = 1 << STREAM_DP,
    [ACTION_TIED_GRAD] = 1 << STREAM_DP,
    [ACTION_COPY_GRAD] = 1 << STREAM_DP,
    [ACTION_WHOLE_GRAD] = 1 << STREAM_TP,
    [ACTION_NORM] = 1 << STREAM_DP | 1 << STREAM_TP,
    [ACTION_KEPT] = 1 << STREAM_DP,
    [ACTION_UNSHARD] = 1 << STREAM_DP | 1 << STREAM_COPY,
    [ACTION_FETCH] = 1 << STREAM_COPY,
    [ACTION_GRAD_OUT] = 1 << STREAM_COPY_OUT,
    [ACTION_STATE_READ] = 1 << STREAM_COPY,
    [ACTION_STATE_WRITE] = 1 << STREAM_COPY_OUT,
    [ACTION_WEIGHTS_BACK] = 1 << STREAM_COPY,
    [ACTION_WEIGHTS_STORE] = 1 << STREAM_COPY_OUT,
    [ACTION_SAVED_OUT] = 1 << STREAM_COPY_OUT,
    [ACTION_SAVED_IN] = 1 << STREAM_COPY,
    [ACTION_DATA] = 1 << STREAM_COPY,
    [ACTION_PUSH] = 1 << STREAM_DP,
    [ACTION_SERVE] = 1 << STREAM_COPY_OUT,
    [ACTION_PULL] = 1 << STREAM_COPY,
    [ACTION_SPREAD] = 1 << STREAM_EP,
    [ACTION_CLOCK] = 1 << STREAM_EP,
    [ACTION_OUTER_SUM] = 1 << STREAM_DP | 1 << STREAM_COPY_OUT,
    [ACTION_OUTER_GATHER] = 1 << STREAM_DP,
};

/* Copies are recognised by a route. */
static gboolean check_stream(const Program *program, int rank, int i, const Op *op, GError **error) {
  const guint streams = streams_of[op->action];
  const gboolean is_copy = action_infos[op->action].is_copy;
  if (op->kind == OP_COLLECTIVE && (streams >> op->stream & 1) != 0) {
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work);
    if (!is_copy || g_array_index(program->groups, Group, transfer->group).route != 0)
      return TRUE;
  }
  g_autoptr(GString) names = g_string_new(NULL);
  for (int stream = 0; stream < N_STREAMS; stream++)
    if ((streams >> stream & 1) != 0)
      g_string_append_printf(names, "%s%s", names->len > 0 ? " or " : "", stream_info((Stream)stream)->name);
  return fail_at_op(program, rank, i, error, "expected a %s on the stream %s%s", is_copy ? "copy" : "collective",
                    names->str, is_copy ? ", over a group with a route" : "");
}

static inline gboolean check_op(const Program *program, int rank, int i, const Op *op, GError **error) {
  if (!check_op_place(program, rank, i, op, error))
    return FALSE;
  const gboolean ok = op->kind == OP_COMPUTE ? check_compute_op(program, rank, i, op, error)
                      : op->kind == OP_HOST  ? check_host_op(program, rank, i, op, error)
                                             : check_transfer_op(program, rank, i, op, error);
  return ok && (streams_of[op->action] == 0 || check_stream(program, rank, i, op, error));
}

static gboolean check_ops(const Program *program, GError **error) {
  for (int rank = 0; rank < program->n_ranks; rank++)
    for (int i = 0; i < program->ranks[rank].n_ops; i++)
      if (!check_op(program, rank, i, &program->ranks[rank].ops[i], error))
        return FALSE;
  return TRUE;
}

static const Transfer *transfer_of(const Program *program, const Op *op) {
  return &g_array_index(program->transfers, Transfer, op->work);
}

static gboolean check_bytes(const Program *program, gint32 *const *match, int rank, gint32 i, GError **error) {
  const Op *op = &program->ranks[rank].ops[i];
  const Op *receive = &program->ranks[op->peer].ops[match[rank][i]];
  if (op->work == receive->work)
    return TRUE;
  double sent = transfer_of(program, op)->bytes, received = transfer_of(program, receive)->bytes;
  return sent == received ||
         fail_at_op(program, rank, i, error, "sends %.17g bytes, its receive on rank %d (op %d) takes %.17g", sent,
                    op->peer, match[rank][i], received);
}

static gboolean is_member(const Group *group, int rank) {
  return group->pp_first < 0 || rank == group->pp_first || rank == group->pp_last;
}

/* Adds a collective of a group over pipeline ranks to that group's list; its number on the rank goes into
 * `partner`. */
static gboolean list_collective(const Program *program, Rendezvous *rendezvous, gint32 **partner, int rank, gint32 i,
                                GError **error) {
  gint32 at = transfer_of(program, &program->ranks[rank].ops[i])->group;
  const Group *group = &g_array_index(program->groups, Group, at);
  if (!group->spans_pp)
    return TRUE;
  if (!is_member(group, rank))
    return fail_at_op(program, rank, i, error, "rank %d is no member of group %d (%s)", rank, at, group->name);
  GArray *ops = rendezvous[at].ops;
  const OpPlace *before = ops->len > 0 ? &g_array_index(ops, OpPlace, ops->len - 1) : NULL;
  partner[rank][i] = before && before->rank == rank ? partner[rank][before->op] + 1 : 0;
  OpPlace place = {rank, i};
  g_array_append_val(ops, place);
  return TRUE;
}

/* Checks the bytes of sends and lists the collectives. */
static gboolean check_transfers(const Program *program, Rendezvous *rendezvous, gint32 **partner, GError **error) {
  for (int rank = 0; rank < program->n_ranks; rank++)
    for (gint32 i = 0; i < program->ranks[rank].n_ops; i++) {
      int kind = program->ranks[rank].ops[i].kind;
      if ((kind == OP_SEND && !check_bytes(program, partner, rank, i, error)) ||
          (kind == OP_COLLECTIVE && !list_collective(program, rendezvous, partner, rank, i, error)))
        return FALSE;
    }
  return TRUE;
}

static const OpPlace *place_at(const Rendezvous *rendezvous, int i) {
  return &g_array_index(rendezvous->ops, OpPlace, i);
}

static gboolean fail_sequence(const Program *program, const Group *group, const OpPlace *one, const OpPlace *other,
                              int k, GError **error) {
  g_autoptr(GString) names = g_string_new(NULL);
  op_append_name(program, &program->ranks[one->rank].ops[one->op], names);
  g_string_append_printf(names, " (op %d of rank %d), ", one->op, one->rank);
  op_append_name(program, &program->ranks[other->rank].ops[other->op], names);
  g_string_append_printf(names, " (op %d of rank %d)", other->op, other->rank);
  return fail_impossible(error, "group %s: collective %d differs in kind or bytes between members: %s", group->name, k,
                         names->str);
}

static int member_rank(const Group *group, int member) {
  if (group->pp_first < 0)
    return member;
  return member == 0 ? MIN(group->pp_first, group->pp_last) : MAX(group->pp_first, group->pp_last);
}

static gboolean fail_count(const Group *group, const Rendezvous *rendezvous, int rank, GError **error) {
  int n_here = 0;
  for (int i = 0; i < (int)rendezvous->ops->len; i++)
    n_here += place_at(rendezvous, i)->rank == rank;
  return fail_impossible(error, "group %s: rank %d has %d collectives of the %u that its %d members have together",
                         group->name, rank, n_here, rendezvous->ops->len, rendezvous->n_members);
}

/* All members have the same number of collectives, and the k-th ones agree. */
static gboolean check_sequences(const Program *program, const Group *group, Rendezvous *rendezvous, GError **error) {
  int n_ops = (int)rendezvous->ops->len;
  rendezvous->n_members = group->pp_first < 0 ? program->n_ranks : 2;
  rendezvous->n_each = (n_ops + rendezvous->n_members - 1) / rendezvous->n_members;
  for (int i = 0; i < rendezvous->n_members * rendezvous->n_each; i++) {
    int rank = member_rank(group, i / rendezvous->n_each);
    if (i >= n_ops || place_at(rendezvous, i)->rank != rank)
      return fail_count(group, rendezvous, rank, error);
    const OpPlace *first = place_at(rendezvous, i % rendezvous->n_each), *place = place_at(rendezvous, i);
    const Transfer *a = transfer_of(program, &program->ranks[first->rank].ops[first->op]);
    const Transfer *b = transfer_of(program, &program->ranks[place->rank].ops[place->op]);
    if (a->collective != b->collective || a->bytes != b->bytes)
      return fail_sequence(program, group, first, place, i % rendezvous->n_each, error);
  }
  return TRUE;
}

static gboolean check_all_sequences(const Program *program, Rendezvous *rendezvous, GError **error) {
  for (guint i = 0; i < program->groups->len; i++)
    if (rendezvous[i].ops->len > 0 &&
        !check_sequences(program, &g_array_index(program->groups, Group, i), &rendezvous[i], error))
      return FALSE;
  return TRUE;
}

/* All checks that need every index in range and every send matched. */
static gboolean check_sense(const Program *program, gint32 **partner, GError **error) {
  Rendezvous *rendezvous = g_new0(Rendezvous, program->groups->len);
  for (guint i = 0; i < program->groups->len; i++)
    rendezvous[i].ops = g_array_new(FALSE, FALSE, sizeof(OpPlace));
  gboolean ok = check_transfers(program, rendezvous, partner, error) &&
                check_all_sequences(program, rendezvous, error) && actions_check(program, error) &&
                host_copies_check(program, error) && accesses_check(program, error) && ways_check(program, error) &&
                untimed_run(program, partner, rendezvous, error);
  for (guint i = 0; i < program->groups->len; i++)
    g_array_unref(rendezvous[i].ops);
  g_free(rendezvous);
  return ok;
}

gboolean program_verify(const Program *program, GError **error) {
  gint32 **match;
  if (!check_tables(program, error) || !check_ops(program, error) || !program_match(program, &match, error))
    return FALSE;
  const gboolean ok = check_sense(program, match, error);
  program_match_free(program, match);
  return ok;
}

gboolean program_verify_given(const Program *program, GError **error) {
  return program_verify(program, error) && gather_buffers_check(program, error);
}
