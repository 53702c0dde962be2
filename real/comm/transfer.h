/* One transfer between host memories, as a state machine stepped until it is done. Nothing here blocks, so one thread
 * can run many transfers. */
#pragma once
#include "transfer_spec.h"

typedef struct MpiTransfer MpiTransfer;

MpiTransfer *transfer_new(const TransferSpec *spec);
/* Advances as far as possible without waiting. FALSE: it failed. */
gboolean transfer_step(MpiTransfer *transfer, gboolean *is_done, GError **error);
/* Only for a transfer that is done or was never stepped: MPI may still write to any other's memory. */
void transfer_free(MpiTransfer *transfer);
