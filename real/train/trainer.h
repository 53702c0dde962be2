/* One rank's share of a real model in training: what the ops of a Program act on.
 *
 *     executor          which op next, on which stream, after which events
 *     trainer (this)    parameters, activations, tokens; an op's items → kernels (items.h), its data-parallel
 *                       collectives, norm and optimizer (state.h)
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
  gboolean is_backward;                /* FALSE for recomputed forward work */
  int occurrence;                      /* of the item's name in its list, from 0 */
  int argument;                        /* LinearKind if the function serves several */
  NarrowLinear linear;                 /* that the item multiplies in fp8, or copies for; NARROW_NONE: it does not */
  int mtp;                             /* k for the k-th MTP head and its layer; 0: the model's own */
  int stage, layer, micro_batch, step; /* layer within the stage */
  Slot *slot;
  char *output;       /* T′ × h: where the stage's last layer writes; NULL before the head */
  char *gradient_out; /* T′ × h: where the stage's first layer writes; NULL after the embedding */
} ItemCall;

typedef void (*ItemFunction)(const ItemCall *call);

typedef struct {
  ItemFunction run;
  int argument, occurrence; /* as in ItemCall */
  NarrowLinear linear;
} ItemBinding;

typedef struct {
  ItemBinding *items; /* [items of the workload's list]; owned */
} BoundList;

typedef struct {
  double lr, beta1, beta2, epsilon, decay, max_norm;
  double loss_scale;     /* of the first step in fp16; 2^16 */
  int loss_scale_window; /* good steps until it doubles (loss_scale.h); 0: constant */
  guint64 seed;
  int island, n_islands; /* a run on one rank that stands for one of so many islands; 0: it stands for all */
} Training;

/* When an item ran; recorded only on request. */
typedef struct {
  const WorkItem *item;
  int step;
  DeviceEvent *start, *end; /* owned */
  gint64 issued_ns;         /* the host has issued all of it; CLOCK_MONOTONIC */
} ItemRecord;

/* The events are made before the first op: making one takes the host as long as a launch. */
typedef struct {
  ItemRecord *records; /* owned; NULL: nothing is recorded */
  int n_made, n;       /* records with events, those used so far */
  int from_step;       /* first step to record */
} ItemLog;

/* Tokens that see one another: `length` of them, of so many sequences in a row, from token `first` of the rank's on. */
typedef struct {
  gint64 first, length, sequences;
} Document;

/* What kernels of a micro-batch work on. Memory has room for the largest. */
typedef struct {
  LocalSizes local;
  GArray *documents; /* of Document: of packed rows each, and the padding behind them; else all sequences; owned */
} MicroBatchShape;

struct Trainer {
  const Workload *workload; /* borrowed, like all up to `training` */
  const Program *program;   /* expanded */
  Device *device;
  Comm *comm;
  DeviceStream **streams; /* [N_STREAMS] */
  Training training;

  Parameters *parameters; /* owned from here on */
  Activations activations;
  MicroBatchShape *shapes; /* [micro-batches] */
  BoundList lists[N_PIECES][N_PHASES];
  ItemLog item_log;
  gint32 *tokens;    /* device: [2 + MTP heads][steps][micro-batches][tokens of the largest]: row i: the tokens i
                        positions later; of padding −1, but in row 0 */
  gint64 n_tokens;   /* of each row */
  double *losses;    /* device: [steps][training_n_losses()], micro-batch by micro-batch: sum over its tokens on all cp
                        ranks / tokens of the global batch (without padding), times the head's weight */
  double *norms;     /* device: [steps][2]: Σ g² of this rank's share; of all ranks */
  LossScale *scales; /* device: [steps + 1]; NULL except in fp16 (state.h) */

  /* ZeRO-2, 3: two unreduced buckets used in turn, or one per stage */
  char **buckets;
  int n_buckets;
  gboolean has_stage_buckets;
  gint64 bucket_bytes;
  /* for gradients summed in another number format than they are held in (a framework's gradient_sum_bytes): the
   * gradients of one reduction while it sums them, on the dp stream only; NULL: summed in place */
  Number sum_number;
  char *sums;
  /* ZeRO-3: buffers for gathered pieces, used in turn; a shared matrix has its own (shared_gathered) */
  GPtrArray *gather_buffers; /* of char *: device memory */
  gint64 gather_bytes;
  /* ZeRO-2, 3: a matrix that embedding and head share outlives bucket and buffer: both use it, but only one
   * collective moves it. Its gradient accumulates in one of two buffers until that one is reduced. */
  char *shared_gradients[2], *shared_gathered;
  int n_shared_opened;
  gboolean is_shared_open;
  char *early;            /* ZeRO-2, 3 with separate I and W: the blocks' early gradients (parameters.h) */
  char *pack;             /* packed gradients to sum over tp */
  GHashTable *compressed; /* buckets of compressed gradients (compressed_buckets.h); NULL: none are */
  int n_updates;          /* updates per step on the host (host_optimizer.h); 0: the device runs the optimizer */
};

/* The rank and the hardware it trains on. All borrowed. */
typedef struct {
  int rank;
  Device *device;
  Comm *comm;
  DeviceStream **streams; /* [N_STREAMS] */
  gboolean says_lost;     /* what compressed gradients lose is kept (Block.lost) */
} TrainerPlace;

/* `workload` and `program` are borrowed. IMPOSSIBLE if the model cannot be trained (trainable_check()). */
Trainer *trainer_new(const Workload *workload, const Program *program, const TrainerPlace *place,
                     const Training *training, GError **error);
void trainer_free(Trainer *trainer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Trainer, trainer_free)

Training training_default(void);
/* Number of losses per step: for each micro-batch, one of the model's own head and one of each MTP head. */
static inline int training_n_losses(const Workload *workload) {
  return (int)workload->method->n_micro_batches * (1 + workload->method->mtp_layers);
}
