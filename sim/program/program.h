/* The Program: what every executor runs. One op list per pipeline rank; a GPU runs the list of its pipeline rank at
 * its own coordinates (tp, cp, dp). A Program says what is done (work, bytes, peers, dependencies), never how long it
 * takes.
 *
 * Semantics, binding for both executors:
 *   1. Ops on one stream start in list order, each after the previous one has ended.
 *   2. `after` names earlier ops of the same list, on other streams, that must have ended (a CUDA event).
 *   3. Sends and receives match by (peer, tag) in program order; sends up to the executor's eager threshold are
 *      buffered, larger ones rendezvous.
 *   4. Ops of one `batch` are issued together: none starts before all of them can.
 *   5. The k-th collective of a group on one member is the k-th on every member; it starts when the last member
 *      arrives.
 *   6. An op's effect changes resident memory by category: `hold` at its start, `drop` at its end.
 *   7. Every op yields one trace record.
 * The host issues ops in list order; an op on the `host` stream blocks the issue of later ops until it has ended. */
#pragma once
#include "action.h"
#include "workload.h"

typedef enum {
  STREAM_COMPUTE,
  STREAM_TP,
  STREAM_CP,
  STREAM_EP,
  STREAM_SEND_F,
  STREAM_RECV_F,
  STREAM_SEND_B,
  STREAM_RECV_B, /* pp_send and pp_recv, one lane per direction: a gradient never queues behind an activation */
  STREAM_SEND_F_BACK,
  STREAM_RECV_F_BACK,
  STREAM_SEND_B_BACK,
  STREAM_RECV_B_BACK, /* the same against the ranks' order: on a V's second leg or in a second pipe */
  STREAM_DP,
  STREAM_COPY, /* from host or NVMe: to the GPU, or to the host processors that run the update */
  STREAM_HOST,
  STREAM_COPY_OUT, /* to host or NVMe, concurrent with STREAM_COPY; and to other islands, concurrent with everything */
  N_STREAMS
} Stream;

typedef enum { OP_COMPUTE, OP_SEND, OP_RECV, OP_COLLECTIVE, OP_HOST, N_OP_KINDS } OpKind;

typedef enum {
  MEMORY_WEIGHTS,
  MEMORY_GRADIENTS,
  MEMORY_OPTIMIZER,
  MEMORY_ACTIVATIONS,
  MEMORY_BUFFERS,
  N_MEMORY
} MemoryCategory;

enum { OP_MAX_AFTER = 8 };

typedef struct {
  guint8 kind;            /* OpKind */
  guint8 stream;          /* Stream */
  guint8 action;          /* ActionKind: the action this op belongs to */
  guint8 overlapped : 1;  /* set on an F and the B after it that run as one (OVERLAP_F_B; expanded: that take turns):
                             both wait for both inputs, and both outputs are available when the B ends. If not
                             interleaved, they run one after the other */
  guint8 takes_turns : 1; /* set on an F: when expanded, it and the B after it become such a pair; until then they are
                             separate */
  gint32 stage;           /* virtual stage; −1 none */
  gint32 micro_batch;     /* −1 none */
  gint32 step;            /* from 0 */
  gint32 batch;           /* −1 none; ops of one rank with equal batch are issued together */
  gint32 work;   /* OP_COMPUTE: index into works; OP_SEND/RECV/COLLECTIVE: into transfers; OP_HOST: into works if the
                    host's processors compute, else −1 */
  gint32 effect; /* index into effects; 0 = none */
  gint32 peer;   /* OP_SEND/RECV: pipeline rank; else −1 */
  gint32 tag;    /* OP_SEND/RECV */
  gint32 unit;   /* first layer within its stage that this op covers (kept by parts of a split op; expanded: the layer
                    that a run or tp collective belongs to); 0 for whole stages */
  gint32 after[OP_MAX_AFTER]; /* indices into this list, each smaller than the op's own; −1 = unused; used slots come
                                 first */
} Op;

/* Distinct computations: pieces of the model; in an expanded program, a run of kernels of one piece; an optimizer
 * step; or, in Programs of bare orders, only a phase and a stage. F runs its pieces in the order embedding, layers
 * (the dense ones of a model with experts first), head; I, W and B in reverse. */
typedef struct {
  guint8 phase; /* Phase */
  guint8 n_embedding, n_head;
  guint8 recompute;  /* expanded: the run recomputes forward work */
  guint8 overlapped; /* bare orders: an F or B of an overlapped pair, timed as its share of the pair */
  guint8 is_outer;   /* PHASE_OPTIMIZER: an outer step */
  guint8 on_host;    /* PHASE_OPTIMIZER: runs on the node's processors (an OP_HOST) */
  gint32 n_layers;
  gint32 n_dense; /* of these, dense ones of a model with experts: the first in F, the last in I, W and B */
  OtherLayers others;
  gint32 piece; /* expanded: the Piece that the run belongs to; −1 otherwise */
  gint32 first_item,
      last_item;  /* expanded: first and last compute item of the run, inclusive, in the piece's list; −1 otherwise */
  gint32 lengths; /* the micro-batch, counted from 1, whose lengths it has; 0: all are alike */
  gint32 stage;   /* −1 if the same for every stage; optimizer and bare orders: the stage */
  gint32 owner;   /* lowered, PHASE_OPTIMIZER: the pipeline rank whose parameters are updated */
  double parameters; /* PHASE_OPTIMIZER: parameters updated */
  double passed; /* PHASE_OPTIMIZER: gradients read or written during the step before their reduction, counted once per
                    pass */
  double flops;  /* per GPU */
} Work;

/* What the bytes of a lowered transfer follow from, so that they can be worked out again for other sizes of one
 * structure (binding.h). */
typedef enum {
  SIZE_GIVEN,          /* nothing else */
  SIZE_BOUNDARY,       /* an activation between stages */
  SIZE_WEIGHTS,        /* the parameters it moves; of stage `of`, if not −1, divided by their owners */
  SIZE_GRADIENTS,      /* their gradients */
  SIZE_GRADIENT_SHARD, /* a shard of these */
  SIZE_TIED,           /* the gradient of the matrix that first and last stage share */
  SIZE_COPIES,         /* gradients of stage `of`, whose other copy is on another rank */
  SIZE_WHOLE,          /* gradients of pipeline rank `of` that tp sums */
  SIZE_ITEM,           /* of the item, in phase `of` */
} TransferSize;

/* Distinct transfers: a send between two pipeline ranks, or a collective of a group. */
typedef struct {
  gint32 group;          /* index into groups; −1: a send */
  gint32 source, target; /* pipeline ranks of a send */
  guint8 collective;     /* Collective */
  double bytes;          /* send: per GPU; collective: the full buffer S */
  /* UNSHARD, REDUCE_GRAD: whose parameters move; layers count from the op's unit. If embedding and head share a
   * vocabulary matrix, it moves with only one of them: n_tables is the number that move. It is n_embedding + n_head +
   * 1 where the gradients of a head move with those of the table that it looks tokens up in. */
  guint8 n_embedding, n_head, n_tables;
  guint8 of_experts; /* only the expert parameters of those layers; else all others */
  gint32 n_layers, n_dense;
  OtherLayers others;
  gint32 n_calls;  /* number of collectives that carry it, one after another, assumed equal; 0: one */
  gint32 n_listed; /* of the tensors in it, those that a framework lists rank by rank */
  /* tp, cp or ep collective of an expanded program: its item in the piece's list */
  guint8 is_item;
  guint8 size; /* TransferSize */
  gint32 of;
  gint32 piece, item;
  gint32 lengths; /* of a boundary or an item: as Work.lengths */
} Transfer;

/* Whether a reduction moves the gradient of the table that embedding and head of its rank both add to: where the two
 * share it (`is_shared`), else one that heads look words up in. */
static inline gboolean transfer_moves_table(const Transfer *transfer, gboolean is_shared) {
  if (transfer->of_experts)
    return FALSE;
  return is_shared ? transfer->n_tables > 0 : transfer->n_embedding > 0 || transfer->n_tables > transfer->n_head;
}

/* The path of a copy between a rank and its node's memory. */
typedef enum {
  ROUTE_LINK_IN = 1 << 0, /* from host memory over the GPU's link */
  ROUTE_LINK_OUT = 1 << 1,
  ROUTE_NVME_READ = 1 << 2, /* from the drives to host memory; with LINK_IN, on to the GPU, block by block */
  ROUTE_NVME_WRITE = 1 << 3,
  ROUTE_STORAGE = 1 << 4, /* from the cluster's storage, by way of readers */
  ROUTE_PUSH = 1 << 5,    /* to parameter servers */
  ROUTE_SERVE = 1 << 6,   /* their processors, for all ranks of the group */
  ROUTE_PULL = 1 << 7,
} CopyRoute;
enum {
  N_ROUTE_BITS = 8,
  ROUTES_OF_HOST = ROUTE_STORAGE - 1, /* between a GPU and its node */
  ROUTES_OF_SERVERS = ROUTE_PUSH | ROUTE_SERVE | ROUTE_PULL
};

typedef struct {
  const char *name;  /* static: "dp", "dp_shard", "dp_replica", "dp_island", "expert_dp", "ep_tp", "world", "embedding",
                        "copies",  "copy", "data", "servers" */
  AxisSet axes;      /* besides pp */
  gboolean spans_pp; /* members on several pipeline ranks: on all of them, or on pp_first and pp_last only */
  gint32 pp_first, pp_last; /* −1, −1: all pipeline ranks; else just these two */
  guint8 charge; /* Axis that its exposed time is charged to; unused for copies, which are charged to offload, and for
                   data, charged to other */
  guint8 route;  /* CopyRoute: the group is one rank and its node's memory, or servers; 0: a group of ranks */
} Group;

/* One of the numbers that an effect is the sum of; effect_chains.h has the kinds. Each follows `before` in its chain;
 * term 0 begins all chains. */
typedef struct {
  guint8 kind, action;
  gint32 of;
  gint32 before;
} EffectTerm;

/* What a lowered effect is made of: a chain of terms, or what one op of a cut op has of it. */
typedef enum { EFFECT_WHOLE, EFFECT_HELD, EFFECT_DROPPED, EFFECT_SHARE } EffectPart;
typedef struct {
  gint32 chain;            /* last term; 0: given as it is */
  guint8 part;             /* EffectPart */
  guint8 roles;            /* EFFECT_SHARE: ShareRole (expand_entries.h) */
  guint8 phase, piece;     /* EFFECT_SHARE: of the cut op; whose share */
  guint8 is_apart;         /* micro-batches have lengths of their own: stands for no other chain of the same numbers */
  gint32 saving[N_PIECES]; /* EFFECT_SHARE: pieces of the cut op that save */
} EffectSource;

typedef struct {
  double hold[N_MEMORY], drop[N_MEMORY]; /* bytes */
  EffectSource source;
} Effect;

typedef struct {
  Op *ops; /* owned, or borrowed from the pattern */
  int n_ops;
  double resident[N_MEMORY]; /* bytes held for the whole run */
} OpList;

/* Which compute ops are runs of kernels between tp collectives, the collectives being ops of their own (pass
 * `expand`). */
typedef enum {
  EXPANSION_NONE,   /* none; the numbers of this enum appear in Program texts */
  EXPANSION_ALL,    /* all except the optimizer's */
  EXPANSION_BESIDE, /* those concurrent with transfers that tp collectives may compete with (ops_beside.h) */
} Expansion;

typedef struct ProgramIndex ProgramIndex;
typedef enum { TABLE_WORKS, TABLE_TRANSFERS, TABLE_GROUPS, TABLE_EFFECTS, N_PROGRAM_TABLES } ProgramTable;

typedef struct Program Program;
struct Program {
  int n_ranks; /* pipeline ranks, one op list each */
  int n_stages, n_micro_batches, n_steps;
  int n_pipes;         /* as Placement.n_pipes; 1 in a new program */
  OpList *ranks;       /* [n_ranks] */
  GArray *works;       /* of Work */
  GArray *transfers;   /* of Transfer */
  GArray *groups;      /* of Group */
  GArray *effects;     /* of Effect; [0] is the empty effect */
  GArray *terms;       /* of EffectTerm; [0] begins all chains. Of works and transfers of this program, or of the one
                          that it was expanded from, which then has the terms */
  guint8 expansion;    /* Expansion */
  ProgramIndex *index; /* private: finds equal entries of the tables; owned */
  /* A head's backward adds to the gradient of its rank's embedding table, a matrix distinct from the head's own
   * (workload_heads_read_embedding()). */
  gboolean heads_add_to_table;
  GArray *aliases[N_PROGRAM_TABLES]; /* of entries with other sources but, so far, the same numbers: a gint32, the
                                        number of the entry that stands for it, and the entry */
  struct Tape *tape;                 /* of program_tape(); NULL: not made; of a copy see its pattern; owned */
  Program *pattern; /* of a copy (program_copy()): the owner of op lists, groups, terms and tape; a reference */
  gint n_references;
};

/* Whether Op.work can index works. */
static inline gboolean op_computes(const Op *op) {
  return op->kind == OP_COMPUTE || op->kind == OP_HOST;
}

/* Whether both are parts of one action in one step. */
static inline gboolean op_same_action(const Op *a, const Op *b) {
  return a->action == b->action && a->stage == b->stage && a->micro_batch == b->micro_batch && a->step == b->step;
}

/* What an OP_HOST does: Op.work, which may be −1; HOST_WORK_STEP if it ends a step without computing. */
enum { HOST_WORK_STEP = -2 };
static inline gint32 program_host_work(const Op *op) {
  return op->work < 0 && op->action == ACTION_SYNC ? HOST_WORK_STEP : op->work;
}

/* Number of pieces of each kind that a whole op runs. */
static inline void work_pieces(const Work *work, int counts[N_PIECES]) {
  counts[PIECE_EMBEDDING] = work->n_embedding;
  count_layers(work->n_layers, work->n_dense, &work->others, counts);
  counts[PIECE_HEAD] = work->n_head;
}

typedef struct {
  const char *name;
  gboolean is_communication; /* between GPUs */
  Axis axis;                 /* axis of that communication; N_AXES on the other streams */
} StreamInfo;
const StreamInfo *stream_info(Stream stream);
const char *memory_category_name(MemoryCategory category);

/* program_tables.c, for program_new() and program_free() alone. */
ProgramIndex *program_index_new(void);
void program_index_free(ProgramIndex *index);

Program *program_new(int n_ranks, int n_stages, int n_micro_batches);
Program *program_ref(Program *program);
/* Lets go of a reference. */
void program_free(Program *program);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Program, program_free)

enum { PROGRAM_ALIAS_ENTRY = 8 }; /* offset of the entry in an alias */

/* Another Program of the same ops, with tables of its own, whose numbers may be changed. Nothing can be added to it. */
Program *program_copy(Program *pattern);

/* Index of an equal entry, added if there is none. Unused fields are normalized first: the collective of a send, the
 * endpoints of a collective, the pipeline ranks of a group that does not span pp. */
gint32 program_work(Program *program, const Work *work);
gint32 program_transfer(Program *program, const Transfer *transfer);
gint32 program_group(Program *program, const Group *group);
gint32 program_effect(Program *program, const Effect *effect);

Op op_new(OpKind kind, Stream stream, ActionKind action, int stage, int micro_batch);
/* The same, in place: copying an op that was just written field by field is slow. */
void op_init(Op *op, OpKind kind, Stream stream, ActionKind action, int stage, int micro_batch);
/* Adds a dependency unless present (−1: nothing to add); asserts that there is room. */
void op_add_after(Op *op, gint32 index);

/* For each list, per op: index in the peer's list of the op that a send or receive matches; −1 for other ops.
 * IMPOSSIBLE naming the first unmatched op. */
gboolean program_match(const Program *program, gint32 ***match, GError **error);
/* The same, and of a collective its number in the list among those of its group. *count, [groups]: the most on any
 * list; the caller's. FALSE as program_match(). */
gboolean program_number(const Program *program, gint32 ***match, int **count);
void program_match_free(const Program *program, gint32 **match);
