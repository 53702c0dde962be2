/* What configurations are ranked by. */
#pragma once
#include <stddef.h>

typedef enum {
  OBJECTIVE_MFU,
  OBJECTIVE_TOKENS_PER_S, /* highest tokens per second */
  OBJECTIVE_COST,         /* lowest dollars per token */
  N_OBJECTIVES
} Objective;

/* NULL-terminated: mfu, tokens_per_s, cost. */
static inline const char *const *objective_names(void) {
  static const char *const names[N_OBJECTIVES + 1] = {
      [OBJECTIVE_MFU] = "mfu", [OBJECTIVE_TOKENS_PER_S] = "tokens_per_s", [OBJECTIVE_COST] = "cost"};
  return names;
}
