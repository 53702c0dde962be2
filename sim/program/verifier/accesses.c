/* A table says what each kind of op does to which resource, and one pass over each rank's list checks it:
 *
 *     awaits    the latest ops of these kinds in front of it at the same place must have ended when it starts (clocks.h)
 *     behind    no op of these kinds may be in front of it at the same place
 *     follows   the latest op in front of it at the same place must be of these kinds; 0: of any
 *
 * A place is the resource in one step, of a stage or of the whole rank, for one micro-batch or all. There, ops meet if
 * they have a common piece (embedding, head, a layer), if they have the same unit (a layer, or a part of the update),
 * or always. Its ops are kept in a list, newest first, with the set of their kinds, which answers most questions. Ops
 * of one kind are on one stream, so the latest of them is the last to end.
 *
 *     compute    F0 | B0 |                           | OPTIMIZER |         | F0 of the next step
 *     dp                 | REDUCE_GRAD |      | NORM |           | UNSHARD |
 *     tp                               | WHOLE_GRAD |
 *     copy_out                         | GRAD_OUT |
 *     host                                             | OPTIMIZER 0 | OPTIMIZER 1 |
 *     copy                                                           | WEIGHTS_BACK 0 | WEIGHTS_BACK 1 |
 *
 * Of gathered weights there are several versions, so who reads which has rules of its own:
 *
 *     dp        | UNSHARD0 a | UNSHARD0 b |        | UNSHARD0 b |
 *     compute                | F0 of a    | F0 of b    | B0 of b |
 *                                            └ waits for the first of b; the one for its B may still be in flight */

#include "checks.h"

#include "clocks.h"
#include "error.h"
#include "fail_op.h"

#include <string.h>

/* What the table distinguishes: ActionKind, and where that says too little, these. */
enum {
  N_KNOWN_ACTIONS = ACTION_DATA + 1,     /* those behind it are not looked at */
  KIND_UPDATE_ON_HOST = N_KNOWN_ACTIONS, /* OPTIMIZER */
  KIND_REDUCE_EXPERTS,                   /* REDUCE_GRAD of experts only */
  KIND_NOTHING,                          /* in sets: that no op is there */
  N_KINDS,
  /* in place of kinds that no op has: */
  KIND_FETCH_WHOLE = ACTION_OVERLAP_F_B, /* UNSHARD of a single shard, which a copy brings */
  KIND_GRAD_STORED = ACTION_RESHARD      /* GRAD_OUT to the drives */
};
G_STATIC_ASSERT(N_KINDS <= 32); /* bits of a set */

#define BIT(action) (1u << ACTION_##action)
enum {
  UPDATE_ON_HOST = 1 << KIND_UPDATE_ON_HOST,
  ADDS = BIT(B) | BIT(W),
  REDUCES = BIT(REDUCE_GRAD) | 1 << KIND_REDUCE_EXPERTS,
  SUMS = REDUCES | BIT(TIED_GRAD) | BIT(COPY_GRAD) | BIT(WHOLE_GRAD),
  GRADS_OUT = BIT(GRAD_OUT) | 1 << KIND_GRAD_STORED,
  GATHERS = BIT(UNSHARD) | 1 << KIND_FETCH_WHOLE,
  RETURNS = BIT(WEIGHTS_BACK) | BIT(WEIGHTS_STORE),
  GPU_UPDATE = BIT(NORM) | BIT(OPTIMIZER),
};

typedef enum {
  GRADIENT, /* of a stage */
  TABLE,    /* gradient of the table that embedding and head of the rank add to */
  STEP,     /* all gradients of the rank in a step */
  WEIGHTS,  /* all weights that the rank owns, in any step */
  SAVED,    /* activations */
  PART,     /* part of an update on the host */
  STATE,    /* its state on the drives, in any step */
  N_RESOURCES
} Resource;

/* A resource is at one place per step, stage and micro-batch, or for all of them. */
static const struct {
  gboolean is_of_step, is_of_stage, is_of_micro_batch;
  gboolean is_whole; /* ops at a place always meet: of each kind only the latest is kept */
} resources[N_RESOURCES] = {
    [GRADIENT] = {TRUE, TRUE, TRUE, FALSE},  [TABLE] = {TRUE, FALSE, TRUE, TRUE}, [STEP] = {TRUE, FALSE, FALSE, TRUE},
    [WEIGHTS] = {FALSE, FALSE, FALSE, TRUE}, [SAVED] = {TRUE, TRUE, TRUE, FALSE}, [PART] = {TRUE, FALSE, FALSE, FALSE},
    [STATE] = {FALSE, FALSE, FALSE, FALSE},
};

/* When two ops at a place meet. */
typedef enum { ALWAYS, BY_PIECE, BY_UNIT } Match;

typedef struct {
  guint32 kinds; /* that the row is about */
  Resource resource;
  Match match;
  guint32 awaits, behind, follows;
  gboolean is_optional; /* `follows` holds only in Programs that have such ops */
  guint32 counts;       /* its unit must be one more than that of the latest of these, from 0 */
  guint32 later;        /* no op of these kinds, of a later step, may be in front of it */
  const char *does;     /* "it …" */
} Access;

static const char adds[] = "adds to a gradient", sums_up[] = "sums a gradient", copies_out[] = "copies a gradient out",
                  to_table[] = "adds to the gradient of a table that embedding and head add to",
                  of_table[] = "sums the gradient of a table that embedding and head add to",
                  of_tp[] = "sums what each rank of tp holds whole",
                  of_norm[] = "takes the norm of the step's gradient", updates[] = "updates with the step's gradient",
                  on_host[] = "updates on the host", fetches[] = "fetches weights", gathers[] = "gathers weights",
                  returns[] = "moves updated weights", reads_state[] = "reads the state of an update",
                  writes_state[] = "writes the state of an update";

static const Access accesses[] = {
    {ADDS, GRADIENT, BY_PIECE, .behind = REDUCES | BIT(COPY_GRAD), .does = adds},
    {REDUCES, GRADIENT, BY_PIECE, .awaits = ADDS, .does = sums_up},
    {BIT(COPY_GRAD), GRADIENT, ALWAYS, .awaits = ADDS, .does = sums_up},
    {BIT(TIED_GRAD) | BIT(WHOLE_GRAD), GRADIENT, ALWAYS, .does = sums_up},
    {GRADS_OUT, GRADIENT, BY_UNIT, .awaits = ADDS | SUMS, .does = copies_out},

    {ADDS, TABLE, ALWAYS, .behind = REDUCES | BIT(TIED_GRAD), .does = to_table},
    {REDUCES | BIT(TIED_GRAD), TABLE, ALWAYS, .awaits = ADDS, .does = of_table},

    {ADDS, STEP, ALWAYS, .behind = BIT(WHOLE_GRAD) | GPU_UPDATE | UPDATE_ON_HOST, .does = adds},
    {SUMS & ~BIT(WHOLE_GRAD), STEP, ALWAYS, .behind = GPU_UPDATE | UPDATE_ON_HOST, .does = sums_up},
    {BIT(WHOLE_GRAD), STEP, ALWAYS, ADDS | BIT(REDUCE_GRAD) | BIT(COPY_GRAD), GPU_UPDATE | UPDATE_ON_HOST,
     .does = of_tp},
    {BIT(NORM), STEP, ALWAYS, .awaits = ADDS | SUMS | BIT(NORM), .does = of_norm},
    {BIT(OPTIMIZER), STEP, ALWAYS, .awaits = ADDS | SUMS | BIT(NORM), .does = updates},
    {GRADS_OUT, STEP, ALWAYS, .behind = UPDATE_ON_HOST, .does = copies_out},
    {BIT(STATE_READ), STEP, ALWAYS, .awaits = 1 << KIND_GRAD_STORED, .does = reads_state},
    {UPDATE_ON_HOST, STEP, ALWAYS, .awaits = GRADS_OUT | BIT(NORM), .later = BIT(FETCH), .does = on_host},
    {BIT(FETCH), STEP, ALWAYS, .does = fetches},

    {BIT(OPTIMIZER), WEIGHTS, ALWAYS, .does = updates},
    {RETURNS, WEIGHTS, ALWAYS, .does = returns},
    {BIT(FETCH), WEIGHTS, ALWAYS, .awaits = BIT(WEIGHTS_STORE), .does = fetches},
    {GATHERS, WEIGHTS, ALWAYS, .awaits = BIT(OPTIMIZER) | RETURNS, .does = gathers},
    {BIT(F), WEIGHTS, ALWAYS, .awaits = BIT(WEIGHTS_BACK), .does = "uses weights"},
    {BIT(KEPT), WEIGHTS, ALWAYS, .awaits = BIT(OPTIMIZER), .does = gathers},
    {BIT(SYNC), WEIGHTS, ALWAYS, .awaits = BIT(OPTIMIZER) | BIT(UNSHARD) | BIT(KEPT), .does = "ends a step"},

    {BIT(F), SAVED, BY_UNIT, .follows = ~BIT(SAVED_OUT), .does = "saves activations"},
    {BIT(SAVED_OUT), SAVED, BY_UNIT, .awaits = BIT(F) | BIT(SAVED_IN), .follows = BIT(F) | BIT(SAVED_IN),
     .does = "copies activations out"},
    {BIT(SAVED_IN), SAVED, BY_UNIT, .awaits = BIT(SAVED_OUT), .follows = BIT(SAVED_OUT),
     .does = "brings activations back"},
    {BIT(I) | BIT(B), SAVED, BY_UNIT, .awaits = BIT(SAVED_IN), .follows = ~BIT(SAVED_OUT), .does = "needs activations"},

    {BIT(STATE_READ), PART, BY_UNIT, .counts = BIT(STATE_READ), .does = reads_state},
    {UPDATE_ON_HOST, PART, BY_UNIT, BIT(STATE_READ), .follows = BIT(STATE_READ), .is_optional = TRUE,
     .counts = UPDATE_ON_HOST, .does = on_host},
    {RETURNS, PART, BY_UNIT, .follows = UPDATE_ON_HOST | RETURNS | BIT(STATE_WRITE), .counts = RETURNS,
     .does = returns},
    {BIT(STATE_WRITE), PART, BY_UNIT, .follows = UPDATE_ON_HOST | RETURNS | BIT(STATE_WRITE),
     .counts = BIT(STATE_WRITE), .does = writes_state},
    {BIT(STATE_WRITE), STATE, BY_UNIT, .does = writes_state},
    {BIT(STATE_READ), STATE, BY_UNIT, .awaits = BIT(STATE_WRITE), .does = reads_state},
};
enum { MOST_ROWS = 6 }; /* of one kind */

/* --- places --- */

/* An op at a place. */
typedef struct {
  gint32 op;
  guint32 next; /* the next older one, as Place.newest */
  guint8 kind;
} Node;

/* Embedding, head, and layers of a stage from `first` to before `end`. */
typedef struct {
  gint64 first, end;
  guint8 has_embedding, has_head;
} Pieces;

typedef struct {
  guint32 newest; /* node + 1; 0 none */
  guint32 kinds;
  Pieces summed; /* if it has sums, spans all their pieces: an addition seldom meets it */
} Place;

/* Gathers of a piece; −1 none. */
typedef struct {
  gint32 first, last;
} Versions;
enum { EMBEDDING, HEAD, FIRST_LAYER }; /* numbers of a stage's pieces */
/* Limits: pieces of a rank that are gathered, and its Versions. Beyond them, gathers are not checked. */
enum { MOST_PIECES = 1 << 12, MOST_VERSIONS = 1 << 24 };

typedef struct {
  const Program *program;
  int rank;
  const OpList *list;
  Clocks clocks;
  guint32 present;                        /* kinds of all ops */
  const Access *rows[N_KINDS][MOST_ROWS]; /* of each kind, NULL behind the last */
  guint32 noted[N_RESOURCES];             /* kinds that some row asks for */
  int slot[N_RESOURCES], n_slots;         /* −1: the resource does not matter */
  Place *places; /* [steps][stages, then the rank][all micro-batches, then each][n_slots]; owned */
  Node *nodes;   /* owned, with room for n_room */
  guint32 n_nodes, n_room;
  gboolean sums_apart, sums_whole;     /* some gradients are summed, or copied out, for one micro-batch; for all */
  gboolean table_is_shared, has_table; /* by embedding and head of the rank; some sum is of such a table */
  /* gathered weights */
  guint8 *is_taken;      /* [ops of the longest list] whether a gather has named the FETCH; owned */
  guint8 *gathers_apart; /* [stages] whether it is gathered for several micro-batches of a step; owned */
  gint32 *first_piece;   /* [stages] number of its first piece on the rank; owned */
  gint32 *n_pieces;      /* [stages] from there, those that may be gathered; owned */
  gint32 n_all_pieces;   /* of the rank; 0: nothing is gathered */
  GArray *versions;      /* of Versions: [for any micro-batch, then each step's][pieces][others, experts]; owned */
  gint32 gathered[N_STREAMS], awaited[N_STREAMS]; /* the latest gather, the latest op that compute has waited for */
  gint32 kept;                                    /* latest op that names a gather in its `after`; −1 none */
} Pass;

static const Transfer *transfer_of(const Pass *pass, const Op *op) {
  return &g_array_index(pass->program->transfers, Transfer, op->work);
}

static inline int kind_of(const Pass *pass, const Op *op) {
  switch ((ActionKind)op->action) {
  case ACTION_F:
  case ACTION_I:
  case ACTION_W:
  case ACTION_B:
    return op->kind == OP_COMPUTE ? op->action : KIND_NOTHING;
  case ACTION_OPTIMIZER:
    return op->kind == OP_HOST ? KIND_UPDATE_ON_HOST : op->action;
  case ACTION_REDUCE_GRAD:
    return transfer_of(pass, op)->of_experts ? KIND_REDUCE_EXPERTS : op->action;
  case ACTION_UNSHARD:
    return op->stream == STREAM_COPY ? KIND_FETCH_WHOLE : op->action;
  case ACTION_GRAD_OUT: {
    const Group *group = &g_array_index(pass->program->groups, Group, transfer_of(pass, op)->group);
    return (group->route & ROUTE_NVME_WRITE) != 0 ? KIND_GRAD_STORED : op->action;
  }
  default:
    return op->action < N_KNOWN_ACTIONS ? op->action : KIND_NOTHING;
  }
}

static inline Place *place_of(const Pass *pass, Resource resource, gint32 step, gint32 stage, gint32 micro_batch) {
  const Program *program = pass->program;
  const gsize s = resources[resource].is_of_step ? (gsize)step : 0;
  const gsize g = (gsize)(resources[resource].is_of_stage && stage >= 0 ? stage : program->n_stages);
  const gsize m = resources[resource].is_of_micro_batch ? (gsize)(micro_batch + 1) : 0;
  const gsize row = (s * (gsize)(program->n_stages + 1) + g) * (gsize)(program->n_micro_batches + 1) + m;
  return &pass->places[row * (gsize)pass->n_slots + (gsize)pass->slot[resource]];
}

static inline Node *node_at(const Pass *pass, guint32 n) {
  return &pass->nodes[n - 1];
}

static inline Pieces pieces_of(const Pass *pass, const Op *op) {
  if (op->action == ACTION_COPY_GRAD)
    return (Pieces){G_MININT64, G_MAXINT64, TRUE, TRUE};
  if (op->kind == OP_COLLECTIVE) {
    const Transfer *transfer = transfer_of(pass, op);
    return (Pieces){op->unit, (gint64)op->unit + transfer->n_layers, transfer->n_embedding > 0, transfer->n_head > 0};
  }
  const Work *work = &g_array_index(pass->program->works, Work, op->work);
  const gboolean is_layer = work->piece >= 0 && piece_is_layer((Piece)work->piece);
  return (Pieces){op->unit, (gint64)op->unit + (work->piece < 0 ? work->n_layers : is_layer),
                  work->n_embedding > 0 || work->piece == PIECE_EMBEDDING,
                  work->n_head > 0 || work->piece == PIECE_HEAD};
}

static gboolean have_common_piece(const Pieces *a, const Pieces *b) {
  return (a->has_embedding && b->has_embedding) || (a->has_head && b->has_head) ||
         MAX(a->first, b->first) < MIN(a->end, b->end);
}

static void add_sum(Place *place, Pieces pieces) {
  Pieces *to = &place->summed;
  const gboolean is_first = (place->kinds & SUMS) == 0;
  to->has_embedding |= pieces.has_embedding;
  to->has_head |= pieces.has_head;
  to->first = is_first ? pieces.first : MIN(to->first, pieces.first);
  to->end = is_first ? pieces.end : MAX(to->end, pieces.end);
}

static gboolean meet(const Pass *pass, Match match, gint32 i, gint32 other) {
  const Op *a = &pass->list->ops[i], *b = &pass->list->ops[other];
  if (match == BY_UNIT)
    return a->unit == b->unit && a->micro_batch == b->micro_batch;
  if (match == ALWAYS)
    return TRUE;
  const Pieces of_a = pieces_of(pass, a), of_b = pieces_of(pass, b);
  return have_common_piece(&of_a, &of_b);
}

/* The latest op of these kinds at the place that op i meets; −1 none. */
static gint32 find_latest(const Pass *pass, const Place *place, guint32 kinds, Match match, gint32 i) {
  if (match == BY_PIECE && (kinds & ~SUMS) == 0) {
    const Pieces pieces = pieces_of(pass, &pass->list->ops[i]);
    if (!have_common_piece(&pieces, &place->summed))
      return -1;
  }
  for (guint32 n = place->newest; n > 0; n = node_at(pass, n)->next) {
    const Node *node = node_at(pass, n);
    if ((kinds >> node->kind & 1) != 0 && meet(pass, match, i, node->op))
      return node->op;
  }
  return -1;
}

static inline gint32 latest_of(const Pass *pass, const Place *place, guint32 kinds, Match match, gint32 i) {
  return (place->kinds & kinds) == 0 ? -1 : find_latest(pass, place, kinds, match, i);
}

static void note(Pass *pass, Place *place, int kind, gboolean is_whole, gint32 i) {
  for (guint32 n = place->newest; is_whole && (place->kinds >> kind & 1) != 0 && n > 0; n = node_at(pass, n)->next)
    if (node_at(pass, n)->kind == kind) {
      node_at(pass, n)->op = i;
      return;
    }
  if ((1u << kind & SUMS) != 0)
    add_sum(place, pieces_of(pass, &pass->list->ops[i]));
  place->kinds |= 1u << kind;
  if (pass->n_nodes == pass->n_room) {
    pass->n_room = MAX(2 * pass->n_room, 1024);
    pass->nodes = g_renew(Node, pass->nodes, pass->n_room);
  }
  pass->nodes[pass->n_nodes++] = (Node){i, place->newest, (guint8)kind};
  place->newest = pass->n_nodes;
}

/* --- the table --- */

static const Access *row_of(const Pass *pass, gint32 i, Resource resource) {
  const Access *const *row = pass->rows[kind_of(pass, &pass->list->ops[i])];
  while ((*row)->resource != resource)
    row++;
  return *row;
}

/* "it … and does not wait for …, which …" */
static gboolean fail_pair(const Pass *pass, gint32 i, const char *does, const char *but, gint32 other,
                          const char *other_does, GError **error) {
  g_autofree char *name = op_name_new(pass->program, pass->rank, other);
  return fail_at_op(pass->program, pass->rank, i, error, "it %s%s %s, which %s", does, but, name, other_does);
}

/* Of each kind its latest, for they are on different streams. */
static gboolean check_awaits(Pass *pass, gint32 i, const Access *access, const Place *place, GError **error) {
  for (guint32 kinds = access->awaits & place->kinds; kinds != 0; kinds &= kinds - 1) {
    const gint32 before = latest_of(pass, place, kinds & -kinds, access->match, i);
    if (before >= 0 && !clocks_has_ended(&pass->clocks, i, before))
      return fail_pair(pass, i, access->does, " and does not wait for", before,
                       row_of(pass, before, access->resource)->does, error);
  }
  return TRUE;
}

static gboolean check_behind(const Pass *pass, gint32 i, const Access *access, const Place *place, GError **error) {
  const gint32 before = latest_of(pass, place, access->behind, access->match, i);
  if (before >= 0)
    return fail_pair(pass, i, access->does, " behind", before, row_of(pass, before, access->resource)->does, error);
  const gint32 step = pass->list->ops[i].step;
  for (gint32 later = step + 1; access->later != 0 && later < pass->program->n_steps; later++) {
    const gint32 ahead = latest_of(pass, place_of(pass, access->resource, later, -1, -1), access->later, ALWAYS, i);
    if (ahead >= 0)
      return fail_pair(pass, i, access->does, " behind", ahead, "is of a later step", error);
  }
  return TRUE;
}

/* "it …; right in front of it, for the same, is …; expected …" */
static gboolean fail_follows(const Pass *pass, gint32 i, const Access *access, gint32 latest, GError **error) {
  g_autoptr(GString) expected = g_string_new(NULL);
  const gboolean is_wide = (access->follows >> KIND_NOTHING & 1) != 0;
  for (int kind = 0; kind <= KIND_UPDATE_ON_HOST && !is_wide; kind++)
    if ((access->follows >> kind & 1) != 0)
      g_string_append_printf(expected, "%s%s", expected->len > 0 ? " or " : "; expected ",
                             kind < N_KNOWN_ACTIONS ? action_infos[kind].name : "OPTIMIZER on the host");
  g_autofree char *name = latest >= 0 ? op_name_new(pass->program, pass->rank, latest) : g_strdup("nothing");
  return fail_at_op(pass->program, pass->rank, i, error, "it %s, and in front of it, for the same unit, is %s%s",
                    access->does, name, expected->str);
}

static gboolean check_follows(const Pass *pass, gint32 i, const Access *access, const Place *place, GError **error) {
  if (access->follows == 0 || (access->is_optional && (access->follows & pass->present) == 0))
    return TRUE;
  const gint32 latest = latest_of(pass, place, ~0u, access->match, i);
  const int kind = latest < 0 ? KIND_NOTHING : kind_of(pass, &pass->list->ops[latest]);
  return (access->follows >> kind & 1) != 0 || fail_follows(pass, i, access, latest, error);
}

static gboolean check_counts(const Pass *pass, gint32 i, const Access *access, const Place *place, GError **error) {
  if (access->counts == 0)
    return TRUE;
  const gint32 latest = latest_of(pass, place, access->counts, ALWAYS, i), unit = pass->list->ops[i].unit;
  const gint32 expected = latest < 0 ? 0 : pass->list->ops[latest].unit + 1;
  return unit == expected || fail_at_op(pass->program, pass->rank, i, error, "it %s, part %d; expected part %d",
                                        access->does, unit, expected);
}

static gboolean check_place(Pass *pass, gint32 i, const Access *access, const Place *place, GError **error) {
  return check_behind(pass, i, access, place, error) && check_follows(pass, i, access, place, error) &&
         check_counts(pass, i, access, place, error) && check_awaits(pass, i, access, place, error);
}

/* A table that embedding and head share, or both add to, is part of the sum of one of them; for a single micro-batch,
 * of the one that is on the rank. */
static gboolean is_of_table(const Pass *pass, const Op *op) {
  if (!pass->has_table)
    return FALSE;
  if (op->action == ACTION_REDUCE_GRAD)
    return (pass->table_is_shared || pass->program->heads_add_to_table) &&
           transfer_moves_table(transfer_of(pass, op), pass->table_is_shared);
  const Pieces pieces = pieces_of(pass, op);
  return op->action == ACTION_TIED_GRAD || pieces.has_embedding || pieces.has_head;
}

/* An addition counts for all micro-batches too. */
static gboolean check_access(Pass *pass, gint32 i, int kind, const Access *access, GError **error) {
  const Op *op = &pass->list->ops[i];
  const Resource resource = access->resource;
  if (resource == TABLE && !is_of_table(pass, op))
    return TRUE;
  const gboolean is_addition = (1u << kind & ADDS) != 0 && resource != SAVED;
  Place *own = is_addition && !pass->sums_apart ? NULL : place_of(pass, resource, op->step, op->stage, op->micro_batch);
  Place *all =
      is_addition && (own == NULL || pass->sums_whole) ? place_of(pass, resource, op->step, op->stage, -1) : NULL;
  all = all != own ? all : NULL;
  if ((own != NULL && !check_place(pass, i, access, own, error)) ||
      (all != NULL && !check_place(pass, i, access, all, error)))
    return FALSE;
  if ((pass->noted[resource] >> kind & 1) == 0)
    return TRUE;
  if (own != NULL)
    note(pass, own, kind, resources[resource].is_whole, i);
  if (all != NULL)
    note(pass, all, kind, resources[resource].is_whole, i);
  return TRUE;
}

/* --- gathered weights --- */

/* Of a piece of the op's stage; `micro_batch` −1: for any, in any step. */
static Versions *versions_of(const Pass *pass, const Op *op, gint32 micro_batch, gint32 piece, gboolean of_experts) {
  const gsize row =
      micro_batch < 0 ? 0 : 1 + (gsize)op->step * (gsize)pass->program->n_micro_batches + (gsize)micro_batch;
  const gsize place = row * (gsize)pass->n_all_pieces + (gsize)(pass->first_piece[op->stage] + piece);
  return &g_array_index(pass->versions, Versions, 2 * place + (gsize)of_experts);
}

static gboolean note_gather(Pass *pass, gint32 i, gint32 piece, GError **error) {
  const Op *op = &pass->list->ops[i];
  const gboolean of_experts = transfer_of(pass, op)->of_experts;
  versions_of(pass, op, -1, piece, of_experts)->last = i;
  if (op->micro_batch < 0)
    return TRUE;
  Versions *own = versions_of(pass, op, op->micro_batch, piece, of_experts);
  own->first = own->first < 0 ? i : own->first;
  own->last = i;
  return TRUE;
}

/* Calls `use` with each piece of op i that may be gathered, while it returns TRUE. */
static inline gboolean use_pieces(Pass *pass, gint32 i, gboolean (*use)(Pass *, gint32, gint32, GError **),
                                  GError **error) {
  const int stage = pass->list->ops[i].stage;
  if (stage < 0 || pass->n_pieces[stage] == 0)
    return TRUE;
  const Pieces pieces = pieces_of(pass, &pass->list->ops[i]);
  const gint64 end = MIN(pieces.end + FIRST_LAYER, pass->n_pieces[stage]);
  if ((pieces.has_embedding && !use(pass, i, EMBEDDING, error)) || (pieces.has_head && !use(pass, i, HEAD, error)))
    return FALSE;
  for (gint64 piece = pieces.first + FIRST_LAYER; piece < end; piece++)
    if (!use(pass, i, (gint32)piece, error))
      return FALSE;
  return TRUE;
}

/* Where shards are fetched, a gather names a FETCH of its own. */
static gboolean check_fetched(Pass *pass, gint32 i, GError **error) {
  const Op *ops = pass->list->ops, *op = &ops[i];
  for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++) {
    const gint32 fetch = op->after[k];
    if (ops[fetch].action != ACTION_FETCH || !op_same_place(&ops[fetch], op) || pass->is_taken[fetch])
      continue;
    pass->is_taken[fetch] = TRUE;
    return TRUE;
  }
  return fail_at_op(pass->program, pass->rank, i, error,
                    "its weights are on the host, and it waits for no FETCH of its own");
}

static gboolean names(const Op *op, gint32 before) {
  for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++)
    if (op->after[k] == before)
      return TRUE;
  return FALSE;
}

/* A layer of a stage that must be gathered for each of its readers; `own`: of the reader's micro-batch. */
static gboolean check_apart(const Pass *pass, gint32 i, Versions own, GError **error) {
  const Op *ops = pass->list->ops, *op = &ops[i];
  if (own.first < 0)
    return fail_at_op(pass->program, pass->rank, i, error,
                      "no UNSHARD of its micro-batch gathers the weights of its layer");
  const Op *kept = pass->kept >= 0 ? &ops[pass->kept] : NULL;
  const gboolean is_kept = kept != NULL && op_same_action(kept, op) && kept->unit == op->unit && names(kept, own.first);
  return op->action == ACTION_F || own.last > own.first || is_kept ||
         fail_at_op(pass->program, pass->rank, i, error,
                    "no UNSHARD gathers the weights of its layer again, which its forward has used");
}

/* Of frozen layers before which nothing is trained. */
static gboolean runs_nothing(const Work *work) {
  gboolean has_frozen = work->piece >= 0 && piece_is_frozen((Piece)work->piece);
  for (int piece = 0; piece < N_PIECES; piece++)
    has_frozen |= piece_is_frozen((Piece)piece) && work->others.n[piece] > 0;
  return has_frozen && work->flops == 0;
}

/* F reads the first version of its micro-batch, I and B the last so far; without one, the last of any micro-batch. */
static gboolean read_piece(Pass *pass, gint32 i, gint32 piece, GError **error) {
  const Op *op = &pass->list->ops[i];
  if (op->action != ACTION_F && piece >= FIRST_LAYER &&
      runs_nothing(&g_array_index(pass->program->works, Work, op->work)))
    return TRUE;
  for (int of_experts = 0; of_experts < 2; of_experts++) {
    const gint32 of_any = versions_of(pass, op, -1, piece, of_experts)->last;
    if (of_any < 0)
      continue;
    const Versions own = *versions_of(pass, op, op->micro_batch, piece, of_experts);
    if (piece >= FIRST_LAYER && pass->gathers_apart[op->stage] && !check_apart(pass, i, own, error))
      return FALSE;
    const gint32 gather = own.last < 0 ? of_any : op->action == ACTION_F ? own.first : own.last;
    gint32 *awaited = &pass->awaited[pass->list->ops[gather].stream];
    if (*awaited < gather && !clocks_has_ended(&pass->clocks, i, gather))
      return fail_pair(pass, i, "reads weights", " and does not wait for", gather, "gathers them", error);
    *awaited = MAX(*awaited, gather);
  }
  return TRUE;
}

/* What the op waits for directly, all later ops on the compute stream have waited for too. */
static void note_waits(Pass *pass, gint32 i) {
  const Op *op = &pass->list->ops[i];
  for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++) {
    const Op *before = &pass->list->ops[op->after[k]];
    pass->awaited[before->stream] = MAX(pass->awaited[before->stream], op->after[k]);
    if (before->action == ACTION_UNSHARD)
      pass->kept = i;
  }
}

static gboolean check_reader(Pass *pass, gint32 i, GError **error) {
  const Op *op = &pass->list->ops[i];
  note_waits(pass, i);
  if (!pass->gathers_apart[op->stage] && pass->awaited[STREAM_DP] >= pass->gathered[STREAM_DP] &&
      pass->awaited[STREAM_COPY] >= pass->gathered[STREAM_COPY])
    return TRUE;
  return use_pieces(pass, i, read_piece, error);
}

/* --- the pass --- */

static gboolean check_op(Pass *pass, gint32 i, GError **error) {
  const int kind = kind_of(pass, &pass->list->ops[i]);
  for (const Access *const *row = pass->rows[kind]; *row != NULL; row++)
    if (!check_access(pass, i, kind, *row, error))
      return FALSE;
  if (kind == ACTION_UNSHARD && (pass->present & BIT(FETCH)) != 0 && !check_fetched(pass, i, error))
    return FALSE;
  if (pass->n_all_pieces == 0)
    return TRUE;
  if ((1u << kind & GATHERS) != 0) {
    pass->gathered[pass->list->ops[i].stream] = i;
    return use_pieces(pass, i, note_gather, error);
  }
  return (1u << kind & (BIT(F) | BIT(I) | BIT(B))) == 0 || check_reader(pass, i, error);
}

/* What is known of a rank before its pass. */
static void look_ahead(Pass *pass) {
  const gsize n_stages = (gsize)pass->program->n_stages;
  g_autofree const Op **before = g_new0(const Op *, n_stages); /* each stage's latest gather for a micro-batch */
  memset(pass->gathers_apart, 0, n_stages);
  memset(pass->n_pieces, 0, n_stages * sizeof *pass->n_pieces);
  pass->table_is_shared = FALSE;
  for (gint32 i = 0; i < pass->list->n_ops; i++) {
    const Op *op = &pass->list->ops[i];
    if (op->action == ACTION_REDUCE_GRAD) {
      const Transfer *sum = transfer_of(pass, op);
      pass->table_is_shared |= !sum->of_experts && sum->n_tables < sum->n_embedding + sum->n_head;
    }
    if (op->action != ACTION_UNSHARD || op->stage < 0)
      continue;
    const gint64 end = CLAMP(pieces_of(pass, op).end, 0, MOST_PIECES);
    pass->n_pieces[op->stage] = MAX(pass->n_pieces[op->stage], FIRST_LAYER + (gint32)end);
    const Op *other = before[op->stage];
    if (op->micro_batch < 0)
      continue;
    pass->gathers_apart[op->stage] |= other != NULL && other->step == op->step && other->micro_batch != op->micro_batch;
    before[op->stage] = op;
  }
  pass->has_table = pass->table_is_shared || pass->program->heads_add_to_table || (pass->present & BIT(TIED_GRAD)) != 0;
}

static void lay_out_versions(Pass *pass) {
  const Program *program = pass->program;
  gint64 n_pieces = 0;
  for (int stage = 0; stage < program->n_stages; stage++) {
    pass->first_piece[stage] = (gint32)MIN(n_pieces, MOST_PIECES);
    n_pieces += pass->n_pieces[stage];
  }
  const gint64 n_rows = 1 + (gint64)program->n_steps * program->n_micro_batches;
  const gboolean is_checked = n_pieces > 0 && n_pieces <= MOST_PIECES && n_rows <= MOST_VERSIONS / (2 * n_pieces);
  pass->n_all_pieces = is_checked ? (gint32)n_pieces : 0;
  if (!is_checked)
    return;
  g_array_set_size(pass->versions, (guint)(2 * n_rows * n_pieces));
  memset(pass->versions->data, -1, pass->versions->len * sizeof(Versions)); /* −1: none */
}

static gboolean check_rank(Pass *pass, int rank, GError **error) {
  const Program *program = pass->program;
  pass->rank = rank;
  pass->list = &program->ranks[rank];
  clocks_begin(&pass->clocks, pass->list);
  pass->n_nodes = 0;
  const gsize n_of_group = (gsize)(program->n_micro_batches + 1) * (gsize)pass->n_slots;
  for (gsize step = 0; step < (gsize)program->n_steps && n_of_group > 0; step++) { /* a stage is on one rank only */
    Place *of_rank = &pass->places[((step + 1) * (gsize)(program->n_stages + 1) - 1) * n_of_group];
    memset(of_rank, 0, n_of_group * sizeof(Place));
  }
  memset(pass->gathered, -1, sizeof pass->gathered);
  memset(pass->awaited, -1, sizeof pass->awaited);
  pass->kept = -1;
  memset(pass->is_taken, 0, (gsize)pass->list->n_ops);
  look_ahead(pass);
  lay_out_versions(pass);
  for (gint32 i = 0; i < pass->list->n_ops; i++)
    if (!check_op(pass, i, error))
      return FALSE;
  return TRUE;
}

/* Kinds of ops that a row asks about. */
static guint32 asked_by(const Access *access) {
  const gboolean is_wide = (access->follows >> KIND_NOTHING & 1) != 0;
  const guint32 follows = access->follows == 0 ? 0 : is_wide ? ~access->follows : ~0u;
  return access->awaits | access->behind | access->later | access->counts | follows;
}

/* Rows about ops that the Program has, and that ask about ops that it has, or are asked about. */
static void choose_rows(Pass *pass) {
  int n_rows[N_KINDS] = {0};
  for (gsize k = 0; k < G_N_ELEMENTS(accesses); k++)
    if ((accesses[k].kinds & pass->present) != 0)
      pass->noted[accesses[k].resource] |= asked_by(&accesses[k]) & pass->present;
  memset(pass->slot, -1, sizeof pass->slot);
  for (gsize k = 0; k < G_N_ELEMENTS(accesses); k++) {
    const Access *access = &accesses[k];
    const Resource resource = access->resource;
    for (guint32 kinds = access->kinds & pass->present; kinds != 0; kinds &= kinds - 1) {
      const int kind = g_bit_nth_lsf(kinds, -1);
      if ((asked_by(access) & pass->present) == 0 && (pass->noted[resource] >> kind & 1) == 0)
        continue;
      pass->slot[resource] = pass->slot[resource] < 0 ? pass->n_slots++ : pass->slot[resource];
      g_assert(n_rows[kind] + 1 < MOST_ROWS);
      pass->rows[kind][n_rows[kind]++] = access;
    }
  }
}

static void find_kinds(Pass *pass) {
  for (int rank = 0; rank < pass->program->n_ranks; rank++)
    for (gint32 i = 0; i < pass->program->ranks[rank].n_ops; i++) {
      const Op *op = &pass->program->ranks[rank].ops[i];
      const guint32 kind = 1u << kind_of(pass, op);
      pass->present |= kind;
      if ((kind & (SUMS | GRADS_OUT)) != 0)
        *(op->micro_batch >= 0 ? &pass->sums_apart : &pass->sums_whole) = TRUE;
    }
}

gboolean accesses_check(const Program *program, GError **error) {
  Pass pass = {.program = program};
  find_kinds(&pass);
  choose_rows(&pass);
  const gsize n_groups = (gsize)program->n_steps * (gsize)(program->n_stages + 1);
  const gsize n_places = n_groups * (gsize)(program->n_micro_batches + 1) * (gsize)pass.n_slots;
  pass.places = g_new0(Place, n_places);
  pass.gathers_apart = g_new(guint8, program->n_stages);
  pass.first_piece = g_new(gint32, program->n_stages);
  pass.n_pieces = g_new(gint32, program->n_stages);
  pass.versions = g_array_new(FALSE, FALSE, sizeof(Versions));
  pass.is_taken = g_new(guint8, clocks_init(&pass.clocks, program));
  gboolean ok = TRUE;
  for (int rank = 0; ok && rank < program->n_ranks; rank++)
    ok = check_rank(&pass, rank, error);
  clocks_clear(&pass.clocks);
  g_free(pass.is_taken);
  g_array_unref(pass.versions);
  g_free(pass.n_pieces);
  g_free(pass.first_piece);
  g_free(pass.gathers_apart);
  g_free(pass.nodes);
  g_free(pass.places);
  return ok;
}
