/* Private to the Program's text form: words shared by writer and reader. All lists are NULL-terminated, in enum
 * order. */
#pragma once
#include "program.h"

extern const char *const phase_words[N_PHASES + 1];
extern const char *const piece_words[N_PIECES + 1];
extern const char *const op_kind_words[N_OP_KINDS + 1];
enum { N_AXIS_BITS = N_AXES + 3 };
extern const char
    *const axis_words[N_AXIS_BITS + 1]; /* by bit of an AxisSet: the axes, dp_shard, dp_replica, expert_shard */
extern const char *const route_words[N_ROUTE_BITS + 1]; /* by bit of a CopyRoute */

/* The kind of an op on `stream` unless its line says `kind=`. */
OpKind program_words_usual_kind(Stream stream);
