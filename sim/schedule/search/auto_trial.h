/* Private to auto_order: what the search has found so far, and one try more. */
#pragma once
#include "auto_list.h"
#include "auto_pattern.h"
#include "schedules.h"

enum { N_KEPT = 6, N_STARTS = 3, N_FIXED = 3, NO_PATTERN = -1, THE_BEST = -2 };

/* Where a guide comes from. */
typedef struct {
  const ScheduleInfo *schedule; /* the guide is this schedule's order, one of Search.fixed; or NULL */
  int pattern;                  /* or this pattern; NO_PATTERN; or THE_BEST order so far */
} Source;

typedef struct {
  Source source;
  ListRule rule; /* its guide is set when it is tried */
  gint64 objective;
} Trial;

/* One length of the problem, with room to work. */
typedef struct {
  FlatProblem flat; /* borrows its arrays */
  ListScheduler *list;
  FlatTimer timer;
  FlatOrder trial, best;
  FlatOrder guide;          /* a pattern or a copy of the best */
  int guide_pattern;        /* which; NO_PATTERN: nothing */
  FlatOrder fixed[N_FIXED]; /* orders of Search.fixed, made when first needed */
  Trial kept[N_KEPT];       /* best first, no two of one objective */
  int n_kept;
  gboolean has_best;
} Length;

/* A schedule of the table, and what it is as it stands. */
typedef struct {
  const ScheduleInfo *schedule;
  double excess;
  gint64 objective, other;
} Fixed;

typedef struct {
  const OrderProblem *problem;
  GArray *patterns;     /* of VPattern */
  Fixed fixed[N_FIXED]; /* the best ones, best first, no two alike */
  int n_fixed;
  gint64 bound_ns;   /* of the whole problem */
  gint64 steps_left; /* what may still be spent, in actions looked at */
} Search;

void length_init(Length *length, const OrderProblem *problem, const FlatProblem *flat, int n_micro_batches);
void length_clear(Length *length);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Length, length_clear)

/* Length.trial becomes the best if it is better. */
void length_keep_best(Length *length);
/* The best as a guide, Source.pattern THE_BEST. */
void length_guide_by_best(Length *length);

/* No steps left, or the best cannot be beaten. */
gboolean search_is_over(const Search *search, const Length *length);
/* The table's schedules as they are: the best of them into Search.fixed, the best order kept. */
void search_try_schedules(Search *search, Length *length);
/* Make the trial's order in Length.trial; FALSE where the trial leads to none as short as `limit_ns`. */
gboolean search_make(Search *search, Length *length, gint64 limit_ns, Trial *trial);
/* The same, with the objective filled in, G_MAXINT64 for none, and trial and order kept if they are good. */
void search_try(Search *search, Length *length, gint64 limit_ns, Trial *trial);

/* --- auto_descent.c --- */

/* From the best starts kept: change one setting of the rule after the other, as long as that makes the order shorter.
 */
void search_descend(Search *search, Length *length);
/* The best order as a guide to a better one, as long as that goes on. */
void search_improve(Search *search, Length *length);
