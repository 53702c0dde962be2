/* Private to auto_order: one pass of list scheduling in simulated time, under a given rule. */
#pragma once
#include "order_search.h"

/* How closely a guide is followed. An F or I runs ahead of its turn only if the rank would otherwise wait for the one
 * whose turn it is, and only if it ends before that one is known to arrive. Except with GUIDE_STRICT, an F may also
 * run ahead if the rank has run an I and is out of patience. */
typedef enum {
  GUIDE_STRICT,  /* F and I only in the guide's order */
  GUIDE_RAMP,    /* ahead of their turn until the rank's first I; keeps memory for later chunks */
  GUIDE_ROOM,    /* ahead at any time, if the guide's own memory leaves room */
  GUIDE_RESERVE, /* the same, but keeps memory for later chunks */
  GUIDE_LOOSE,   /* ahead at any time, if one micro-batch can still complete */
  N_GUIDANCES
} Guidance;

/* What a rank does if several actions can run. */
typedef struct {
  const FlatOrder *guide; /* an order to follow; not the one being filled; borrowed; NULL: none */
  Guidance guidance;
  gboolean follows_w;  /* follows the guide's W too, else W are placed anew */
  gboolean frees_tail; /* stops following the guide after the last F of the rank's first stage */
  double depth;        /* a stage may hold depth · (least number that keeps it busy) micro-batches; 0: unlimited */
  double pace;         /* least time between first forwards of the pipe, in the busiest rank's work per micro-batch */
  double patience; /* how long a rank may idle in total, for F or I that a W would delay. At least 0: the idle time that
                      a step of the lower bound's length leaves it, plus this many round trips of a micro-batch through
                      the pipe. Below 0: (1 + patience) times what the bound leaves it; −1: no idling */
  gboolean forward_first; /* F before I if both can run, else I before F */
  gboolean by_arrival; /* among several F, or I, the one that arrived first; else, for F the one furthest down the pipe,
                          for I the one nearest to its end */
} ListRule;

/* Working memory for passes over one problem; `bound_ns` is its lower bound. */
typedef struct ListScheduler ListScheduler;
ListScheduler *list_scheduler_new(const FlatProblem *flat, gint64 bound_ns);
void list_scheduler_free(ListScheduler *list);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ListScheduler, list_scheduler_free)

/* The patience under which no rank waits longer than a step of `span_ns` allows. */
double list_patience_for(const ListScheduler *list, gint64 span_ns);

/* Fills `order` (completely, cost included) under `rule`, within the memory cap. FALSE as soon as it is clear that
 * its span would exceed `limit_ns`, or that a rank has no memory to continue; without a guide, the latter only
 * happens if the cap is below what one micro-batch needs (FlatProblem.need). Adds the cost of the pass, in actions
 * looked at, to *n_steps. */
gboolean list_schedule(ListScheduler *list, const ListRule *rule, gint64 limit_ns, FlatOrder *order, gint64 *n_steps);
