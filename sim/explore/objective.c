#include "objective.h"

#include <stddef.h>

const char *const *objective_names(void) {
  static const char *const names[N_OBJECTIVES + 1] = {
      [OBJECTIVE_MFU] = "mfu", [OBJECTIVE_TOKENS_PER_S] = "tokens_per_s", [OBJECTIVE_COST] = "cost"};
  return names;
}
