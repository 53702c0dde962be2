/* Private to auto_order: what the search has found so far, and single tries. */
#pragma once
#include "auto_list.h"
#include "auto_pattern.h"
#include "schedules.h"

enum { N_KEPT = 6, N_STARTS = 3, N_FIXED = 3, NO_PATTERN = -1, THE_BEST = -2 };

/* Where a guide comes from. */
typedef struct {
  const ScheduleFacts *schedule; /* the guide is this schedule's order, one of Search.fixed; or NULL */
  int pattern;                   /* or this pattern; NO_PATTERN; or THE_BEST order so far */
} Source;

typedef struct {
  Source source;
  ListRule rule; /* its guide is set when it is tried */
  gint64 objective;
} Trial;

/* One length of the problem, with working memory. */
typedef struct {
  FlatProblem flat; /* borrows its arrays */
  ListScheduler *list;
  FlatTimer timer;
  FlatOrder trial, best;
  FlatOrder guide;          /* a pattern, or a copy of the best order */
  int guide_pattern;        /* which one; NO_PATTERN: none */
  FlatOrder fixed[N_FIXED]; /* orders of Search.fixed, made on first use */
  Trial kept[N_KEPT];       /* best first, all with different objectives */
  int n_kept;
  gboolean has_best;
} Length;

/* A schedule of the table, with its objective when unchanged. */
typedef struct {
  const ScheduleFacts *schedule;
  double excess;
  gint64 objective, other;
} Fixed;

typedef struct {
  const OrderProblem *problem;
  GArray *patterns;     /* of VPattern */
  Fixed fixed[N_FIXED]; /* the best ones, best first, no two alike */
  int n_fixed;
  gint64 bound_ns;   /* of the whole problem */
  gint64 steps_left; /* remaining budget, in actions looked at */
} Search;

void length_init(Length *length, const OrderProblem *problem, const FlatProblem *flat, int n_micro_batches);
void length_clear(Length *length);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Length, length_clear)

/* Length.trial becomes the best order if it is better. */
void length_keep_best(Length *length);
/* Makes the best order the guide (Source.pattern THE_BEST). */
void length_guide_by_best(Length *length);

/* Whether no steps are left, or the best order cannot be beaten. */
gboolean search_is_over(const Search *search, const Length *length);
/* Tries the table's schedules unchanged: the best of them go into Search.fixed, the best order is kept. */
void search_try_schedules(Search *search, Length *length);
/* Makes the trial's order in Length.trial; FALSE if it does not lead to one as short as `limit_ns`. */
gboolean search_make(Search *search, Length *length, gint64 limit_ns, Trial *trial);
/* The same; fills in the objective (G_MAXINT64: no order) and keeps trial and order if they are good. */
void search_try(Search *search, Length *length, gint64 limit_ns, Trial *trial);

/* --- auto_descent.c --- */

/* From the best starts kept: changes one setting of the rule after another, as long as the order gets shorter. */
void search_descend(Search *search, Length *length);
/* Uses the best order as a guide to a better one, as long as that succeeds. */
void search_improve(Search *search, Length *length);
