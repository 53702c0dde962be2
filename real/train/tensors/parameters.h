/* The model's parameters as one rank holds them: blocks of tensors, cut by tp, sharded by ZeRO.
 *
 * A Block is what is gathered, reduced and stepped as one: a layer, the word table, what else the embedding has, the
 * head's norm, the head's matrix. Its tensors lie one behind the other in a flat vector, the ones that every tp rank
 * holds whole first, padded so that the vector divides into equal, aligned shards:
 *
 *     | norms, biases (whole) | q | k | v | attn_out | …  | pad |
 *     | shard 0        | shard 1        | shard 2        | …    |     shard i belongs to rank i of the shard group
 *
 * Under ZeRO-0 there is one shard. Every number starts from a seed and its place in the whole matrix, so that every
 * plan starts from the same model. */
#pragma once
#include "cut.h"
#include "device.h"
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
  ROLE_SHARED_GATE, /* what weights the shared expert, which has the MLP's roles */
  ROLE_EXPERT_GATE, /* of this rank's first expert; up and down follow, then the next expert */
  ROLE_EXPERT_UP,
  ROLE_EXPERT_DOWN,
  ROLE_Q_NORM, /* of heads, of all columns, or of what latent attention makes Q of; behind the layer's norms */
  ROLE_Q_NORM_SHIFT,
  ROLE_K_NORM,
  ROLE_K_NORM_SHIFT,
  ROLE_Q_DOWN, /* latent attention; ROLE_Q is then q_up's */
  ROLE_KV_DOWN,
  ROLE_KV_UP,          /* of each head what K is made with, then V */
  ROLE_TABLE_BIAS,     /* of the logits */
  ROLE_MTP_PROJ,       /* of a head that predicts further: left half for the words, right for x */
  ROLE_MTP_FINAL_NORM, /* its own, behind those of the words (NORM1) and of x (NORM2) */
  ROLE_MTP_FINAL_NORM_SHIFT,
  ROLE_POST_NORM1, /* behind attention */
  ROLE_POST_NORM1_SHIFT,
  ROLE_POST_NORM2, /* behind the MLP */
  ROLE_POST_NORM2_SHIFT,
  ROLE_SCORE_BIAS, /* of experts' scores: balances a choice that is none here (expert_items.c), and stays 0 */
  N_ROLES
} Role;

/* EXPERTS: of a layer, those of this rank. They are reduced over, and sharded by, other ranks than all else. MTP: of a
 * head that predicts further, besides the layer it has; both are numbered as places of the stream are (activations.h),
 * behind the model's layers. Such heads need the word table: a stage that has them but no embedding may have a copy. */
typedef enum {
  BLOCK_TABLE,
  BLOCK_POSITIONS,
  BLOCK_LAYER,
  BLOCK_FINAL_NORM,
  BLOCK_OUTPUT,
  BLOCK_EXPERTS,
  BLOCK_MTP
} BlockKind;

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
  gint64 n, n_whole;             /* elements, padded; of which the first are held whole by every tp rank */
  gint64 n_norms;                /* … and of these the first are the norms', whose gradients I makes */
  gint64 first_summed, n_summed; /* of n_whole: those whose gradients ranks of tp sum (cut_tp_summed_parameters()) */
  gint64 offset_of[N_ROLES];     /* −1: none */
  Tensor *tensors;               /* owned */
  int n_tensors;
  int n_shards;                /* 1 under ZeRO-0 */
  int zero;                    /* of the plan; 0 where there is one shard */
  gint64 shard_first, shard_n; /* what this rank's optimizer updates */

  /* device memory, owned */
  void *weight;   /* [n]; ZeRO-3: [shard_n]; NULL where shards are on the host: in host_weight */
  void *gradient; /* [n]; ZeRO-2, 3: [shard_n] */
  float *master;  /* [shard_n], NULL when the recipe has none */
  float *m, *v;   /* [shard_n] */
  /* with the optimizer on the host: these three in host memory, and there beside them, owned, [shard_n] each, what the
   * optimizer reads and makes */
  void *host_gradient, *host_weight;

  /* where the running op finds them whole, set as ops are issued */
  char *gathered; /* ZeRO-3 */
  char *bucket;   /* ZeRO-2, 3: unreduced gradient */
  char *early;    /* … where W runs apart: [n_norms], since the last bucket was begun; the trainer's */
} Block;

typedef struct {
  const Workload *workload; /* borrowed */
  Device *device;
  Cut cut;
  Coordinates at;      /* of this rank */
  int n_shards, shard; /* over dp and cp; 1, 0 under ZeRO-0; of all but experts */
  int n_expert_shards, expert_shard;
  gint64 first_expert; /* of this rank */
  int zero;            /* of the plan; 0 where nothing is in more than one shard */
  Number number, gradient_number;
  Block *blocks; /* owned */
  int n_blocks;
  int *first_of_stage; /* [n_stages] index of the stage's first block, −1 where it is on another rank; owned */
} Parameters;

/* `is_local` [n_stages]. The workload has passed trainable_check(). Allocates and fills everything on `stream`; returns
 * before it is done. Errors: the device's, when memory is short. */
Parameters *parameters_new(const Workload *workload, const gboolean *is_local, int rank, guint64 seed,
                           DeviceStream *stream, GError **error);
void parameters_free(Parameters *parameters);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Parameters, parameters_free)

/* NULL when the stage has none. BLOCK_OUTPUT of a tied model whose ends share a rank is its BLOCK_TABLE. */
Block *parameters_block(const Parameters *parameters, int stage, BlockKind kind, int layer_in_stage);
/* Blocks of a collective's parameters (Transfer.n_embedding …, op.unit): experts' or all others. Appends Block
 * pointers. */
void parameters_moved(const Parameters *parameters, const Op *op, const Transfer *transfer, GPtrArray *blocks);
/* Both, of those whose gradients are in shards (ZeRO-2, 3): what shares a bucket. */
void parameters_bucket(const Parameters *parameters, const Op *op, const Transfer *transfer, GPtrArray *blocks);
/* The one matrix of embedding and head where both are on this rank, or of the embedding and heads that predict further;
 * NULL where there is none. */
Block *parameters_shared_table(const Parameters *parameters);
/* What another rank of those that sum the norm holds too, and is the one to count it: the tied matrix of the last
 * stage, all of a second pipe; what is in no shards, on ranks that hold other experts; experts, on ranks of tp with the
 * same. */
gboolean parameters_is_copy(const Parameters *parameters, const Block *block);

/* Which of its 2·cp pieces of a sequence a rank has: early the cp-th, late the cp-th from the end (context.c). */
static inline SequencePieces parameters_pieces_of(const Cut *cut, gint64 cp_rank) {
  const gint64 half = cut->seq_len / 2;
  return (SequencePieces){.early = cp_rank * half, .late = (2 * cut->cp - 2 - cp_rank) * half};
}

/* Those of this rank. */
static inline SequencePieces parameters_pieces(const Parameters *parameters) {
  return parameters_pieces_of(&parameters->cut, parameters->at.at[AXIS_CP]);
}

/* Where kernels read a weight and add to its gradient; they must be there (gathered, bucket). */
const void *block_weight(const Parameters *parameters, const Block *block, Role role);
void *block_gradient(const Parameters *parameters, const Block *block, Role role);
