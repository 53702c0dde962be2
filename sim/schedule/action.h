/* Actions of a pipeline schedule in PyTorch's grammar: <stage><kind><micro-batch>, e.g. 0F3, 1I2, 2SEND_F1, 1UNSHARD.
 * Source: torch/distributed/pipelining/schedules.py. */
#pragma once
#include <glib.h>

typedef enum {
  ACTION_F, /* forward */
  ACTION_I, /* input gradient */
  ACTION_W, /* weight gradient */
  ACTION_B, /* I and W in one */
  ACTION_SEND_F,
  ACTION_RECV_F,
  ACTION_SEND_B,
  ACTION_RECV_B,
  ACTION_UNSHARD,
  ACTION_RESHARD,
  ACTION_REDUCE_GRAD,
  ACTION_OVERLAP_F_B, /* spelling in cells only: "(0F3;1B2)OVERLAP_F_B" is two actions, the first overlaps_next */
  ACTION_OPTIMIZER,   /* from here on the Program's own ops, not in PyTorch's grammar */
  ACTION_NORM,        /* global gradient norm */
  ACTION_TIED_GRAD,   /* all-reduce of the tied embedding's gradient */
  ACTION_COPY_GRAD,   /* two pipes: all-reduce of a stage's gradient over its two copies */
  ACTION_WHOLE_GRAD,  /* all-reduce over tp of the gradients of parameters replicated there, which each tp rank has
                         only in part */
  ACTION_KEPT,        /* gathers of updated vectors that ZeRO-3 keeps whole */
  ACTION_SYNC,        /* host reads the loss */
  ACTION_WAIT,        /* host waits for an exchange */
  /* copies between a GPU and its node's memory and drives (pass_offload.c) */
  ACTION_FETCH,         /* a shard of weights, to be gathered */
  ACTION_GRAD_OUT,      /* reduced gradients to the host */
  ACTION_STATE_READ,    /* master copy and moments from the drives */
  ACTION_STATE_WRITE,   /* and back */
  ACTION_WEIGHTS_BACK,  /* updated weights to the GPU */
  ACTION_WEIGHTS_STORE, /* updated weights to the drives */
  ACTION_SAVED_OUT,     /* what a layer saves for backward, to the host */
  ACTION_SAVED_IN,      /* and back */
  ACTION_DATA,          /* of a micro-batch, from its readers (read_data.c) */
  ACTION_PUSH,          /* gradients to parameter servers (servers.c) */
  ACTION_SERVE,         /* their update */
  ACTION_PULL,          /* updated weights from them */
  ACTION_SPREAD,        /* of these, gathered by ranks that have pulled a part each */
  ACTION_CLOCK,         /* workers tell each other that a step has ended */
  ACTION_OUTER_SUM,     /* over islands, of what they have learned (outer_steps.c) */
  ACTION_OUTER_STEP,    /* what the outer optimizer makes of it */
  ACTION_OUTER_GATHER,  /* and brings to all ranks of the island */
  N_ACTIONS
} ActionKind;

typedef struct {
  gint32 stage;
  gint32 micro_batch;   /* −1 if the kind has none */
  guint8 kind;          /* ActionKind */
  guint8 overlaps_next; /* this F and the B right after it in the rank's list run as one (OVERLAP_F_B) */
  guint8 joins_next; /* this F and the B right after it form one round, with no exchange between them (ExchangeStyle) */
} Action;

typedef struct {
  const char *name;    /* as in the grammar */
  char glyph;          /* one letter for drawings */
  gboolean is_compute; /* F I W B */
  gboolean has_micro_batch;
  gboolean is_copy; /* between the GPU and the host's memory or drives */
} ActionInfo;

extern const ActionInfo action_infos[N_ACTIONS];

static inline const ActionInfo *action_info(ActionKind kind) {
  g_assert((guint)kind < N_ACTIONS);
  return &action_infos[kind];
}

/* B, or W if the order splits I and W. */
static inline gboolean action_completes_gradient(ActionKind kind) {
  return kind == ACTION_B || kind == ACTION_W;
}

/* INPUT error quotes the text and the grammar. */
gboolean action_parse(const char *text, Action *action, GError **error);
/* Appends "0F3" to `out`. */
void action_print(const Action *action, GString *out);

/* Parses one cell of PyTorch's CSV: an action, or a pair that runs as one, "(0F3;1B2)OVERLAP_F_B": the F with
 * overlaps_next, then the B. Returns the number of actions, 1 or 2; 0 with INPUT quoting the text and what was
 * expected. */
int action_parse_cell(const char *text, Action actions[2], GError **error);
/* Appends the cell that begins with `action`; `next` is the next action in the rank's list, or NULL. Returns the
 * number of actions in the cell. */
int action_print_cell(const Action *action, const Action *next, GString *out);
