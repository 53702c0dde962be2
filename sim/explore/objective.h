/* What configurations are ranked by. */
#pragma once

typedef enum {
  OBJECTIVE_MFU,
  OBJECTIVE_TOKENS_PER_S, /* highest tokens per second */
  OBJECTIVE_COST,         /* lowest dollars per token */
  N_OBJECTIVES
} Objective;
const char *const *objective_names(void); /* NULL-terminated: mfu, tokens_per_s, cost */
