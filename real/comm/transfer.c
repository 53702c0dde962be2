/* Messages, and the order in which messages and collectives start.
 *
 * Order. MPI matches messages of equal (sender, communicator, tag) in the order they were posted. A rank's streams run
 * at their own pace, so every call on a group takes a ticket, and waits for its turn before it posts anything.
 *
 *   issued by the program   #0 #1 #2           stream A: #0 ........ #2
 *   started                 #0 #1 #2           stream B:    #1 may wait here until #0 was posted
 *
 * Tags. A channel is one direction between two ranks, and its messages arrive in program order. So a receive takes the
 * next message whatever its tag, then compares tags: if the two ends disagree, that is an error instead of a hang. Tags
 * above MPI's limit are folded on both sides. */
#include "mpi_transfer.h"

#include "error.h"
#include "mpi_call.h"

struct MpiTransfer {
  TransferSpec spec;
  gboolean is_started;
  RequestSet set;     /* of a message */
  Exchange *exchange; /* of a collective */
};

/* ---- messages ---- */

static int folded_tag(const MpiGroup *group, int tag) {
  g_assert(tag >= 0);
  return group->max_tag == G_MAXINT ? tag : tag % (group->max_tag + 1);
}

static gint64 piece_bytes(const TransferSpec *spec, gint64 offset) {
  return MIN(spec->n - offset, (gint64)WORLD_MESSAGE_BYTES);
}

static gboolean start_message(MpiTransfer *transfer, GError **error) {
  const TransferSpec *spec = &transfer->spec;
  MpiGroup *group = spec->group;
  gint64 n_pieces = MAX(1, (spec->n + (gint64)WORLD_MESSAGE_BYTES - 1) / (gint64)WORLD_MESSAGE_BYTES);
  request_set_init(&transfer->set, (int)n_pieces);
  for (gint64 i = 0; i < n_pieces; i++) {
    gint64 offset = i * (gint64)WORLD_MESSAGE_BYTES, bytes = piece_bytes(spec, offset);
    gboolean is_posted = spec->kind == TRANSFER_SEND
                             ? request_set_send(&transfer->set, group, (const char *)spec->in + offset, bytes,
                                                group->peer, folded_tag(group, spec->tag), error)
                             : request_set_receive(&transfer->set, group, (char *)spec->out + offset, bytes,
                                                   group->peer, MPI_ANY_TAG, error);
    if (!is_posted)
      return FALSE;
  }
  return TRUE;
}

static gboolean check_message(const MpiTransfer *transfer, GError **error) {
  const TransferSpec *spec = &transfer->spec;
  const MpiGroup *group = spec->group;
  for (int i = 0; i < transfer->set.capacity; i++) {
    MPI_Status status = transfer->set.statuses[i];
    int expected = folded_tag(group, spec->tag), bytes;
    MPI_TRY(group->world, error, MPI_Get_count(&status, MPI_BYTE, &bytes));
    gint64 expected_bytes = piece_bytes(spec, i * (gint64)WORLD_MESSAGE_BYTES);
    if (status.MPI_TAG != expected)
      return fail_impossible(error, "rank %d sent tag %d where tag %d is expected", group->peer, status.MPI_TAG,
                             expected);
    if (bytes != expected_bytes)
      return fail_impossible(
          error, "MPI_Irecv on rank %d: rank %d sent %d bytes with tag %d where %" G_GINT64_FORMAT " are expected",
          group->world->rank, group->peer, bytes, expected, expected_bytes);
  }
  return TRUE;
}

static gboolean step_message(MpiTransfer *transfer, gboolean *is_done, GError **error) {
  const TransferSpec *spec = &transfer->spec;
  if (transfer->set.n > 0) {
    transfer->set.statuses[0].MPI_TAG = MPI_ANY_TAG;
    if (!request_set_test(&transfer->set, spec->group, is_done, error)) {
      /* a message too long for the buffer was most likely meant for another receive: report that first */
      int tag = transfer->set.statuses[0].MPI_TAG;
      if (spec->kind == TRANSFER_RECEIVE && tag >= 0 && tag != folded_tag(spec->group, spec->tag))
        g_prefix_error(error, "rank %d sent tag %d where tag %d is expected: ", spec->group->peer, tag,
                       folded_tag(spec->group, spec->tag));
      return FALSE;
    }
  }
  return !*is_done || spec->kind == TRANSFER_SEND || check_message(transfer, error);
}

/* ---- transfers ---- */

MpiTransfer *transfer_new(const TransferSpec *spec) {
  MpiTransfer *transfer = g_new0(MpiTransfer, 1);
  transfer->spec = *spec;
  if (spec->kind == TRANSFER_COLLECTIVE)
    transfer->exchange = exchange_new(spec);
  return transfer;
}

void transfer_free(MpiTransfer *transfer) {
  if (transfer == NULL)
    return;
  request_set_clear(&transfer->set);
  exchange_free(transfer->exchange);
  g_free(transfer);
}

static gboolean go_on(MpiTransfer *transfer, gboolean *is_done, GError **error) {
  return transfer->exchange != NULL ? exchange_step(transfer->exchange, is_done, error)
                                    : step_message(transfer, is_done, error);
}

/* The first call posts, but only after all transfers issued earlier have posted. */
static gboolean step(MpiTransfer *transfer, gboolean *is_done, GError **error) {
  MpiGroup *group = transfer->spec.group;
  if (transfer->is_started)
    return go_on(transfer, is_done, error);
  if ((guint)g_atomic_int_get(&group->n_started) != transfer->spec.ticket)
    return TRUE;
  transfer->is_started = TRUE;
  if (transfer->exchange == NULL && !start_message(transfer, error))
    return FALSE;
  gboolean is_good = go_on(transfer, is_done, error); /* a collective posts its first chunks here */
  g_atomic_int_inc(&group->n_started);
  return is_good;
}

/* "all_reduce of 1000 over 4 ranks: " */
static void name_transfer(const TransferSpec *spec, GError **error) {
  const MpiGroup *group = spec->group;
  if (spec->kind == TRANSFER_COLLECTIVE)
    g_prefix_error(error, "%s of %" G_GINT64_FORMAT " elements over %d ranks: ", collective_name(spec->collective),
                   spec->n, group->size);
  else
    g_prefix_error(error, "%s rank %d: ", spec->kind == TRANSFER_SEND ? "send to" : "receive from", group->peer);
}

gboolean transfer_step(MpiTransfer *transfer, gboolean *is_done, GError **error) {
  const TransferSpec *spec = &transfer->spec;
  *is_done = FALSE;
  gboolean is_good = g_atomic_int_get(spec->group->is_aborted)
                         ? fail_impossible(error, "the communication was given up")
                         : step(transfer, is_done, error);
  if (!is_good)
    name_transfer(spec, error);
  return is_good;
}
