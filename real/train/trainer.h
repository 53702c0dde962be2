/* One rank's share of a real model in training: what the ops of a Program act on.
 *
 *     executor          which op next, on which stream, behind which events
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
  gint32 *tokens;    /* device: [2 + MTP heads][steps][micro-batches][tokens]: row i holds the tokens i places later */
  gint64 n_tokens;   /* of each of these */
  double *losses;    /* device: [steps][training_n_losses()], of a micro-batch one behind the other: sum over its
                        tokens, those of all cp ranks / tokens of the global batch, by the head's weight */
  double *norms;     /* device: [steps][2]: Σ g² of this rank's share; of all */
  LossScale *scales; /* device: [steps + 1]; NULL but in fp16 (loss_scaling.h) */

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
  char *early;   /* ZeRO-2, 3 where W runs apart: the blocks' own (parameters.h) */
  char *pack;    /* gradients that are summed over tp, packed */
  int n_updates; /* of a step, on the host (host_optimizer.h); 0: the device does it */
};

/* Where a rank trains. All borrowed. */
typedef struct {
  int rank;
  Device *device;
  Comm *comm;
  DeviceStream **streams; /* [N_STREAMS] */
} TrainerPlace;

/* `workload` and `program` are borrowed. IMPOSSIBLE for what cannot be trained (trainable_check()). */
Trainer *trainer_new(const Workload *workload, const Program *program, const TrainerPlace *place,
                     const Training *training, GError **error);
void trainer_free(Trainer *trainer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Trainer, trainer_free)

Training training_default(void);
/* Losses of a step: for each micro-batch the model's own head's, and that of each head that predicts further. */
static inline int training_n_losses(const Workload *workload) {
  return (int)workload->plan->n_micro_batches * (1 + workload->plan->mtp_layers);
}
