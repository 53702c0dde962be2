/* Private to the executor: its state, and what is apart from the walk over the list (executor.c): making it ready
 * (executor_setup.c), the host's part (executor_host.c), a whole run (execute.c). */
#pragma once
#include "executor.h"

typedef struct {
  double norms[2]; /* trainer->norms of the step */
  LossScale scale; /* fp16: the step's */
  double losses[]; /* [training_n_losses()] trainer->losses of the step: a rank's share */
} StepEnd;

struct Executor {
  const Execution *execution;
  ExecutionResult *result;
  const Program *program;
  const OpList *list;
  int pp;
  Device *device;
  Comm *comm;
  DeviceStream *streams[N_STREAMS];
  DeviceEvent **start, **end; /* [ops] */
  CommGroup **groups;         /* [program groups]; NULL where this rank is no member */
  CommGroup **channels;       /* [2 directions][pipeline ranks][pipeline ranks] from, to; NULL where unused */
  CommGroup *parts;           /* of tp, where each of its ranks sends its part to the next stage; NULL: all of it */
  Trainer *trainer;
  StepEnd *step_end;   /* host memory: what a step has come to is read into it */
  DeviceEvent *normed; /* it has been */

  guint8 *is_first, *is_last; /* [ops] of its action (F, I, W, B) */
  gboolean has_norm;
  PoolPiece **outgoing[2];       /* [stage · micro-batches + micro-batch]: activation, gradient made but not sent */
  char **gather_buffer;          /* [ops] of an UNSHARD */
  int gather_user[ACTION_B + 1]; /* by kind of action: the op that waited for what the rest of it uses; −1 none yet */
  int used_by;                   /* of these, the one whose gathers are those that kernels read; −1 none yet */
  int n_gathers, n_buckets, open_reduce;
  PoolPiece **saved;  /* [stage · micro-batches + micro-batch][n_saved_layers] on the host; NULL: nothing is */
  Pool saved_pool;    /* of host memory */
  int n_saved_layers; /* of a stage, at most */
  int *stage_reduce;  /* [stages] the reduction that each stage's own bucket was begun for; −1: none yet */
  const Op *backward; /* the latest of a layer's; NULL: none yet */
  char *output, *gradient_out; /* of the forward, of the backward being issued */

  guint64 n_ended;       /* of the device, when the host last looked */
  int cursor[N_STREAMS]; /* first op of each stream that was not seen to end */
};

gint64 executor_now_ns(void);
Phase executor_phase(const Op *op); /* F I W B */
CommGroup *executor_channel(const Executor *executor, const Op *op);

gboolean executor_setup(Executor *executor, GError **error);
void executor_clear(Executor *executor);
gboolean executor_run(Executor *executor, GError **error);

/* The host waits for what the op waits for, reads the step's norm and refuses to go on from one that is not finite. */
gboolean executor_host_op(Executor *executor, int index, GError **error);
/* With the optimizer on the host (executor_offload.c): gradients that leave for it; before a reduction adds to what
 * leaves, that has left; a part of its step, by step_end; and the weights that this part has made. */
int executor_gather_of(const Executor *executor, int fetch); /* that waits for it; −1: none */
gboolean executor_gradients_out(Executor *executor, int index, GError **error);
void executor_await_gradients_out(Executor *executor, int index);
gboolean executor_update(Executor *executor, int index, GError **error);
void executor_weights_back(Executor *executor, int index);
/* With activations on the host (executor_saved.c): a SAVED_OUT or SAVED_IN. */
void executor_saved_init(Executor *executor);
void executor_saved_clear(Executor *executor);
gboolean executor_saved_copy(Executor *executor, int index, GError **error);
/* What is in shards, of the piece that an op runs (executor_shards.c). ZeRO-3: some gather has brought its weights.
 * ZeRO-2, 3: it adds to gradients; their buckets, or those that a reduction sums, have been begun, else IMPOSSIBLE. */
gboolean executor_has_weights(const Executor *executor, const Op *op, const Work *work);
gboolean executor_fills_bucket(const Executor *executor, const Op *op, const Work *work);
gboolean executor_has_bucket(const Executor *executor, const Op *op, const Work *work, GError **error);
gboolean executor_has_summed(const Executor *executor, const Op *op, const Transfer *transfer, GError **error);
/* Until every stream has come to its end. */
gboolean executor_drain(Executor *executor, GError **error);
