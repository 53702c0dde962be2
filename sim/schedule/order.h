/* A pipeline order: for each pipeline rank, its actions in the order it runs them, without times. Generated orders
 * hold compute actions only; one read from a file may also name its communication. */
#pragma once
#include "action.h"
#include "placement.h"

/* Idle slots before an action in a file; the order itself does not need them. */
typedef struct {
  guint before; /* index into the rank's actions; the number of actions: after the last */
  guint n;
} IdleSlots;

/* How the runtime of an order exchanges activations and gradients when it does not overlap them with compute
 * (overlap_p2p off). */
typedef enum {
  EXCHANGE_ALONE,  /* the next op waits for the send; receives were posted earlier */
  EXCHANGE_PAIRS,  /* after every action: sends its result and receives the input of the next action, together if with
                      one peer */
  EXCHANGE_ROUNDS, /* after every round (Action.joins_next), with all peers together */
} ExchangeStyle;

typedef struct {
  gint n_refs;
  Placement *placement; /* owned */
  int n_micro_batches;
  GArray **actions; /* [n_ranks] of Action; owned */
  ExchangeStyle exchange;
  gboolean is_generated; /* by a schedule of the table: tests prove what is lowered from it, so lower() need not */
  /* Which communication the lists name: passes keep it in place, and add what is not named. */
  gboolean has_send_recv;   /* SEND_F, RECV_F, SEND_B, RECV_B */
  gboolean has_unshard;     /* UNSHARD, RESHARD */
  gboolean has_reduce_grad; /* REDUCE_GRAD */
  /* Formatting of the file it was read from, so that it can be written back unchanged: */
  GArray **idle;         /* [n_ranks] of IdleSlots in list order; NULL: none; owned */
  gboolean ends_in_crlf; /* rows end in "\r\n", as Python's csv module writes them */
} Order;

/* Has no actions yet; takes ownership of `placement`. */
Order *order_new_empty(Placement *placement, int n_micro_batches);
void order_add(Order *order, int rank, ActionKind kind, int stage, int micro_batch);
/* The same order, to be freed once more. */
Order *order_ref(Order *order);
void order_free(Order *order);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Order, order_free)
