/* One rank's share of a real model in training: what the ops of a Program act on.
 *
 *     executor          which op next, on which stream, behind which events
 *     trainer (this)    parameters, activations, tokens; an op's items → kernels (items.c), its data-parallel
 *                       collectives, norm and optimizer (state.c)
 *     device, comm      kernels and transfers */
#pragma once
#include "activations.h"
#include "comm.h"
#include "parameters.h"

typedef struct Trainer Trainer;

/* One item about to be launched. */
typedef struct {
  Trainer *trainer;
  DeviceStream *stream;
  CommGroup *group; /* COLLECTIVE */
  const WorkItem *item;
  Piece piece;
  gboolean is_backward;                /* not so for forward work done again */
  int occurrence;                      /* of the item's name in its list, from 0 */
  int argument;                        /* LinearKind where the function serves several */
  int mtp;                             /* of a head that predicts further, and its layer; 0: of the model's own */
  int stage, layer, micro_batch, step; /* layer within the stage */
  Slot *slot;
  char *output;       /* T′ × h: where the stage's last layer writes; NULL before the head */
  char *gradient_out; /* T′ × h: where the stage's first layer writes; NULL behind the embedding */
} ItemCall;

typedef void (*ItemFunction)(const ItemCall *call);

typedef struct {
  ItemFunction run;
  int argument, occurrence; /* as in ItemCall */
} ItemBinding;

typedef struct {
  ItemBinding *items; /* as many as the workload's list; owned */
} BoundList;

typedef struct {
  double lr, beta1, beta2, epsilon, decay, max_norm;
  double loss_scale;     /* of fp16's first step; 2^16 */
  int loss_scale_window; /* steps until it doubles (loss_scale.h); 0: it is constant */
  guint64 seed;
} Training;

/* When an item ran; kept only where somebody asks. */
typedef struct {
  const WorkItem *item;
  int step;
  DeviceEvent *start, *end; /* owned */
} ItemRecord;

struct Trainer {
  const Workload *workload; /* borrowed, as all of these */
  const Program *program;   /* expanded */
  Device *device;
  Comm *comm;
  DeviceStream **streams; /* [N_STREAMS] */
  Training training;

  Parameters *parameters; /* owned from here on */
  Activations activations;
  BoundList lists[N_PIECES][N_PHASES];
  GArray *item_log;  /* of ItemRecord; NULL: not kept */
  int log_from;      /* the first step it is kept of */
  gint32 *tokens;    /* device: [2 + MTP heads][steps][micro-batches][tokens]: of each, the so-many-th behind it */
  gint64 n_tokens;   /* of each of these */
  double *losses;    /* device: [steps][trainer_n_losses()], of a micro-batch one behind the other: sum over its
                        tokens, those of all cp ranks / tokens of the global batch, by the head's weight */
  double *norms;     /* device: [steps][2]: Σ g² of this rank's share; of all */
  LossScale *scales; /* device: [steps + 1]; NULL but in fp16 (scaling.h) */

  /* ZeRO-2, 3: two unreduced buckets in turn, or one of each stage */
  char **buckets;
  int n_buckets;
  gboolean has_stage_buckets;
  gint64 bucket_bytes;
  /* gradients that are summed in another number than they are held in (a framework's gradient_sum_bytes): those of one
   * reduction as they are summed, on the dp stream alone; NULL: in place */
  Number sum_number;
  char *sums;
  /* ZeRO-3: gathered pieces in turn, tables apart */
  GPtrArray *gather_buffers; /* of char *: device memory */
  gint64 gather_bytes;
  /* ZeRO-2, 3: a matrix that embedding and head share outlives bucket and buffer: used by both, moved with one. Its
   * gradient adds up in one of two until that one is reduced. */
  char *shared_gradients[2], *shared_gathered;
  int n_shared_opened;
  gboolean is_shared_open;
  char *early; /* ZeRO-2, 3 where W runs apart: the blocks' own (parameters.h) */
  char *pack;  /* gradients that are summed over tp, packed */
};

/* `is_local` [n_stages]: stages of this rank. IMPOSSIBLE for what cannot be trained (parameters_check()). */
Trainer *trainer_new(const Workload *workload, const Program *program, int rank, Device *device, Comm *comm,
                     DeviceStream **streams, const Training *training, GError **error);
void trainer_free(Trainer *trainer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Trainer, trainer_free)

Training training_default(void);
/* Of a step: of each micro-batch that of the model's own head, and of each that predicts further. */
int trainer_n_losses(const Workload *workload);

/* New device memory with `bytes` of `from`; waits until they are there. */
gboolean trainer_upload(Trainer *trainer, const void *from, gint64 bytes, void **to, GError **error);
/* Launch one item of a piece's list. */
void trainer_run_item(Trainer *trainer, Piece piece, Phase phase, int item, const ItemCall *where);

/* Names of item functions, private to items*.c. */
typedef struct {
  const char *name;
  ItemFunction run;
  int argument;
} ItemKernel;
extern const ItemKernel layer_kernels[], attention_kernels[], expert_kernels[], dropout_kernels[],
    end_kernels[]; /* end with a NULL name */
extern const ItemKernel mtp_kernels[];
extern const ItemKernel latent_kernels[];                   /* before those of the same name in latent attention */
extern const ItemKernel *const context_kernels[N_CP_COMMS]; /* before those of the same name where cp cuts sequences */
extern const ItemKernel tp_collectives[], latent_collectives[], mtp_collectives[], expert_collectives[],
    context_collectives[]; /* by operand */
gboolean items_bind(Trainer *trainer, GError **error);
void items_clear(Trainer *trainer);

extern const float item_norm_epsilon; /* of all norms, whatever the config says: it does not change the time */
extern const double item_rope_base;   /* of rotary positions, likewise */

/* Short forms for items*.c. */
void item_launch(const ItemCall *call, const Kernel *kernel);
/* Of this rank's heads, over whole sequences. */
ScoreRule item_score_rule(const ItemCall *call);
/* Fused attention of this rank's queries to its keys, all of them. */
FlashKernel item_flash(const ItemCall *call, gboolean is_backward);
/* Over the ranks of cp: the micro-batch's loss. */
void item_sum_loss(const ItemCall *call);
/* C = A·B in the item's layout and sizes, dense operands; the gradient's adds to it. */
void item_product(const ItemCall *call, const void *a, const void *b, void *c, const void *bias);
void item_weight_gradient(const ItemCall *call, const void *a, const void *b, void *gradient);
/* The same with rows of C, and of A forward and of B for the weights, so many elements apart; 0: dense. */
void item_product_in(const ItemCall *call, const void *a, gint64 lda, const void *b, void *c, gint64 ldc);
void item_weight_gradient_in(const ItemCall *call, const void *a, const void *b, gint64 ldb, void *gradient);
/* The same for each expert of the rank, whose weights lie `stride` elements apart; all else is dense. */
void item_group(const ItemCall *call, const void *a, const void *b, void *c, gint64 stride);
/* Of an expert, or of the shared one, by its occurrence in the list. */
void expert_layer_activation(const ItemCall *call);
Block *item_block(const ItemCall *call, BlockKind kind);
/* After a row-parallel product or an input gradient: the sum over tp. */
const char *item_reduced(const ItemCall *call);
/* Gradient of the output of the call's layer. */
char *item_output_gradient(const ItemCall *call);
/* The same of what its last residual adds. */
char *item_branch_gradient(const ItemCall *call);

/* Where a layer, or the embedding, drops: each place has random numbers of its own, by layer and step. */
typedef enum { DROP_EMBEDDING, DROP_PROBABILITIES, DROP_ATTENTION, DROP_MLP, N_DROPS } Drop;
/* Of rate 0 in a model without dropout. */
Dropout item_dropout(const ItemCall *call, Drop drop);
/* Of this rank's heads' probabilities. */
ScoreDropout item_score_dropout(const ItemCall *call);
/* out = a + drop(b + bias) over rows of the stream, dense; a NULL: zeros. */
void item_drop_add(const ItemCall *call, Drop drop, const void *a, const void *b, const void *bias, void *out);
/* T′ × h: where the embedding writes, and the gradient that comes back to it; a stage may have nothing else. */
char *item_embedding_output(const ItemCall *call);
char *item_embedding_gradient(const ItemCall *call);
/* T × h: the latter, gathered under sequence parallelism. */
char *item_embedding_gathered(const ItemCall *call);
/* T′ × h: gradient of what the call's head reads. */
char *item_head_gradient(const ItemCall *call);

/* Data-parallel ops, norm and optimizer, on `stream`. `is_last`: no further collective reduces the same bucket. */
void state_unshard(Trainer *trainer, const Op *op, const Transfer *transfer, CommGroup *group, DeviceStream *stream,
                   char *buffer);
void state_reduce(Trainer *trainer, const Op *op, const Transfer *transfer, CommGroup *group, DeviceStream *stream,
                  gboolean is_last);
void state_tied_gradient(Trainer *trainer, CommGroup *group, DeviceStream *stream);
/* Two pipes: the gradient of a stage, which another rank has a copy of. */
void state_copied_gradient(Trainer *trainer, int stage, CommGroup *group, DeviceStream *stream);
void state_whole_gradients(Trainer *trainer, CommGroup *group, DeviceStream *stream);
/* Σ g² of this rank's share into norms[step][0] and [1]; `group` sums [1] over ranks (NULL: alone). */
void state_norm(Trainer *trainer, int step, CommGroup *group, DeviceStream *stream);
void state_optimizer(Trainer *trainer, int step, DeviceStream *stream);
/* ZeRO-2, 3: gradients go from now on to the bucket that the reduce `transfer` of `op` will move, which is zeroed when
 * it is new; which: of the buckets. */
void state_open_bucket(Trainer *trainer, const Op *op, const Transfer *transfer, int which, gboolean is_new,
                       DeviceStream *stream);
/* ZeRO-2, 3: what the I `op` makes of weight gradients, those of norms, waits where the next buckets will take it. */
void state_use_early(Trainer *trainer, const Op *op);
/* ZeRO-3: blocks of a gather lie in `buffer` from now on (in issue order). */
void state_use_gathered(Trainer *trainer, const Op *op, const Transfer *transfer, char *buffer);
gint64 state_moved_bytes(const Trainer *trainer, const Op *op, const Transfer *transfer, int element_bytes);
