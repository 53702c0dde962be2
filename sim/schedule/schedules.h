/* Schedules by name: what is known of each before any order is made, how its order is made, and its bubble; one row
 * each.
 *
 * What --schedule takes: a name of the table, auto (an order searched for its costs), file:orders.csv. Both of the
 * latter have facts too. A prediction of auto that came to a schedule of the table calls it "auto: zb-v". */
#pragma once
#include "order.h"

/* The parameters of an order. */
typedef struct {
  int n_ranks, n_chunks, n_micro_batches;
  int group; /* interleaved: consecutive micro-batches per chunk; 0: n_ranks or a few more, so that groups are nearly
                equal */
  gboolean takes_turns; /* interleaved, and 1f1b on one rank: the forward and backward of a round take turns, so neither
                           may depend on the other */
} OrderShape;

/* Per rank (all its chunks) and micro-batch; in any unit. */
typedef struct {
  double f, i, w;
  double pair; /* F and B run as one (OVERLAP_F_B); F + I + W if that gains nothing */
} PhaseTimes;

/* Bubble by stage spans, for uniform stages and free communication. */
typedef struct {
  double time;       /* in the unit of the PhaseTimes */
  gboolean is_exact; /* else a lower bound for orders of this kind */
} Bubble;

/* What more micro-batches do to the idle time of a step. */
typedef enum {
  BUBBLE_STAYS,  /* nothing: it is that of a fixed number of micro-batches */
  BUBBLE_VARIES, /* not the same with few and with many */
  BUBBLE_GROWS,  /* ranks wait in every micro-batch where F, I and W differ, or nobody knows */
} BubbleGrowth;

typedef struct {
  const char *name;
  const char *summary; /* one line for --help */
  PlacementShape placement;
  int least_chunks, most_chunks; /* per rank */
  gboolean takes_group;          /* consecutive micro-batches per chunk may be chosen */
  gboolean has_rounds;           /* with several chunks, a forward and a backward may take turns */
  gboolean has_pairs;            /* a forward and a backward of different micro-batches run as one */
  gboolean defers_w;             /* W is apart from I, or may be */
  gboolean holds_all;    /* every micro-batch may be in flight at once; else as many as ranks and chunks allow */
  gboolean overlaps_p2p; /* its authors' runtime computes while sending; the runtimes of the others wait */
  gboolean runs_on; /* a stage begins the next step without waiting for the others: its authors check the gradient norm
                       afterwards (post-validation, Qi et al., arXiv 2401.10241 §4) */
  BubbleGrowth bubble;
  gboolean in_megatron, in_deepspeed; /* Megatron-LM and DeepSpeed have it */
  const char *in_pytorch;             /* its name there (torch.distributed.pipelining, 2.8, 2025); NULL: it has none */
  /* only of those in the table (generators.h): */
  void (*generate)(Order *order, OrderShape shape);                 /* fills an order without actions */
  Bubble (*bubble_time)(OrderShape shape, const PhaseTimes *times); /* for uniform stages and free communication */
  int (*repeats)(OrderShape shape);                                 /* as schedule_repeats(); NULL: never */
  const char *(*refusal)(OrderShape shape);                         /* as schedule_refusal(); NULL: of none */
} ScheduleFacts;

/* The schedules of the table, NULL-terminated. */
const char *const *schedule_names(void);
/* Those, then "auto". */
const char *const *schedule_choices(void);
/* A schedule of the table; INPUT with the valid names and the nearest. */
const ScheduleFacts *schedule_find(const char *name, GError **error);
/* INPUT for a name that is none of the table's, nor auto: the valid ones and the nearest. */
gboolean schedule_check_name(const char *name, GError **error);
/* Also of auto (however it was found) and of files. A name that is none has a row in which nothing holds. Never NULL.
 */
const ScheduleFacts *schedule_facts(const char *name);

/* What is run where none is named. Static. */
const char *schedule_default(int n_chunks);
/* Whether it is that of some number of chunks. */
gboolean schedule_is_default(const char *name);
/* The canonical spelling of a name such as 1F1B or zb_h1; any other name is returned unchanged. */
const char *schedule_spelling(const char *name);
/* The file name within "file:orders.csv"; NULL for any other name. */
const char *schedule_file(const char *name);
/* What a prediction calls the schedule of the table that auto came to: "auto: zb-v". Owned by the caller. */
char *schedule_found_name(const char *name);
/* The schedule that is run: of "auto: zb-v" zb-v, of any other name that name. */
const char *schedule_run_name(const char *name);
/* `name` may be NULL. */
gboolean schedule_is_auto(const char *name);

/* Chunks if none were asked for: the least possible, but two for a schedule that with one chunk equals another one
 * (interleaved: 1f1b, looped-bfs: gpipe) on more than one rank. */
int schedule_default_chunks(const ScheduleFacts *schedule, int n_ranks);
/* Where stages lie. Auto makes a V of two chunks, as the shortest bubbles need the first and last stage on one rank,
 * else a loop. */
PlacementShape schedule_placement(const ScheduleFacts *schedule, int n_chunks);
enum { AUTO_CHUNKS = 2 }; /* where chunks are left open, auto makes an order of one per rank, and one of so many */
/* The placement that auto searches an order for. Owned by the caller. */
Placement *schedule_auto_placement(int n_ranks, int n_chunks);
/* Whether it is one of the table that allows several numbers of chunks. */
gboolean schedule_loops(const ScheduleFacts *schedule);
/* IMPOSSIBLE if the schedule does not allow this number of chunks per rank. */
gboolean schedule_check_chunks(const ScheduleFacts *schedule, int n_chunks, GError **error);

/* Bubble of the schedule's order. */
Bubble schedule_bubble(const ScheduleFacts *schedule, OrderShape shape, const PhaseTimes *times);
/* Micro-batches per group that its lists repeat in their steady state, where forwards and backwards alternate: one
 * more group lengthens each list by one more such stretch. 0: no repeats with these counts. */
int schedule_repeats(const ScheduleFacts *schedule, OrderShape shape);
/* Why these counts are impossible; NULL: they are not. Static. */
const char *schedule_refusal(const ScheduleFacts *schedule, OrderShape shape);

/* Generates the order; IMPOSSIBLE, with the reason, if the schedule cannot take these counts. */
Order *order_new(const ScheduleFacts *schedule, OrderShape shape, GError **error);
