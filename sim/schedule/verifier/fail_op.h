/* Error messages about an op, for the verifier and for checks of a Program against its plan. */
#pragma once
#include "program.h"

/* IMPOSSIBLE: "rank 0, op 5 (0UNSHARD3): ", then `what`, then op `other` of the rank unless −1, then `rest`. Always
 * FALSE. */
gboolean fail_at_op(const Program *program, int rank, gint32 i, const char *what, gint32 other, const char *rest,
                    GError **error);
