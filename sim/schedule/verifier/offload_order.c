/* For each rank's list, first finds what lacks a later copy, so that errors name that op, then walks the list:
 *
 *     compute    B0 |                                   | F0 of the next step
 *     dp         | sum |        | norm |
 *     copy_out         | GRAD_OUT |
 *     host                             | OPTIMIZER 0 | OPTIMIZER 1 |
 *     copy                                           | WEIGHTS_BACK 0 | WEIGHTS_BACK 1 |
 *
 * One number per op and watched stream tells what is sure to have ended when the op starts (ended.h). */
#include "offload_order.h"

#include "ended.h"
#include "error.h"
#include "fail_op.h"
#include <string.h>

/* Streams of NORM, of GRAD_OUT and of WEIGHTS_BACK. */
static const Stream watched[N_WATCHED] = {STREAM_DP, STREAM_COPY_OUT, STREAM_COPY};

/* Per step: what its update must wait for. */
typedef struct {
  gint32 grad_out, norm; /* the latest so far; −1 none */
  gint32 grad_stored;    /* latest GRAD_OUT to the drives; likewise */
  gint32 n_reads;        /* parts of the state read so far */
  gint32 n_updates;      /* parts updated so far */
  gint32 n_backs;        /* of these, parts whose weights were copied to where they are kept */
} Step;

typedef struct {
  const Program *program;
  int rank;
  const OpList *list;
  gboolean fetches, updates; /* whether any rank does so */
  gboolean stays;      /* updated weights need no copy: they are fetched from the memory in which they are updated */
  Ended *ended;        /* [ops of the longest list], like the next two */
  guint8 *is_gathered; /* a FETCH that an UNSHARD waits for */
  guint8 *is_copied;   /* an op that is first in the `after` of a GRAD_OUT */
  gint32 latest[N_STREAMS]; /* latest op so far on each stream; −1 none */
  Step *steps;              /* [steps] */
  gboolean reads_state;     /* some rank reads optimizer state from the drives */
  GArray *reads, *writes;   /* of gint32: latest STATE_READ, STATE_WRITE of each part of the state; −1 none */
  gint32 weights_store;     /* the latest WEIGHTS_STORE; −1 none */
  gint32 fetch, back;       /* latest FETCH of the latest step, latest WEIGHTS_BACK; −1 none */
  gint32 *last_addition;    /* [stages] within the current step; −1 none */
  guint8 *is_summed;        /* [stages] whether the rank reduces it */
} Walk;

static const Transfer *transfer_of(const Walk *walk, const Op *op) {
  return &g_array_index(walk->program->transfers, Transfer, op->work);
}

static guint route_of(const Walk *walk, const Op *op) {
  return g_array_index(walk->program->groups, Group, transfer_of(walk, op)->group).route;
}

static gboolean updates_on_host(const Op *op) {
  return op->kind == OP_HOST && op->action == ACTION_OPTIMIZER;
}

static gboolean adds(const Op *op) {
  return op->kind == OP_COMPUTE && op->stage >= 0 && (op->action == ACTION_B || op->action == ACTION_W);
}

static gboolean sums(const Op *op) {
  return op->kind == OP_COLLECTIVE && (op->action == ACTION_REDUCE_GRAD || op->action == ACTION_TIED_GRAD ||
                                       op->action == ACTION_COPY_GRAD || op->action == ACTION_WHOLE_GRAD);
}

/* A gather of shards. With a single shard, the fetch that replaces it is on the copy stream. */
static gboolean gathers(const Op *op) {
  return op->kind == OP_COLLECTIVE && op->action == ACTION_UNSHARD && op->stream == STREAM_DP;
}

static gboolean fail_op(const Walk *walk, gint32 i, const char *what, gint32 other, const char *rest, GError **error) {
  return fail_at_op(walk->program, walk->rank, i, what, other, rest, error);
}

/* Parts must come in ascending order. Always FALSE. */
static gboolean fail_part(const Walk *walk, gint32 i, const char *whole, int expected, GError **error) {
  g_autofree char *what =
      g_strdup_printf("part %d of the step's %s; expected part %d", walk->list->ops[i].unit, whole, expected);
  return fail_op(walk, i, what, -1, "", error);
}

/* --- what has ended --- */

/* Whether `source`, an op before op i or −1, is sure to have ended when i starts. */
static gboolean has_ended(const Walk *walk, gint32 i, gint32 source) {
  for (int w = 0; w < N_WATCHED && source >= 0; w++)
    if (watched[w] == walk->list->ops[source].stream)
      return walk->ended[i].on[w] >= source;
  return TRUE;
}

/* --- weights --- */

static gboolean is_same_place(const Op *a, const Op *b) {
  return a->step == b->step && a->stage == b->stage && a->micro_batch == b->micro_batch && a->unit == b->unit;
}

static gboolean check_gather(Walk *walk, gint32 i, GError **error) {
  const Op *ops = walk->list->ops;
  for (int k = 0; k < OP_MAX_AFTER && ops[i].after[k] >= 0; k++) {
    const gint32 fetch = ops[i].after[k];
    if (ops[fetch].action != ACTION_FETCH || !is_same_place(&ops[fetch], &ops[i]) || walk->is_gathered[fetch])
      continue;
    walk->is_gathered[fetch] = TRUE;
    return TRUE;
  }
  return fail_op(walk, i, "its weights are on the host, and it waits for no FETCH of its own", -1, "", error);
}

/* Weights read from the drives must have been written there. */
static gboolean check_stored(const Walk *walk, gint32 i, GError **error) {
  return has_ended(walk, i, walk->weights_store) || fail_op(walk, i, "it fetches weights and does not wait for",
                                                            walk->weights_store, ", which writes them", error);
}

static gboolean check_reader(const Walk *walk, gint32 i, GError **error) {
  return has_ended(walk, i, walk->back) || fail_op(walk, i, "it uses weights and does not wait for", walk->back,
                                                   ", which brings what the host has updated", error);
}

static gboolean check_back(Walk *walk, gint32 i, GError **error) {
  const Op *op = &walk->list->ops[i];
  Step *step = &walk->steps[op->step];
  if (op->unit >= step->n_updates)
    return fail_op(walk, i, "no OPTIMIZER on the host in front of it has updated what it copies", -1, "", error);
  if (op->unit != step->n_backs)
    return fail_part(walk, i, "updated weights", step->n_backs, error);
  step->n_backs++;
  *(op->action == ACTION_WEIGHTS_BACK ? &walk->back : &walk->weights_store) = i;
  return TRUE;
}

/* --- state on the drives --- */

/* −1: none. */
static gint32 part_of(const GArray *parts, gint32 unit) {
  return unit >= 0 && unit < (gint32)parts->len ? g_array_index(parts, gint32, unit) : -1;
}

/* Parts come in ascending order. */
static void set_part(GArray *parts, gint32 unit, gint32 i) {
  if (unit == (gint32)parts->len)
    g_array_append_val(parts, i);
  else
    g_array_index(parts, gint32, unit) = i;
}

static gboolean check_read(Walk *walk, gint32 i, GError **error) {
  static const char what[] = "it reads from the drives and does not wait for";
  const Op *op = &walk->list->ops[i];
  Step *step = &walk->steps[op->step];
  if (op->unit != step->n_reads)
    return fail_part(walk, i, "state", step->n_reads, error);
  const gint32 written = part_of(walk->writes, op->unit);
  if (!has_ended(walk, i, written))
    return fail_op(walk, i, what, written, ", which writes it", error);
  if (!has_ended(walk, i, step->grad_stored))
    return fail_op(walk, i, what, step->grad_stored, ", which writes gradients there", error);
  step->n_reads++;
  set_part(walk->reads, op->unit, i);
  return TRUE;
}

static gboolean check_write(Walk *walk, gint32 i, GError **error) {
  const Op *op = &walk->list->ops[i];
  if (op->unit < 0 || op->unit >= walk->steps[op->step].n_updates)
    return fail_op(walk, i, "no OPTIMIZER on the host in front of it has updated what it writes", -1, "", error);
  if (op->unit > (gint32)walk->writes->len)
    return fail_part(walk, i, "written state", (int)walk->writes->len, error);
  set_part(walk->writes, op->unit, i);
  return TRUE;
}

/* The state that an update needs. */
static gboolean check_state(const Walk *walk, gint32 i, GError **error) {
  const Op *op = &walk->list->ops[i];
  if (op->unit >= walk->steps[op->step].n_reads)
    return fail_op(walk, i, "no STATE_READ in front of it reads what it updates", -1, "", error);
  const gint32 read = part_of(walk->reads, op->unit);
  return has_ended(walk, i, read) ||
         fail_op(walk, i, "it updates on the host and does not wait for", read, ", which reads the state", error);
}

/* --- gradients and the update --- */

static gboolean check_update(Walk *walk, gint32 i, GError **error) {
  const Op *op = &walk->list->ops[i];
  Step *step = &walk->steps[op->step];
  if (op->unit != step->n_updates)
    return fail_part(walk, i, "update on the host", step->n_updates, error);
  if (walk->fetch >= 0 && walk->list->ops[walk->fetch].step > op->step)
    return fail_op(walk, i, "it updates weights on the host behind", walk->fetch, ", which fetches them updated",
                   error);
  if (!has_ended(walk, i, step->grad_out))
    return fail_op(walk, i, "it updates on the host and does not wait for", step->grad_out,
                   ", which copies a gradient there", error);
  if (walk->reads_state && !check_state(walk, i, error))
    return FALSE;
  if (!has_ended(walk, i, step->norm))
    return fail_op(walk, i, "it updates on the host and does not wait for", step->norm, "", error);
  step->n_updates++;
  return TRUE;
}

static gboolean check_grad_out(Walk *walk, gint32 i, GError **error) {
  const Op *op = &walk->list->ops[i];
  if (walk->steps[op->step].n_updates > 0)
    return fail_op(walk, i, "it copies a gradient to the host behind the step's OPTIMIZER there", -1, "", error);
  walk->steps[op->step].grad_out = i;
  if ((route_of(walk, op) & ROUTE_NVME_WRITE) != 0)
    walk->steps[op->step].grad_stored = i;
  return TRUE;
}

/* --- the walk --- */

static gboolean check_op(Walk *walk, gint32 i, GError **error) {
  const Op *op = &walk->list->ops[i];
  ended_set(walk->list->ops, walk->ended, watched, walk->latest, i);
  switch ((ActionKind)op->action) {
  case ACTION_FETCH:
    walk->fetch = walk->fetch < 0 || walk->list->ops[walk->fetch].step <= op->step ? i : walk->fetch;
    return check_stored(walk, i, error);
  case ACTION_UNSHARD:
    return (!walk->fetches || !gathers(op) || check_gather(walk, i, error)) && check_reader(walk, i, error) &&
           check_stored(walk, i, error);
  case ACTION_STATE_READ:
    return check_read(walk, i, error);
  case ACTION_STATE_WRITE:
    return check_write(walk, i, error);
  case ACTION_F:
    return check_reader(walk, i, error);
  case ACTION_GRAD_OUT:
    return check_grad_out(walk, i, error);
  case ACTION_NORM:
    walk->steps[op->step].norm = i;
    return TRUE;
  case ACTION_OPTIMIZER:
    return !updates_on_host(op) || check_update(walk, i, error);
  case ACTION_WEIGHTS_BACK:
  case ACTION_WEIGHTS_STORE:
    return check_back(walk, i, error);
  default:
    return TRUE;
  }
}

/* Whether the next op reduces the same shard over its replicas; then the copy out follows that op. */
static gboolean is_summed_on(const Walk *walk, gint32 i) {
  const Op *op = &walk->list->ops[i], *next = op + 1;
  return i + 1 < walk->list->n_ops && op->action == ACTION_REDUCE_GRAD && next->action == ACTION_REDUCE_GRAD &&
         is_same_place(op, next) && transfer_of(walk, op)->of_experts == transfer_of(walk, next)->of_experts;
}

/* At the end of a step: the last additions of stages that nobody reduces must have been copied out. */
static gboolean check_additions(const Walk *walk, GError **error) {
  for (int stage = 0; stage < walk->program->n_stages; stage++) {
    const gint32 last = walk->last_addition[stage];
    walk->last_addition[stage] = -1;
    if (last >= 0 && !walk->is_summed[stage] && !walk->is_copied[last])
      return fail_op(walk, last, "no GRAD_OUT behind it copies the gradient of its stage to the host", -1, "", error);
  }
  return TRUE;
}

static gboolean is_empty(const Walk *walk, const Op *op) {
  const Work *work = &g_array_index(walk->program->works, Work, op->work);
  return work->piece < 0 && work->n_embedding + work->n_layers + work->n_head == 0;
}

static void find_copies(Walk *walk) {
  memset(walk->is_copied, 0, (gsize)walk->list->n_ops);
  memset(walk->is_gathered, 0, (gsize)walk->list->n_ops);
  memset(walk->is_summed, 0, (gsize)walk->program->n_stages);
  for (gint32 i = 0; i < walk->list->n_ops; i++) {
    const Op *op = &walk->list->ops[i];
    if (op->action == ACTION_GRAD_OUT && op->after[0] >= 0)
      walk->is_copied[op->after[0]] = TRUE;
    else if (op->kind == OP_COLLECTIVE && op->action == ACTION_REDUCE_GRAD && op->stage >= 0 &&
             !transfer_of(walk, op)->of_experts)
      walk->is_summed[op->stage] = TRUE;
  }
}

static gboolean check_copies(const Walk *walk, GError **error) {
  gint32 step = 0;
  memset(walk->last_addition, -1, sizeof *walk->last_addition * (gsize)walk->program->n_stages);
  for (gint32 i = 0; i < walk->list->n_ops; i++) {
    const Op *op = &walk->list->ops[i];
    if (sums(op) && transfer_of(walk, op)->bytes > 0 && !walk->is_copied[i] && !is_summed_on(walk, i))
      return fail_op(walk, i, "no GRAD_OUT behind it copies what it sums to the host", -1, "", error);
    if (!adds(op) || is_empty(walk, op))
      continue;
    if (op->step != step && !check_additions(walk, error))
      return FALSE;
    step = op->step;
    walk->last_addition[op->stage] = i;
  }
  return check_additions(walk, error);
}

static gboolean check_steps(const Walk *walk, GError **error) {
  for (int i = 0; i < walk->program->n_steps; i++) {
    const Step *step = &walk->steps[i];
    if (step->n_updates == 0)
      return fail_impossible(error, "rank %d: step %d has no OPTIMIZER on the host, where its optimizer is", walk->rank,
                             i);
    if (step->n_updates != walk->steps[0].n_updates)
      return fail_impossible(error, "rank %d: step %d updates %d parts on the host; expected %d, as step 0", walk->rank,
                             i, step->n_updates, walk->steps[0].n_updates);
    if (!walk->stays && step->n_backs < step->n_updates)
      return fail_impossible(error,
                             "rank %d: step %d copies %d of the %d parts of its weights that the host has updated to "
                             "where they belong (WEIGHTS_BACK, WEIGHTS_STORE); expected all",
                             walk->rank, i, step->n_backs, step->n_updates);
  }
  return TRUE;
}

static gboolean walk_rank(Walk *walk, int rank, GError **error) {
  const Program *program = walk->program;
  walk->rank = rank;
  walk->list = &program->ranks[rank];
  walk->fetch = walk->back = walk->weights_store = -1;
  g_array_set_size(walk->reads, 0);
  g_array_set_size(walk->writes, 0);
  for (int stream = 0; stream < N_STREAMS; stream++)
    walk->latest[stream] = -1;
  for (int step = 0; step < program->n_steps; step++)
    walk->steps[step] = (Step){-1, -1, -1, 0, 0, 0};
  find_copies(walk);
  if (walk->updates && !check_copies(walk, error))
    return FALSE;
  for (gint32 i = 0; i < walk->list->n_ops; i++)
    if (!check_op(walk, i, error))
      return FALSE;
  return !walk->updates || check_steps(walk, error);
}

/* For a FETCH, or an UNSHARD that replaces one with a single shard. */
static gboolean fetches_from_memory(const Walk *walk, const Op *op) {
  const gboolean fetches = op->action == ACTION_FETCH || (op->action == ACTION_UNSHARD && op->stream == STREAM_COPY);
  return fetches && (route_of(walk, op) & ROUTE_NVME_READ) == 0;
}

/* Returns whether any op involves the host. */
static gboolean find_uses(Walk *walk, int *longest) {
  const Program *program = walk->program;
  gboolean may = FALSE;
  for (guint i = 0; i < program->groups->len; i++)
    may |= g_array_index(program->groups, Group, i).route != 0;
  for (guint i = 0; i < program->works->len; i++)
    walk->updates |= g_array_index(program->works, Work, i).on_host != 0;
  for (int rank = 0; rank < program->n_ranks && (may || walk->updates); rank++) {
    *longest = MAX(*longest, program->ranks[rank].n_ops);
    for (gint32 i = 0; i < program->ranks[rank].n_ops; i++) {
      const Op *op = &program->ranks[rank].ops[i];
      walk->fetches |= op->action == ACTION_FETCH;
      walk->reads_state |= op->action == ACTION_STATE_READ;
      walk->stays |= fetches_from_memory(walk, op);
      walk->updates |= op->action == ACTION_WEIGHTS_BACK || updates_on_host(op);
    }
  }
  return walk->fetches || walk->updates;
}

gboolean offload_order_check(const Program *program, GError **error) {
  Walk walk = {.program = program};
  int longest = 0;
  if (!find_uses(&walk, &longest))
    return TRUE;
  g_autofree Ended *ended = g_new(Ended, longest);
  g_autofree guint8 *is_gathered = g_new(guint8, longest), *is_copied = g_new(guint8, longest);
  g_autofree Step *steps = g_new(Step, program->n_steps);
  g_autofree gint32 *last_addition = g_new(gint32, program->n_stages);
  g_autofree guint8 *is_summed = g_new(guint8, program->n_stages);
  g_autoptr(GArray) reads = g_array_new(FALSE, FALSE, sizeof(gint32));
  g_autoptr(GArray) writes = g_array_new(FALSE, FALSE, sizeof(gint32));
  walk.ended = ended;
  walk.is_gathered = is_gathered;
  walk.is_copied = is_copied;
  walk.steps = steps;
  walk.last_addition = last_addition;
  walk.is_summed = is_summed;
  walk.reads = reads;
  walk.writes = writes;
  for (int rank = 0; rank < program->n_ranks; rank++)
    if (!walk_rank(&walk, rank, error))
      return FALSE;
  return TRUE;
}
