/* A pipeline order: for each pipeline rank, the actions in the order it runs them. Says nothing of time. Generated
 * orders have compute actions only; one read from a file may name its communication too. */
#pragma once
#include "action.h"
#include "placement.h"

/* Idle slots of a file before an action, which the order itself does not need. */
typedef struct {
  guint before; /* index into the rank's actions; their number: after the last */
  guint n;
} IdleSlots;

/* What the runtime that runs an order does about its transfers where it does not compute on meanwhile (overlap_p2p
 * off). */
typedef enum {
  EXCHANGE_ALONE,  /* the next op waits for what was sent; receives were posted before */
  EXCHANGE_PAIRS,  /* after every action what it made for what the next one needs; together where that is one peer's */
  EXCHANGE_ROUNDS, /* after every round (Action.joins_next), with all peers together */
} Exchange;

typedef struct {
  Placement *placement; /* owned */
  int n_micro_batches;
  GArray **actions; /* [n_ranks] of Action; owned */
  Exchange exchange;
  /* What communication the lists name; the passes put it where they do, and add what they do not name. */
  gboolean has_send_recv;   /* SEND_F, RECV_F, SEND_B, RECV_B */
  gboolean has_unshard;     /* UNSHARD, RESHARD */
  gboolean has_reduce_grad; /* REDUCE_GRAD */
  /* Of the file it was read from, so that it is written as it was: */
  GArray **idle;         /* [n_ranks] of IdleSlots in list order; NULL: none; owned */
  gboolean ends_in_crlf; /* rows end in "\r\n", as Python's csv module writes them */
} Order;

/* Without actions yet; takes over `placement`. */
Order *order_new_empty(Placement *placement, int n_micro_batches);
void order_add(Order *order, int rank, ActionKind kind, int stage, int micro_batch);
void order_free(Order *order);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Order, order_free)
