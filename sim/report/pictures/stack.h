/* Stacked bars, one per configuration or rank: where the time of a step goes, or what fills a GPU's memory. */
#pragma once
#include "memory_profile.h"
#include "metrics.h"
#include "picture.h"

typedef struct {
  char *title, *xlabel; /* what the length of a bar is, with its unit; owned */
  const char *unit;     /* of xlabel */
  const char *total;    /* printf format of the number at a bar's end: "%.1f" */
  double scale;         /* factor from the given lengths to the unit of xlabel */
  double capacity;      /* a line across the bars, in the unit of the given lengths; 0: none */
  GPtrArray *parts;     /* of const char *: names, one word each */
  GPtrArray *labels;    /* of char *: one per bar */
  GArray *lengths;      /* of double: [bars × parts] */
  GArray *intervals;    /* of double: [bars × 2], between which four of five cases' sums are; 0: not known */
} Stack;

/* Bars of N_BREAKDOWN parts in seconds, shown in the unit that suits `longest_s`. */
Stack *stack_new_times(const char *title, double longest_s);
/* Bars of N_STACK_MEMORY parts in bytes, shown in GB = 1e9 bytes: the MemoryCategory parts, then what context and
 * libraries reserve. */
enum { N_STACK_MEMORY = N_MEMORY + 1 };
Stack *stack_new_memory(const char *title, double capacity_bytes);
void stack_free(Stack *stack);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Stack, stack_free)

/* Append a bar below the others: a length ≥ 0 per part; NULL: no lengths, and its label says why. */
void stack_add(Stack *stack, const char *label, const double *lengths);
/* Of the last bar, in the unit of the given lengths; drawn if any bar has one. */
void stack_set_interval(Stack *stack, double low, double high);
/* Parts that are 0 in all bars are left out. `columns`: width of the terminal it may be shown in. Owned by the
 * caller; NULL with INPUT if no bar has any length. */
Picture *stack_picture(const Stack *stack, int columns, GError **error);

/* Where the step's time goes on each pipeline rank: means over the recorded ranks of each. */
Stack *stack_of_ranks(const Trace *trace, const Metrics *metrics, const char *title);
