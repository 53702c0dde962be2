/* Private to the executor: its state and the parts outside the walk over the list (executor.c): setup
 * (executor_setup.c), the host's ops (executor_host.c), a whole run (execute.c). */
#pragma once
#include "executor.h"

typedef struct {
  double norms[2]; /* trainer->norms of the step */
  LossScale scale; /* fp16: the step's */
  double losses[]; /* [training_n_losses()] trainer->losses of the step: this rank's share */
} StepEnd;

struct Executor {
  const Execution *execution;
  gboolean is_rehearsal; /* of the first step: numbers are of no interest */
  ExecutionResult *result;
  const Program *program;
  const OpList *list;
  int pp;
  Device *device;
  Comm *comm;
  DeviceStream *streams[N_STREAMS];
  DeviceEvent **start, **end; /* [ops] */
  CommGroup **groups;         /* [program groups]; NULL if this rank is not a member */
  CommGroup **channels;       /* [2 directions][pipeline ranks][pipeline ranks] from, to; NULL where unused */
  CommGroup *parts; /* tp group, if each tp rank sends its part of a tensor to the next stage; NULL: no parts */
  Trainer *trainer;
  StepEnd *step_end;   /* host memory into which a step's results are read */
  DeviceEvent *normed; /* step_end has been read */

  guint8 *is_first, *is_last; /* [ops] of its action (F, I, W, B) */
  gboolean device_updates;    /* all parameters, or those whose optimizer is not on the host */
  gboolean has_norm;
  PoolPiece **outgoing[2]; /* [stage · micro-batches + micro-batch]: activation, gradient computed but not yet sent */
  char **gather_buffer;    /* [ops] of each UNSHARD */
  int gather_user[ACTION_B + 1]; /* by kind of action: the op that waited for the gathers that the rest of the action
                                    uses; −1: none yet */
  int used_by;                   /* the action kind whose gathers kernels currently read; −1: none yet */
  int n_gathers, n_buckets, open_reduce;
  PoolPiece **saved;  /* [stage · micro-batches + micro-batch][n_saved_layers] on the host; NULL: no offloading */
  Pool saved_pool;    /* of host memory */
  int n_saved_layers; /* maximum over stages */
  int served_step;    /* the latest whose updates have begun; −1: none yet */
  int *stage_reduce;  /* [stages] the reduction that each stage's own bucket was opened for; −1: none yet */
  const Op *backward; /* the latest backward of a layer; NULL: none yet */
  char *output, *gradient_out; /* of the forward and the backward being issued */

  guint64 n_ended;       /* device's count of ended kernels when the host last looked */
  int cursor[N_STREAMS]; /* first op of each stream not yet seen to end */
};

Phase executor_phase(const Op *op); /* F I W B */
CommGroup *executor_channel(const Executor *executor, const Op *op);

/* Opens the device and its streams; closes them. */
gboolean executor_open(Executor *executor, GError **error);
void executor_close(Executor *executor);
/* Makes and frees everything else, on an open device. */
gboolean executor_setup(Executor *executor, GError **error);
void executor_clear(Executor *executor);
/* All ops; those of the first step in a rehearsal. */
gboolean executor_run(Executor *executor, GError **error);

/* The host waits for the op's dependencies, reads the step's norm and fails if it is not finite. */
gboolean executor_host_op(Executor *executor, int index, GError **error);
/* With the optimizer on the host (executor_offload.c): gradients sent to the host; waiting for that before another
 * reduction adds to them; one part of the step, using step_end; and returning the weights that this part updated. */
int executor_gather_of(const Executor *executor, int fetch); /* the gather that waits for the fetch; −1: none */
gboolean executor_gradients_out(Executor *executor, int index, GError **error);
void executor_await_gradients_out(Executor *executor, int index);
gboolean executor_update(Executor *executor, int index, GError **error);
void executor_weights_back(Executor *executor, int index);
/* With activations on the host (executor_saved.c): one SAVED_OUT or SAVED_IN. */
void executor_saved_init(Executor *executor);
void executor_saved_clear(Executor *executor);
gboolean executor_saved_copy(Executor *executor, int index, GError **error);
/* Checks on sharded data used by an op's piece (executor_shards.c). ZeRO-3: a gather has brought its weights. ZeRO-2,
 * 3: the piece adds to gradients; the buckets it adds to, or that a reduction sums, have been opened, else
 * IMPOSSIBLE. */
gboolean executor_has_weights(const Executor *executor, const Op *op, const Work *work);
gboolean executor_fills_bucket(const Executor *executor, const Op *op, const Work *work);
gboolean executor_has_bucket(const Executor *executor, const Op *op, const Work *work, GError **error);
gboolean executor_has_summed(const Executor *executor, const Op *op, const Transfer *transfer, GError **error);
/* Waits until every stream is idle. */
gboolean executor_drain(Executor *executor, GError **error);
