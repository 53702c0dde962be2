/* The model's parameters on one rank: blocks of tensors, cut by tp, sharded by ZeRO.
 *
 * A Block is gathered, reduced and updated as a unit: a layer, the word table, the rest of the embedding, the head's
 * norm, the head's matrix. Its tensors are contiguous in a flat vector, those that every tp rank holds whole first,
 * padded so that the vector divides into equal, aligned shards:
 *
 *     | norms, biases (whole) | q | k | v | attn_out | …  | pad |
 *     | shard 0        | shard 1        | shard 2        | …    |     shard i belongs to rank i of the shard group
 *
 * ZeRO-0 has one shard. Initial values are determined by a seed and the position in the whole matrix, so every plan
 * starts from the same model. */
#pragma once
#include "device.h"
#include "local_sizes.h"
#include "narrow.h"
#include "program.h"

typedef enum {
  ROLE_NORM1, /* before attention, or the final norm */
  ROLE_NORM1_SHIFT,
  ROLE_NORM2, /* before the MLP */
  ROLE_NORM2_SHIFT,
  ROLE_ATTN_OUT_BIAS,
  ROLE_MLP_DOWN_BIAS,
  ROLE_POSITIONS,
  ROLE_Q, /* k and v follow: one matrix for the product */
  ROLE_K,
  ROLE_V,
  ROLE_Q_BIAS,
  ROLE_K_BIAS,
  ROLE_V_BIAS,
  ROLE_ATTN_OUT,
  ROLE_GATE, /* up follows */
  ROLE_UP,
  ROLE_GATE_BIAS,
  ROLE_UP_BIAS,
  ROLE_MLP_DOWN,
  ROLE_TABLE, /* the word table, or the head's matrix */
  ROLE_ROUTER,
  ROLE_SHARED_GATE, /* gate of the shared expert, which uses the MLP's roles */
  ROLE_EXPERT_GATE, /* of this rank's first expert; up and down follow, then the next expert */
  ROLE_EXPERT_UP,
  ROLE_EXPERT_DOWN,
  ROLE_Q_NORM, /* per head, over all columns, or over latent attention's q latent; after the layer's norms */
  ROLE_Q_NORM_SHIFT,
  ROLE_K_NORM,
  ROLE_K_NORM_SHIFT,
  ROLE_Q_DOWN, /* latent attention; ROLE_Q is then q_up */
  ROLE_KV_DOWN,
  ROLE_KV_UP,          /* per head the rows for K, then those for V */
  ROLE_TABLE_BIAS,     /* of the logits */
  ROLE_MTP_PROJ,       /* MTP: left half multiplies the words, right half x */
  ROLE_MTP_FINAL_NORM, /* MTP's final norm, after those of the words (NORM1) and of x (NORM2) */
  ROLE_MTP_FINAL_NORM_SHIFT,
  ROLE_POST_NORM1, /* after attention */
  ROLE_POST_NORM1_SHIFT,
  ROLE_POST_NORM2, /* after the MLP */
  ROLE_POST_NORM2_SHIFT,
  ROLE_SCORE_BIAS, /* of experts' scores: for balancing; routing is fixed here (expert_items.c), so it stays 0 */
  ROLE_ADAPTER,    /* A of the first product that has an adapter, then its B, then the next one's (role_of_adapter()) */
  N_ROLES = ROLE_ADAPTER + 2 * N_ADAPTED
} Role;

static inline Role role_of_adapter(Adapted adapted, gboolean is_b) {
  return (Role)(ROLE_ADAPTER + 2 * (int)adapted + (is_b ? 1 : 0));
}

/* EXPERTS: this rank's experts of a layer; reduced over and sharded by other ranks than everything else. MTP: an MTP
 * head's tensors besides its layer. Both of an MTP head's blocks are numbered by positions in the stream
 * (activations.h), after the model's layers. MTP heads need the word table: a stage that has them but no embedding
 * may have a copy. ADAPTERS: those of a layer, whose other blocks are then frozen. */
typedef enum {
  BLOCK_TABLE,
  BLOCK_POSITIONS,
  BLOCK_LAYER,
  BLOCK_FINAL_NORM,
  BLOCK_OUTPUT,
  BLOCK_EXPERTS,
  BLOCK_MTP,
  BLOCK_ADAPTERS
} BlockKind;

/* What the optimizer keeps of some elements; master NULL if the recipe has none. */
typedef struct {
  float *master, *m, *v;
} OptimizerState;

/* A part of a matrix (rows × columns of whole_rows × whole_columns); vectors have one row. */
typedef struct {
  char *name; /* "layers.3.q.weight"; owned */
  guint8 role;
  gboolean is_whole; /* the same on every tp rank */
  gint64 offset;     /* in the block, elements */
  gint64 rows, columns, first_row, first_column, whole_rows, whole_columns;
  float mean, deviation; /* of its first numbers */
  guint64 seed;
} Tensor;

typedef struct {
  BlockKind kind;
  int stage, layer;              /* layer: of the model; −1 for the others */
  gint64 n, n_whole;             /* elements, padded; the first n_whole are held whole by every tp rank */
  gboolean is_frozen;            /* not trained: it has no gradient, though its norms' kernels write one */
  gint64 n_norms;                /* the first of these are norms, whose gradients I computes */
  gint64 first_summed, n_summed; /* of n_whole: those whose gradients tp ranks sum (local_tp_summed_parameters()) */
  gint64 offset_of[N_ROLES];     /* −1: none */
  Tensor *tensors;               /* owned */
  int n_tensors;
  int n_shards;                /* 1 under ZeRO-0 */
  int zero;                    /* the plan's; 0 with a single shard */
  gint64 shard_first, shard_n; /* what this rank's optimizer updates */
  gint64 host_n;               /* the first of these on the host (--offload-optimizer) */

  /* device memory, owned */
  void *weight;   /* [n]; ZeRO-3: [shard_n]; NULL if shards are on the host, in host_weight */
  void *gradient; /* [block_gradient_n()] */
  void *lost;     /* [n], while compressed gradients are checked: what their sum lacks (grad_compressor.h); else NULL */
  OptimizerState kept; /* [shard_n - host_n] */
  /* host memory, owned: state of what the host updates, and what that reads and writes; [host_n] each */
  OptimizerState on_host;
  /* with islands (outer_step.h), else NULL: where the latest outer step ended, its momentum, and the sum of what
   * islands have moved since; [shard_n] */
  float *anchor, *outer_m, *outer_sum;
  void *host_gradient, *host_weight;

  /* in fp8, unless ZeRO-3 shards the block: copies of each linear's weights, as they are and turned; owned */
  char *narrow;
  gint64 narrow_at[N_NARROW_LINEARS][2];

  /* where the op being issued finds the whole tensors; set as ops are issued */
  int narrow_step[N_NARROW_LINEARS]; /* the step whose weights the copies hold; −1: none yet */
  char *gathered;                    /* ZeRO-3 */
  char *bucket;                      /* ZeRO-2, 3: unreduced gradient */
  char *early; /* ZeRO-2, 3 with separate I and W: [n_norms] since the last bucket was opened; the trainer's */
} Block;

typedef struct {
  const Workload *workload; /* borrowed */
  Device *device;
  LocalSizes local;
  Coordinates at;      /* of this rank */
  int n_shards, shard; /* over dp and cp; 1, 0 under ZeRO-0; for all but experts */
  int n_expert_shards, expert_shard;
  gint64 first_expert; /* of this rank */
  int zero;            /* the plan's; 0 if nothing is sharded */
  int zero_of_shards;  /* what is sharded is as under this stage */
  Number number, gradient_number;
  Block *blocks; /* owned */
  int n_blocks;
  int *first_of_stage; /* [n_stages] index of the stage's first block, −1 if it is on another rank; owned */
} Parameters;

/* Under ZeRO-2 and 3, of what is trained: the rest has no gradient to sum. */
static inline gboolean block_shards_gradient(const Block *block) {
  return zero_shards_gradients(block->zero) && !block->is_frozen;
}

/* Elements of Block.gradient; of a frozen block's, what kernels of norms write and nobody reads. */
static inline gint64 block_gradient_n(const Block *block) {
  return block->is_frozen ? block->n_norms : block_shards_gradient(block) ? block->shard_n : block->n;
}

/* `is_local` [n_stages]. The workload has passed trainable_check(). Allocates everything and fills it on `stream`,
 * asynchronously. Errors: the device's, if memory is short. */
Parameters *parameters_new(const Workload *workload, const gboolean *is_local, int rank, guint64 seed,
                           DeviceStream *stream, GError **error);
void parameters_free(Parameters *parameters);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Parameters, parameters_free)

/* NULL if the stage has none. BLOCK_OUTPUT of a tied model with both ends on one rank is its BLOCK_TABLE. */
Block *parameters_block(const Parameters *parameters, int stage, BlockKind kind, int layer_in_stage);
/* Blocks that a collective moves (Transfer.n_embedding …, op.unit): either experts or everything else. Appends Block
 * pointers. */
void parameters_moved(const Parameters *parameters, const Op *op, const Transfer *transfer, GPtrArray *blocks);
/* Both, of blocks with sharded gradients (ZeRO-2, 3): those that share a bucket. */
void parameters_bucket(const Parameters *parameters, const Op *op, const Transfer *transfer, GPtrArray *blocks);
/* The matrix shared by embedding and head if both are on this rank, or by the embedding and MTP heads; NULL if there
 * is none. */
Block *parameters_shared_table(const Parameters *parameters);
/* Whether another rank that sums the norm also holds the block and counts it: the tied matrix of the last stage;
 * everything in a second pipe; what is not sharded, on ranks that hold other experts; experts, on tp ranks with the
 * same ones. */
gboolean parameters_is_copy(const Parameters *parameters, const Block *block);

/* Which of the 2·cp pieces of a sequence a cp rank has: as early piece number cp_rank, as late piece the one that far
 * from the end (context.c). */
static inline SequencePieces parameters_pieces_of(const LocalSizes *local, gint64 cp_rank) {
  const gint64 half = local->seq_len / 2;
  return (SequencePieces){.early = cp_rank * half, .late = (2 * local->cp - 2 - cp_rank) * half};
}

/* Private to parameters.c and block_layout.c: which tensors a block has, their offsets, and their seeds. */

/* Fills tensors, offset_of, n, n_whole and n_norms of a block whose kind, stage, layer and n_shards are set. Every
 * value is determined by `seed` and its position in the model, on whichever rank. */
void block_lay_out(const Parameters *parameters, Block *block, guint64 seed);

/* Whether it is a layer with experts instead of an MLP. */
gboolean block_has_experts(const Parameters *parameters, const Block *block);

/* Where kernels read a weight and add to its gradient. The memory must be there (gathered, bucket). */
const void *block_weight(const Parameters *parameters, const Block *block, Role role);
void *block_gradient(const Parameters *parameters, const Block *block, Role role);
