/* Private to compare.c: the two parts of a comparison with an algorithm of their own. */
#pragma once
#include "compare.h"

/* Fill `pairs` from rows and ops. INPUT naming the first op that only one trace has. */
gboolean compare_match(Compare *compare, GError **error);
/* Fill inversions and violations from rows, ops and pairs. */
void compare_check_order(Compare *compare);

static inline const WholeOp *compare_op(const WholeOps *ops, gsize index) {
  return &g_array_index(ops->ops, WholeOp, index);
}
