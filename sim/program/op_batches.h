/* Which ops of a list are issued together. */
#pragma once
#include "program.h"

/* For each op, the index of the first op of its batch; −1 if it is in no batch. NULL for a list without batches;
 * owned by the caller. */
gint32 *op_list_batches(const OpList *list);
