/* Private to auto_order: one pass of list scheduling in simulated time, under rules given. */
#pragma once
#include "order_search.h"

/* What a rank does when several actions could run. */
typedef struct {
  double depth;           /* a stage may hold depth · (least number that keeps it busy) micro-batches; 0: any number */
  gint64 pace_ns;         /* least time between two first forwards of the pipe */
  gint64 idle_budget_ns;  /* how long a rank may idle in all for an F or I that a W would delay */
  gboolean forward_first; /* F before I when both could run, else I before F */
  gboolean by_arrival;    /* of several F, or I, the one that came first; else the one furthest down its way */
} ListRule;

/* Working memory of the passes over one problem. */
typedef struct ListScheduler ListScheduler;
ListScheduler *list_scheduler_new(const FlatProblem *flat);
void list_scheduler_free(ListScheduler *list);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ListScheduler, list_scheduler_free)

/* Fill `order` (all of it, cost included) under `rule`, for any memory cap that leaves room for one micro-batch
 * (`need`); FALSE when it does not. */
gboolean list_schedule(ListScheduler *list, const ListRule *rule, FlatOrder *order);
