/* A collective of a group, stepped until it is done. */
#pragma once
#include "transfer_spec.h"

typedef struct Exchange Exchange;

Exchange *exchange_new(const TransferSpec *spec); /* copied */
gboolean exchange_step(Exchange *exchange, gboolean *is_done, GError **error);
void exchange_free(Exchange *exchange);
/* Frees MpiGroup.scratch, where exchanges keep memory. NULL is fine. */
void exchange_scratch_free(gpointer scratch);
