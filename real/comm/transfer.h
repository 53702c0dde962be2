/* One transfer between host memories, as a state machine that is stepped until it is done: nothing here blocks, so that
 * one thread can carry many. */
#pragma once
#include "transfer_spec.h"

typedef struct MpiTransfer MpiTransfer;

MpiTransfer *transfer_new(const TransferSpec *spec);
/* Goes on as far as it can without waiting. FALSE: it failed. */
gboolean transfer_step(MpiTransfer *transfer, gboolean *is_done, GError **error);
/* Only a transfer that is done or was never stepped: MPI may still write into the memory of others. */
void transfer_free(MpiTransfer *transfer);
