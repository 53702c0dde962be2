/* How the verifier, and who checks a Program against its plan, name an op that is wrong. */
#pragma once
#include "program.h"

/* IMPOSSIBLE: "rank 0, op 5 (0UNSHARD3): " and `what`, then op `other` of the rank unless that is −1, and `rest`.
 * Always FALSE. */
gboolean fail_at_op(const Program *program, int rank, gint32 i, const char *what, gint32 other, const char *rest,
                    GError **error);
