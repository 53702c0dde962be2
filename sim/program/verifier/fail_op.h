/* Names of ops, and error messages about one, for the verifier and for checks of a Program against its plan. */
#pragma once
#include "program.h"

/* IMPOSSIBLE: "rank 0, op 5 (0UNSHARD3 of step 1): ", then the formatted text. Always FALSE. */
gboolean fail_at_op(const Program *program, int rank, gint32 i, GError **error, const char *format, ...)
    G_GNUC_PRINTF(5, 6);
/* "1RECV_F0", plus " of step 2" in programs of several steps. */
void op_append_name(const Program *program, const Op *op, GString *out);
/* "0UNSHARD3 of step 1 (op 5)"; owned by the caller. The step is named in programs of several. */
char *op_name_new(const Program *program, int rank, gint32 i);
