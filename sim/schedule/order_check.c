/* Three checks of an order, each linear in its actions:
 *
 *     check_places      positions within each rank's list: W after I after F, a send after what it sends, a receive
 *                       before what it feeds, and each has its partner
 *     check_sharding    UNSHARD … compute … RESHARD, and REDUCE_GRAD after a stage's last gradient
 *     run_untimed       every transfer is a rendezvous, on the streams the Program will use: compute and each lane of
 *                       transfers advance as far as they can, rank by rank, until nothing moves
 *
 * Only the last finds ranks that wait for each other:
 *
 *     0F0,0B0,0F1,0B1      row 1, column 2: 0B0 waits for 1B0 (row 2, column 3)
 *     1F1,1F0,1B0,1B1      row 2, column 1: 1F1 waits for 0F1 (row 1, column 3) */
#include "error.h"
#include "order_csv.h"
#include "order_read.h"

enum { N_PLACED = ACTION_RECV_B + 1, MAX_RANKS_SHOWN = 16 };
enum { SHIFT_RECEIVE = ACTION_RECV_F - ACTION_SEND_F };

/* A rank's transfers run in order in each of so many streams: activations and gradients, with the ranks' order and
 * against it, each sent and (the stream after it) received. */
enum { STREAM_COMPUTE, STREAM_TRANSFERS, N_STREAMS = STREAM_TRANSFERS + 8 };

typedef struct {
  const Order *order;
  const char *file;
  gint32 *places;            /* [stage][micro-batch][N_PLACED] index in the rank's list; −1 = absent; owned */
  guint8 *done;              /* [stage][micro-batch] bits 1 << ActionKind of what has run so far; owned */
  guint8 **streams;          /* [rank][action] its stream; owned */
  guint (*heads)[N_STREAMS]; /* [rank] index of the next action of each stream; owned */
} Check;

static const Action *action_at(const Check *check, int rank, guint i) {
  return &g_array_index(check->order->actions[rank], Action, i);
}

static guint n_actions(const Check *check, int rank) {
  return check->order->actions[rank]->len;
}

static int rank_of(const Check *check, int stage) {
  return check->order->placement->stage_rank[stage];
}

static int next_stage(const Check *check, int stage, gboolean forward) {
  return stage_next(stage, forward, check->order->placement->n_stages, check->order->placement->n_pipes);
}

static gsize cell_of(const Check *check, int stage, int micro_batch) {
  return (gsize)stage * check->order->n_micro_batches + micro_batch;
}

static gint32 *place_of(const Check *check, int stage, int micro_batch, ActionKind kind) {
  return &check->places[cell_of(check, stage, micro_batch) * N_PLACED + kind];
}

/* B or I: the action that makes the gradient for the previous stage. */
static ActionKind gradient_kind(const Check *check, int stage, int micro_batch) {
  return *place_of(check, stage, micro_batch, ACTION_B) >= 0 ? ACTION_B : ACTION_I;
}

/* --- messages --- */

static void append_name(GString *out, const Action *action) {
  action_print(action, out);
}

/* "1B0 (row 2, column 3)" */
static void append_place(const Check *check, int rank, guint i, GString *out) {
  append_name(out, action_at(check, rank, i));
  g_string_append_printf(out, " (row %d, column %d)", rank + 1, order_column(check->order, rank, i));
}

static gboolean fail_at(const Check *check, int rank, guint i, GError **error, const char *format, ...)
    G_GNUC_PRINTF(5, 6);

static gboolean fail_at(const Check *check, int rank, guint i, GError **error, const char *format, ...) {
  g_autoptr(GString) message = g_string_new(NULL);
  append_name(message, action_at(check, rank, i));
  g_string_append_c(message, ' ');
  va_list arguments;
  va_start(arguments, format);
  g_string_append_vprintf(message, format, arguments);
  va_end(arguments);
  return fail_input(error, "%s:%d, column %d: %s", check->file, rank + 1, order_column(check->order, rank, i),
                    message->str);
}

/* "… stands before 0F0 (row 1, column 3), which …" */
static gboolean fail_beside(const Check *check, int rank, guint i, const char *what, guint other, const char *why,
                            GError **error) {
  g_autoptr(GString) place = g_string_new(NULL);
  append_place(check, rank, other, place);
  return fail_at(check, rank, i, error, "stands %s %s%s", what, place->str, why);
}

/* --- places --- */

/* FALSE if it occurs twice. */
static gboolean place_action(Check *check, int rank, guint i, GError **error) {
  const Action *action = action_at(check, rank, i);
  if (action->kind >= N_PLACED)
    return TRUE;
  gint32 *place = place_of(check, action->stage, action->micro_batch, action->kind);
  if (*place >= 0)
    return fail_at(check, rank, i, error, "is there twice: in column %d too",
                   order_column(check->order, rank, (guint)*place));
  *place = (gint32)i;
  return TRUE;
}

static gboolean check_compute_place(const Check *check, int rank, guint i, GError **error) {
  const Action *action = action_at(check, rank, i);
  if (action->kind == ACTION_F)
    return TRUE;
  ActionKind needed = action->kind == ACTION_W ? ACTION_I : ACTION_F;
  gint32 place = *place_of(check, action->stage, action->micro_batch, needed);
  return place < (gint32)i || fail_beside(check, rank, i, "before", (guint)place, ", which it needs", error);
}

/* The send of a compute action's result, if the stage that takes it is on another rank; N_ACTIONS: none. */
static ActionKind send_of(const Check *check, const Action *action) {
  if (action->kind == ACTION_W)
    return N_ACTIONS;
  gboolean forward = action->kind == ACTION_F;
  int target = next_stage(check, action->stage, forward);
  if (target < 0 || rank_of(check, target) == rank_of(check, action->stage))
    return N_ACTIONS;
  return forward ? ACTION_SEND_F : ACTION_SEND_B;
}

static gboolean check_is_sent(const Check *check, int rank, guint i, GError **error) {
  const Action *action = action_at(check, rank, i);
  ActionKind send = send_of(check, action);
  if (send == N_ACTIONS || *place_of(check, action->stage, action->micro_batch, send) >= 0)
    return TRUE;
  return fail_at(check, rank, i, error, "is not sent: %d%s%d is missing in this row, stage %d is in row %d",
                 action->stage, action_info(send)->name, action->micro_batch,
                 next_stage(check, action->stage, action->kind == ACTION_F),
                 rank_of(check, next_stage(check, action->stage, action->kind == ACTION_F)) + 1);
}

/* Both ends of a transfer: the stage at the other end, its action, and the action of this rank that this end
 * serves. */
typedef struct {
  int other_stage;
  ActionKind other, own;
} Ends;

static gboolean is_send(ActionKind kind) {
  return kind == ACTION_SEND_F || kind == ACTION_SEND_B;
}

static Ends ends_of(const Check *check, const Action *action) {
  gboolean sends = is_send(action->kind);
  gboolean forward = action->kind == ACTION_SEND_F || action->kind == ACTION_RECV_F;
  ActionKind other = sends ? action->kind + SHIFT_RECEIVE : action->kind - SHIFT_RECEIVE;
  ActionKind own = forward ? ACTION_F : gradient_kind(check, action->stage, action->micro_batch);
  return (Ends){next_stage(check, action->stage, forward == sends), other, own};
}

static gboolean check_transfer_place(const Check *check, int rank, guint i, GError **error) {
  const Action *action = action_at(check, rank, i);
  gboolean sends = is_send(action->kind);
  Ends ends = ends_of(check, action);
  const char *verb = sends ? "sends to" : "receives from";
  if (ends.other_stage < 0)
    return fail_at(check, rank, i, error, "%s no stage: stage %d is at the end of its pipe", verb, action->stage);
  if (rank_of(check, ends.other_stage) == rank)
    return fail_at(check, rank, i, error, "%s stage %d, which is on the same rank: nothing has to be transferred", verb,
                   ends.other_stage);
  gint32 own = *place_of(check, action->stage, action->micro_batch, ends.own);
  if (own < 0)
    return fail_at(check, rank, i, error, "is of a micro-batch that does not go through stage %d", action->stage);
  if (sends && own > (gint32)i)
    return fail_beside(check, rank, i, "before", (guint)own, ", which it sends", error);
  if (!sends && own < (gint32)i)
    return fail_beside(check, rank, i, "after", (guint)own, ", which needs it", error);
  return *place_of(check, ends.other_stage, action->micro_batch, ends.other) >= 0 ||
         fail_at(check, rank, i, error, "has no %s: %d%s%d is missing in row %d", sends ? "receive" : "send",
                 ends.other_stage, action_info(ends.other)->name, action->micro_batch,
                 rank_of(check, ends.other_stage) + 1);
}

static gboolean check_place(const Check *check, int rank, guint i, GError **error) {
  int kind = action_at(check, rank, i)->kind;
  if (kind >= N_PLACED)
    return TRUE;
  if (!action_info(kind)->is_compute)
    return check_transfer_place(check, rank, i, error);
  return check_compute_place(check, rank, i, error) &&
         (!check->order->has_send_recv || check_is_sent(check, rank, i, error));
}

static gboolean for_every_action(Check *check, gboolean (*visit)(Check *, int rank, guint i, GError **),
                                 GError **error) {
  for (int rank = 0; rank < check->order->placement->n_ranks; rank++)
    for (guint i = 0; i < n_actions(check, rank); i++)
      if (!visit(check, rank, i, error))
        return FALSE;
  return TRUE;
}

static gboolean visit_place(Check *check, int rank, guint i, GError **error) {
  return check_place(check, rank, i, error);
}

static gboolean check_places(Check *check, GError **error) {
  return for_every_action(check, place_action, error) && for_every_action(check, visit_place, error);
}

/* --- sharding --- */

typedef struct {
  gboolean *is_whole;    /* [stage] currently gathered */
  gint32 *last_gradient; /* [stage] index of its last B or W */
  gboolean *is_reduced;  /* [stage] */
} Sharding;

static gboolean check_sharding_of(const Check *check, Sharding *sharding, int rank, guint i, GError **error) {
  const Action *action = action_at(check, rank, i);
  int stage = action->stage;
  gboolean *is_whole = &sharding->is_whole[stage];
  if (action->kind == ACTION_UNSHARD || action->kind == ACTION_RESHARD) {
    gboolean gathers = action->kind == ACTION_UNSHARD;
    if (*is_whole == gathers)
      return fail_at(check, rank, i, error, "finds stage %d %s", stage,
                     gathers ? "gathered already: no RESHARD is between" : "in shards: no UNSHARD is before it");
    *is_whole = gathers;
    return TRUE;
  }
  if (action->kind == ACTION_REDUCE_GRAD) {
    if (sharding->is_reduced[stage])
      return fail_at(check, rank, i, error, "is there twice: gradients are reduced once a step");
    sharding->is_reduced[stage] = TRUE;
    gint32 last = sharding->last_gradient[stage];
    return last < (gint32)i ||
           fail_beside(check, rank, i, "before", (guint)last, ", with which the gradient is whole", error);
  }
  gboolean needs = action->kind == ACTION_F || action->kind == ACTION_I || action->kind == ACTION_B;
  return !check->order->has_unshard || !needs || *is_whole ||
         fail_at(check, rank, i, error, "computes with stage %d in shards: no %dUNSHARD is before it", stage, stage);
}

static gboolean check_all_reduced(const Check *check, const Sharding *sharding, GError **error) {
  for (int stage = 0; check->order->has_reduce_grad && stage < check->order->placement->n_stages; stage++)
    if (!sharding->is_reduced[stage])
      return fail_input(error, "%s:%d: %dREDUCE_GRAD is missing; other stages have theirs", check->file,
                        rank_of(check, stage) + 1, stage);
  return TRUE;
}

static gboolean check_sharding(const Check *check, GError **error) {
  int n_stages = check->order->placement->n_stages;
  g_autofree gboolean *is_whole = g_new0(gboolean, n_stages), *is_reduced = g_new0(gboolean, n_stages);
  g_autofree gint32 *last_gradient = g_new0(gint32, n_stages);
  Sharding sharding = {is_whole, last_gradient, is_reduced};
  for (int rank = 0; rank < check->order->placement->n_ranks; rank++) {
    for (guint i = 0; i < n_actions(check, rank); i++)
      if (action_completes_gradient(action_at(check, rank, i)->kind))
        last_gradient[action_at(check, rank, i)->stage] = (gint32)i;
    for (guint i = 0; i < n_actions(check, rank); i++)
      if (!check_sharding_of(check, &sharding, rank, i, error))
        return FALSE;
  }
  return check_all_reduced(check, &sharding, error);
}

/* --- untimed run --- */

static int stream_of(const Check *check, const Action *action) {
  if (action->kind < ACTION_SEND_F || action->kind > ACTION_RECV_B)
    return STREAM_COMPUTE;
  gboolean sends = is_send(action->kind), forward = action->kind == ACTION_SEND_F || action->kind == ACTION_RECV_F;
  int here = rank_of(check, action->stage), there = rank_of(check, ends_of(check, action).other_stage);
  gboolean is_usual =
      sends_with_ranks(check->order->placement->n_ranks, forward, sends ? here : there, sends ? there : here);
  return STREAM_TRANSFERS + 4 * !is_usual + 2 * !forward + !sends;
}

static gboolean is_done(const Check *check, int stage, int micro_batch, guint kinds) {
  return (check->done[cell_of(check, stage, micro_batch)] & kinds) != 0;
}

static void set_done(Check *check, const Action *action) {
  if (action->kind < N_PLACED)
    check->done[cell_of(check, action->stage, action->micro_batch)] |= (guint8)(1u << action->kind);
}

/* The action that an action waits for, its input on this rank or another. FALSE: none. */
static gboolean input_of(const Check *check, const Action *action, Action *input) {
  if (action->kind == ACTION_W || action->kind > ACTION_B)
    return FALSE;
  gboolean forward = action->kind == ACTION_F;
  int source = next_stage(check, action->stage, !forward);
  if (source < 0)
    return FALSE;
  *input = *action;
  if (check->order->has_send_recv && rank_of(check, source) != rank_of(check, action->stage)) {
    input->kind = forward ? ACTION_RECV_F : ACTION_RECV_B;
    return TRUE;
  }
  input->stage = source;
  input->kind = forward ? ACTION_F : (guint8)gradient_kind(check, source, action->micro_batch);
  return TRUE;
}

/* What blocks the compute action at i; a pair starts when both can. FALSE: nothing. */
static gboolean blocker_of(const Check *check, int rank, guint i, Action *blocker) {
  const Action *action = action_at(check, rank, i);
  for (guint k = i; k <= i + action->overlaps_next; k++)
    if (input_of(check, action_at(check, rank, k), blocker) &&
        !is_done(check, blocker->stage, blocker->micro_batch, 1u << blocker->kind))
      return TRUE;
  return FALSE;
}

/* Moves a stream's head to its next action at or after `from`. */
static void set_head(Check *check, int rank, int stream, guint from) {
  while (from < n_actions(check, rank) && check->streams[rank][from] != stream)
    from++;
  check->heads[rank][stream] = from;
}

static gboolean advance_compute(Check *check, int rank) {
  guint i = check->heads[rank][STREAM_COMPUTE];
  Action blocker;
  if (i >= n_actions(check, rank) || blocker_of(check, rank, i, &blocker))
    return FALSE;
  guint n = 1u + action_at(check, rank, i)->overlaps_next;
  for (guint k = i; k < i + n; k++)
    set_done(check, action_at(check, rank, k));
  set_head(check, rank, STREAM_COMPUTE, i + n);
  return TRUE;
}

/* A send completes when what it sends is ready and its receive is the next in its lane. */
static gboolean advance_send(Check *check, int rank, int stream) {
  guint i = check->heads[rank][stream];
  if (i >= n_actions(check, rank))
    return FALSE;
  const Action *send = action_at(check, rank, i);
  Ends ends = ends_of(check, send);
  int peer = rank_of(check, ends.other_stage);
  guint receive = (guint)*place_of(check, ends.other_stage, send->micro_batch, ends.other);
  if (!is_done(check, send->stage, send->micro_batch, 1u << ends.own) || check->heads[peer][stream + 1] != receive)
    return FALSE;
  set_done(check, send);
  set_done(check, action_at(check, peer, receive));
  set_head(check, rank, stream, i + 1);
  set_head(check, peer, stream + 1, receive + 1);
  return TRUE;
}

static gboolean advance_rank(Check *check, int rank) {
  gboolean moved = FALSE, goes_on = TRUE;
  while (goes_on) {
    goes_on = advance_compute(check, rank);
    for (int send = STREAM_TRANSFERS; send < N_STREAMS && check->order->has_send_recv; send += 2)
      goes_on |= advance_send(check, rank, send);
    moved |= goes_on;
  }
  return moved;
}

/* "…, which is behind 1RECV_F1 (row 2, column 3)" if another one is next in its lane. */
static gboolean explain_lane(const Check *check, int rank, gint32 i, GString *out) {
  guint head = check->heads[rank][check->streams[rank][i]];
  if (head == (guint)i || head >= n_actions(check, rank))
    return FALSE;
  g_string_append(out, ", which is behind ");
  append_place(check, rank, head, out);
  return TRUE;
}

static void explain_rank(const Check *check, int rank, GString *out) {
  guint head = check->heads[rank][STREAM_COMPUTE];
  Action blocker;
  if (head >= n_actions(check, rank) || !blocker_of(check, rank, head, &blocker))
    return;
  g_string_append_printf(out, "\n  row %d, column %d: ", rank + 1, order_column(check->order, rank, head));
  action_print_cell(action_at(check, rank, head),
                    action_at(check, rank, head + action_at(check, rank, head)->overlaps_next), out);
  g_string_append(out, " waits for ");
  int at = rank_of(check, blocker.stage);
  gint32 place = *place_of(check, blocker.stage, blocker.micro_batch, blocker.kind);
  append_place(check, at, (guint)place, out);
  if (action_info(blocker.kind)->is_compute || explain_lane(check, at, place, out))
    return;
  Ends ends = ends_of(check, &blocker);
  int peer = rank_of(check, ends.other_stage);
  gint32 send = *place_of(check, ends.other_stage, blocker.micro_batch, ends.other);
  g_string_append(out, " from ");
  append_place(check, peer, (guint)send, out);
  explain_lane(check, peer, send, out);
}

static gboolean check_end(const Check *check, GError **error) {
  g_autoptr(GString) story = g_string_new(NULL);
  int n_stuck = 0;
  for (int rank = 0; rank < check->order->placement->n_ranks; rank++)
    if (check->heads[rank][STREAM_COMPUTE] < n_actions(check, rank) && n_stuck++ < MAX_RANKS_SHOWN)
      explain_rank(check, rank, story);
  if (n_stuck == 0)
    return TRUE;
  if (n_stuck > MAX_RANKS_SHOWN)
    g_string_append_printf(story, "\n  and %d more", n_stuck - MAX_RANKS_SHOWN);
  return fail_input(error, "%s: the order gets stuck:%s", check->file, story->str);
}

/* Forwards go down the ranks and gradients up, so sweeps alternate in direction. */
static gboolean run_untimed(Check *check, GError **error) {
  int n_ranks = check->order->placement->n_ranks;
  for (int rank = 0; rank < n_ranks; rank++) {
    for (guint i = 0; i < n_actions(check, rank); i++)
      check->streams[rank][i] = (guint8)stream_of(check, action_at(check, rank, i));
    for (int stream = 0; stream < N_STREAMS; stream++)
      set_head(check, rank, stream, 0);
  }
  for (gboolean moved = TRUE; moved;) {
    moved = FALSE;
    for (int rank = 0; rank < n_ranks; rank++)
      moved |= advance_rank(check, rank);
    for (int rank = n_ranks - 1; rank >= 0; rank--)
      moved |= advance_rank(check, rank);
  }
  return check_end(check, error);
}

gboolean order_check(const Order *order, const char *file, GError **error) {
  int n_ranks = order->placement->n_ranks;
  gsize n_cells = (gsize)order->placement->n_stages * order->n_micro_batches;
  Check check = {.order = order,
                 .file = file,
                 .places = g_new(gint32, n_cells * N_PLACED),
                 .done = g_new0(guint8, n_cells),
                 .streams = g_new(guint8 *, n_ranks),
                 .heads = g_malloc_n(n_ranks, sizeof *check.heads)};
  for (gsize i = 0; i < n_cells * N_PLACED; i++)
    check.places[i] = -1;
  for (int rank = 0; rank < n_ranks; rank++)
    check.streams[rank] = g_new(guint8, order->actions[rank]->len);
  gboolean ok = check_places(&check, error) && check_sharding(&check, error) && run_untimed(&check, error);
  for (int rank = 0; rank < n_ranks; rank++)
    g_free(check.streams[rank]);
  g_free(check.streams);
  g_free(check.heads);
  g_free(check.places);
  g_free(check.done);
  return ok;
}
