/* Private to auto_order: one pass of list scheduling in simulated time, under rules given. */
#pragma once
#include "order_search.h"

/* How closely a guide is followed. An F or I runs ahead of its turn only where the rank would wait for the one whose
 * turn it is, and only if it ends before that is known to come; or, but for GUIDE_STRICT, an F where the rank has run
 * an I and is out of patience. */
typedef enum {
  GUIDE_STRICT,  /* F and I in the guide's order */
  GUIDE_RAMP,    /* ahead of their turn before the rank's first I, memory kept for the chunks to come */
  GUIDE_ROOM,    /* at any time, where the guide's own memory leaves room */
  GUIDE_RESERVE, /* the same, and memory is kept for the chunks to come */
  GUIDE_LOOSE,   /* at any time, where one micro-batch can still come back */
  N_GUIDANCES
} Guidance;

/* What a rank does when several actions could run. */
typedef struct {
  const FlatOrder *guide; /* an order to follow; not the one that is filled; borrowed; NULL */
  Guidance guidance;
  gboolean follows_w;     /* in W too, else they are placed anew */
  gboolean frees_tail;    /* the guide ends with the last F of the rank's first stage */
  double depth;           /* a stage may hold depth · (least number that keeps it busy) micro-batches; 0: any number */
  double pace;            /* least time between two first forwards of the pipe, in work of the busiest rank */
  double patience;        /* how long a rank may idle in all for an F or I that a W would delay. At least 0: as long as
                             a step of the lower bound's length leaves it, and so many round trips of a micro-batch
                             through the pipe. Below: 1 + patience of what the bound leaves it; −1: not at all */
  gboolean forward_first; /* F before I when both could run, else I before F */
  gboolean by_arrival;    /* of several F, or I, the one that came first; else the one furthest down the pipe for F, the
                             one nearest to its end for I */
} ListRule;

/* Working memory of the passes over one problem, which no order does in less than `bound_ns`. */
typedef struct ListScheduler ListScheduler;
ListScheduler *list_scheduler_new(const FlatProblem *flat, gint64 bound_ns);
void list_scheduler_free(ListScheduler *list);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ListScheduler, list_scheduler_free)

/* The patience with which no rank waits longer than a step of `span_ns` allows. */
double list_patience_for(const ListScheduler *list, gint64 span_ns);

/* Fill `order` (all of it, cost included) under `rule`, within the memory cap; FALSE, as soon as that shows, when its
 * span would be beyond `limit_ns` or a rank has no memory to go on: without a guide only where the cap is below what
 * one micro-batch needs (FlatProblem.need). Adds to *n_steps what the pass cost, in actions looked at. */
gboolean list_schedule(ListScheduler *list, const ListRule *rule, gint64 limit_ns, FlatOrder *order, gint64 *n_steps);
