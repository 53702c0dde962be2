/* A pipeline order: for each pipeline rank, the compute actions in the order it runs them. Says nothing of time or
 * communication. */
#pragma once
#include "action.h"

typedef struct {
  int n_ranks, n_stages, n_micro_batches; /* n_stages = ranks × chunks */
  GArray **actions;                       /* [n_ranks] of Action; owned */
  int *stage_rank;                        /* [n_stages] pipeline rank that holds the stage; owned */
} Order;

/* What a generator can do; one row per schedule name. */
typedef struct {
  const char *name;
  const char *summary; /* one line for --help */
  gboolean has_chunks; /* takes chunks > 1 */
  Order *(*generate)(int n_ranks, int n_chunks, int n_micro_batches);
  /* Bubble on stage spans for uniform stages and free communication, as a time, given F and B = I + W of a whole rank
   * (all its chunks) for one micro-batch. */
  double (*bubble_bound)(int n_ranks, int n_chunks, int n_micro_batches, double f, double b);
} ScheduleInfo;

const ScheduleInfo *schedule_find(const char *name, GError **error); /* INPUT with the valid names and the nearest */
const char *const *schedule_names(void);                             /* NULL-terminated */

/* Generate; IMPOSSIBLE when the schedule cannot take these counts (said why). */
Order *order_new(const ScheduleInfo *schedule, int n_ranks, int n_chunks, int n_micro_batches, GError **error);
void order_free(Order *order);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Order, order_free)

/* CSV as PyTorch writes it: a row per rank, a cell per action; empty cells are idle slots and are skipped on reading.
 * Reading: INPUT with row and column. Stage → rank is taken from where each stage's actions stand. */
char *order_to_csv(const Order *order);
Order *order_read_csv(const char *file, GError **error);
