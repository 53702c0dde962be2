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

/* What an order is asked to be. */
typedef struct {
  int n_ranks, n_chunks, n_micro_batches;
  int group; /* interleaved: micro-batches that pass a chunk in a row; 0: as many as there are ranks, or a few more so
                that all groups are about equal */
} OrderShape;

/* Of one rank, all its chunks, for one micro-batch; in any unit. */
typedef struct {
  double f, i, w;
  double pair; /* F and B run as one (OVERLAP_F_B); F + I + W where nothing is gained */
} PhaseTimes;

/* Bubble on stage spans for uniform stages and free communication. */
typedef struct {
  double time;       /* in the unit of the times */
  gboolean is_exact; /* else no order of this kind has a shorter one */
} Bubble;

/* What a schedule is; one row per name. */
typedef struct {
  const char *name;
  const char *summary; /* one line for --help */
  PlacementShape placement;
  int least_chunks, most_chunks; /* per rank */
  gboolean takes_group;
  gboolean overlaps_p2p; /* its authors' runtime computes on while it sends; the frameworks that run the others wait */
  gboolean runs_on; /* a stage begins the next step without waiting for the others: its authors check the gradient norm
                       afterwards (post-validation, Qi et al., arXiv 2401.10241 §4) */
  void (*generate)(Order *order, OrderShape shape); /* into an order without actions */
  Bubble (*bubble)(OrderShape shape, const PhaseTimes *times);
  /* Micro-batches of a group with which its lists repeat themselves: with one more group, lists are the same but for
   * another such stretch among its likes, as forward and backward follow in turn until forwards run out. 0: not with
   * these counts; the function may be NULL: never. */
  int (*repeats)(OrderShape shape);
  const char *(*refusal)(OrderShape shape); /* why these counts cannot be, or NULL; the function may be NULL */
} ScheduleInfo;

/* All rows of the table, for lists of names. */
#define SCHEDULE_NAMES                                                                                                 \
  "gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe", "dualpipe-v"
const ScheduleInfo *schedule_find(const char *name, GError **error); /* INPUT with the valid names and the nearest */
const char *const *schedule_names(void);                             /* NULL-terminated */

/* Chunks where none were asked for: the least, but two of a schedule that is another one with a single chunk
 * (interleaved: 1f1b, looped-bfs: gpipe) on more than one rank. */
int schedule_default_chunks(const ScheduleInfo *schedule, int n_ranks);
/* IMPOSSIBLE when the schedule has another number of chunks per rank. */
gboolean schedule_check_chunks(const ScheduleInfo *schedule, int n_chunks, GError **error);

/* Generate; IMPOSSIBLE when the schedule cannot take these counts (said why). */
Order *order_new(const ScheduleInfo *schedule, OrderShape shape, GError **error);
/* Without actions yet; takes over `placement`. */
Order *order_new_empty(Placement *placement, int n_micro_batches);
void order_add(Order *order, int rank, ActionKind kind, int stage, int micro_batch);
void order_free(Order *order);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Order, order_free)

/* CSV as PyTorch's pipelining schedules write it, compute only or with communication: a row per rank, a cell per action
 * or overlapped pair, empty cells where the rank idles. What was read is written back byte for byte, where it ended its
 * rows alike and had no blanks around its cells. */
char *order_to_csv(const Order *order);
char *order_to_compute_csv(const Order *order); /* without its communication */
/* Stage → rank is taken from where each stage's actions stand; two pipes are recognised by the micro-batches that go
 * through each half of the stages. INPUT with row and column of what is no action, doubled, missing, before its input,
 * not received or not sent, or of where every rank is stuck. */
Order *order_read_csv(const char *file, GError **error);
/* Column in that CSV, from 1, of a rank's action. */
int order_column(const Order *order, int rank, guint index);
