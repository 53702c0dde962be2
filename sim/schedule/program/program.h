/* The Program: what every executor runs. One op list per pipeline rank; a rank is such a list plus its coordinates (tp,
 * cp, dp). It says what (work, bytes, peers, dependencies), never how long.
 *
 * Semantics (both executors are judged by them):
 *   1. Ops on one stream start in list order, each after the one before it ended.
 *   2. `after` names earlier ops of the same list, on other streams, that must have ended (a CUDA event).
 *   3. Send and receive match by (peer, tag) in program order; sends up to the executor's eager threshold are
 *      buffered, larger ones rendezvous.
 *   4. Ops of one `batch` are issued together: none starts before all could.
 *   5. The k-th collective of a group on one member is the k-th on every member; it starts when the last one is
 *      there.
 *   6. An op's effect changes resident memory by category: `hold` at its start, `drop` at its end.
 *   7. Every op yields one trace record.
 * The host issues ops in list order; an op on the `host` stream keeps later ops from being issued until it ended. */
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
  STREAM_RECV_B_BACK, /* the same against the ranks' order, where a V's second leg or a second pipe comes back */
  STREAM_DP,
  STREAM_COPY, /* from host or NVMe: onto the GPU, or to the processors that update */
  STREAM_HOST,
  STREAM_COPY_OUT, /* to host or NVMe, beside what comes from there */
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
  guint8 action;          /* ActionKind: what this op is for */
  guint8 overlapped : 1;  /* of an F and the B after it that run as one (OVERLAP_F_B; expanded: that take turns): both
                             wait for both inputs, and what both make is there when the B has ended. Left to themselves
                             they run one after the other */
  guint8 takes_turns : 1; /* of an F: expanded, it and the B after it become such a pair. Until then they are two */
  gint32 stage;           /* virtual stage; −1 none */
  gint32 micro_batch;     /* −1 none */
  gint32 step;            /* 0-based */
  gint32 batch;           /* −1 none; ops of one rank with equal batch are issued together */
  gint32 work;            /* OP_COMPUTE: index into works; OP_SEND/RECV/COLLECTIVE: into transfers; OP_HOST: what its
                             processors compute, into works, or −1 */
  gint32 effect;          /* index into effects; 0 = none */
  gint32 peer;            /* OP_SEND/RECV: pipeline rank; else −1 */
  gint32 tag;             /* OP_SEND/RECV */
  gint32 unit; /* first layer within its stage this op covers (splits keep their place; expanded: the layer a run or tp
                  collective belongs to); 0 for whole stages */
  gint32 after[OP_MAX_AFTER]; /* indices into this list, each smaller than the op's own; −1 = none, packed first */
} Op;

/* Distinct computations: pieces of the model; in an expanded program a run of kernels of one piece; an optimizer step;
 * or (in programs of bare orders) nothing but a phase and a stage. Pieces run in the order embedding, layers (dense
 * ones of a model with experts first), head for F, and the reverse for I, W and B. */
typedef struct {
  guint8 phase; /* Phase */
  guint8 n_embedding, n_head;
  guint8 recompute;  /* expanded: the run is forward work done again */
  guint8 overlapped; /* bare orders: an F or B of a pair, whose time is a share of the pair's */
  guint8 on_host;    /* PHASE_OPTIMIZER: the node's processors do it (an OP_HOST) */
  gint32 n_layers;
  gint32 n_dense; /* of these the first in F, the last in I, W and B: dense ones of a model with experts */
  gint32 piece;   /* expanded: Piece the run belongs to; −1 otherwise */
  gint32 first_item,
      last_item;     /* expanded: the compute items of the run, inclusive, in the piece's list; −1 otherwise */
  gint32 stage;      /* −1 when every stage's is the same; optimizer and bare orders: the stage */
  double parameters; /* PHASE_OPTIMIZER: parameters updated */
  double passed;     /* PHASE_OPTIMIZER: gradients read or written in the step before they were summed, each time */
  double flops;      /* per GPU */
} Work;

/* Distinct transfers: a send between two pipeline ranks, or a collective of a group. */
typedef struct {
  gint32 group;          /* index into groups; −1: a send */
  gint32 source, target; /* pipeline ranks of a send */
  guint8 collective;     /* Collective */
  double bytes;          /* send: per GPU; collective: the full buffer S */
  /* UNSHARD, REDUCE_GRAD: whose parameters; the layers count from the op's unit. A vocabulary matrix that embedding and
   * head share moves with one of them only: n_tables says how many move, one more than ends
   * where the gradients of heads move with those of the table that they look tokens up in. */
  guint8 n_embedding, n_head, n_tables;
  guint8 of_experts; /* the parameters of their experts alone; else all others */
  gint32 n_layers, n_dense;
  gint32 n_calls; /* collectives that they move in, one behind another, which are taken to be equal; 0: one */
  /* tp, cp or ep collective of an expanded program: which item of which piece's list */
  guint8 is_item;
  gint32 piece, item;
} Transfer;

/* What a copy passes between a rank and the memory of its node. */
typedef enum {
  ROUTE_LINK_IN = 1 << 0, /* from host memory over the GPU's link */
  ROUTE_LINK_OUT = 1 << 1,
  ROUTE_NVME_READ = 1 << 2, /* from the drives to host memory; with LINK_IN on to the GPU, block behind block */
  ROUTE_NVME_WRITE = 1 << 3,
} CopyRoute;
enum { N_ROUTE_BITS = 4 };

typedef struct {
  const char *name;  /* static: "dp", "dp_shard", "dp_replica", "expert_dp", "ep_tp", "world", "embedding", "copies",
                        "copy" */
  AxisSet axes;      /* besides pp */
  gboolean spans_pp; /* members on several pipeline ranks: all of them, or `first` and `last` only */
  gint32 pp_first, pp_last; /* −1, −1: all pipeline ranks; else just these two */
  guint8 charge;            /* Axis its exposed time is charged to; of copies, which are offload's, meaningless */
  guint8 route;             /* CopyRoute: the group is a rank alone with the memory of its node; 0: ranks */
} Group;

typedef struct {
  double hold[N_MEMORY], drop[N_MEMORY]; /* bytes */
} Effect;

typedef struct {
  Op *ops; /* owned, or Program.shared's */
  int n_ops;
  double resident[N_MEMORY]; /* bytes held from the start to the end */
} OpList;

typedef struct Course Course;
typedef struct RepeatedOps RepeatedOps;

/* Op lists that several Programs run, each with tables of its own. Nothing changes them. */
typedef struct {
  int n_ranks;
  Op **ops;       /* [n_ranks]; owned, as all here */
  gint32 **match; /* [n_ranks] as program_match() */
  Course *course; /* NULL: none (course.h) */
  guint64 number; /* among all that a ProgramCache and its ExpandedCache have lent, never given twice; 0: none has */
  /* Private to repeats.c, which looks at lists when somebody asks first. So the Programs are one thread's meanwhile. */
  RepeatedOps *repeats; /* NULL: of n_repeated micro-batches there are none */
  int n_repeated;       /* 0: nobody has asked */
  /* Private to ops_beside.c, likewise. For each list in turn, [its ops] the last compute op known to have ended when an
   * op starts, −1: none; then [its ops] the first compute op known not to start before it ended: the number of ops
   * where that is in a further step alone, one more where it is nowhere. NULL: nobody has asked. */
  gint32 *orders;
} SharedOps;

/* Compute ops that are runs of kernels between tp collectives, which are ops then (pass `expand`). */
typedef enum {
  EXPANSION_NONE,   /* no compute op is; the numbers stand in texts */
  EXPANSION_ALL,    /* all but those of the optimizer */
  EXPANSION_BESIDE, /* those beside transfers that tp's collectives may meet (ops_beside.h) */
} Expansion;

typedef struct ProgramIndex ProgramIndex;

typedef struct {
  int n_ranks; /* pipeline ranks = op lists */
  int n_stages, n_micro_batches, n_steps;
  int n_pipes;         /* as Placement.n_pipes; 1 in a new program */
  OpList *ranks;       /* [n_ranks] */
  GArray *works;       /* of Work */
  GArray *transfers;   /* of Transfer */
  GArray *groups;      /* of Group */
  GArray *effects;     /* of Effect; [0] is no change */
  guint8 expansion;    /* Expansion */
  SharedOps *shared;   /* holds the ops of all lists; NULL: each list its own */
  ProgramIndex *index; /* private: finds equal entries of the tables; owned */
  /* Backwards of heads add to the gradient of the table of an embedding on their rank, a matrix apart from their own
   * (workload_heads_read_embedding()). */
  gboolean heads_add_to_table;
} Program;

/* Its work is one of works. */
static inline gboolean op_computes(const Op *op) {
  return op->kind == OP_COMPUTE || op->kind == OP_HOST;
}

/* Parts of one action in one step. */
static inline gboolean op_same_action(const Op *a, const Op *b) {
  return a->action == b->action && a->stage == b->stage && a->micro_batch == b->micro_batch && a->step == b->step;
}

/* What an OP_HOST does: Op.work, −1 or, of one that ends a step, HOST_WORK_STEP. */
enum { HOST_WORK_STEP = -2 };
static inline gint32 program_host_work(const Op *op) {
  return op->work < 0 && op->action == ACTION_SYNC ? HOST_WORK_STEP : op->work;
}

/* Pieces that a whole op runs. */
static inline void work_pieces(const Work *work, int counts[N_PIECES]) {
  counts[PIECE_EMBEDDING] = work->n_embedding;
  counts[PIECE_DENSE_LAYER] = work->n_dense;
  counts[PIECE_LAYER] = work->n_layers - work->n_dense;
  counts[PIECE_HEAD] = work->n_head;
}

typedef struct {
  const char *name;
  gboolean is_communication; /* between GPUs */
  Axis axis;                 /* of that communication; N_AXES on the other streams */
} StreamInfo;
const StreamInfo *stream_info(Stream stream);
const char *memory_category_name(MemoryCategory category);

Program *program_new(int n_ranks, int n_stages, int n_micro_batches);
void program_free(Program *program);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Program, program_free)

/* From now on the ops of a verified program are shared (a reference each); takes over `match`, as from program_match().
 * Its untimed run (verify.h) may be left to its course, which has to be there then. */
void program_share_matched(Program *program, gint32 **match);
/* The same without a course: the records do not follow from one another where transfers slow each other all along. */
void program_share_uncharted(Program *program, gint32 **match);
/* A program without ops of its own gets those that `source` shares; what is resident stays. */
void program_lend_ops(Program *program, const Program *source);
/* Another program with the shared ops of `source` and copies of its tables, but no effects and nothing resident. */
Program *program_new_sharing(const Program *source);

/* Index of an equal entry, added when there is none. What an entry does not use is made uniform first: the collective
 * of a send, the ends of a collective, the pipeline ranks of a group without pp. */
gint32 program_work(Program *program, const Work *work);
gint32 program_transfer(Program *program, const Transfer *transfer);
gint32 program_group(Program *program, const Group *group);
gint32 program_effect(Program *program, const Effect *effect);

Op op_new(OpKind kind, Stream stream, ActionKind action, int stage, int micro_batch);
/* The same where it is to stand: an op that was just written field by field is slow to copy. */
void op_init(Op *op, OpKind kind, Stream stream, ActionKind action, int stage, int micro_batch);
/* Add a dependency unless it is there already (−1: none to add); asserts there is room. */
void op_add_after(Op *op, gint32 index);

/* For each op list, the index in the peer's list of the op each send or receive matches (−1 for others), flat per rank.
 * IMPOSSIBLE naming the first unmatched op. */
gboolean program_match(const Program *program, gint32 ***match, GError **error);
void program_match_free(const Program *program, gint32 **match);
