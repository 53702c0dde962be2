/* Requests of MPI that are waited for together. */
#pragma once
#include "transfer_spec.h"

typedef struct {
  int n, capacity;
  MPI_Request *requests;
  MPI_Status *statuses; /* valid once done */
} RequestSet;

void request_set_init(RequestSet *set, int capacity);
void request_set_clear(RequestSet *set);
gboolean request_set_send(RequestSet *set, MpiGroup *group, const void *data, gint64 bytes, int to, int tag,
                          GError **error);
gboolean request_set_receive(RequestSet *set, MpiGroup *group, void *data, gint64 bytes, int from, int tag,
                             GError **error);
gboolean request_set_test(RequestSet *set, MpiGroup *group, gboolean *is_done, GError **error);
