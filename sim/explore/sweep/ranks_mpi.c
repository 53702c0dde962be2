/* The counter is a number in the first rank's memory that the others change from outside (MPI-3's passive targets). */
#include "ranks.h"

#include <mpi.h>

enum { WAIT_US = 500 };

static char *text_of(int code, const char *call) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int n_bytes;
  MPI_Error_string(code, text, &n_bytes);
  return g_strdup_printf("%s: %s", call, g_strstrip(text));
}

#define MPI_TRY(call)                                                                                                  \
  do {                                                                                                                 \
    const int code = (call);                                                                                           \
    if (code != MPI_SUCCESS)                                                                                           \
      return text_of(code, #call);                                                                                     \
  } while (0)

static char *make_counter(RanksPlace *place) {
  MPI_Win *window = place->counter = g_new(MPI_Win, 1);
  gint64 *number;
  MPI_TRY(MPI_Win_allocate(place->rank == 0 ? sizeof *number : 0, sizeof *number, MPI_INFO_NULL, MPI_COMM_WORLD,
                           &number, window));
  if (place->rank == 0)
    *number = 0;
  MPI_TRY(MPI_Barrier(MPI_COMM_WORLD));
  MPI_TRY(MPI_Win_lock_all(MPI_MODE_NOCHECK, *window));
  return NULL;
}

static char *begin(RanksPlace *place) {
  int provided;
  MPI_Comm here;
  MPI_TRY(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided));
  MPI_TRY(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  MPI_TRY(MPI_Comm_rank(MPI_COMM_WORLD, &place->rank));
  MPI_TRY(MPI_Comm_size(MPI_COMM_WORLD, &place->n_ranks));
  MPI_TRY(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here));
  MPI_TRY(MPI_Comm_size(here, &place->n_neighbours));
  MPI_TRY(MPI_Comm_free(&here));
  char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length;
  MPI_TRY(MPI_Get_library_version(library, &length));
  g_strlcpy(place->library, library, sizeof place->library);
  return make_counter(place);
}

static char *share(GByteArray *bytes) {
  gint64 n = bytes->len;
  MPI_TRY(MPI_Bcast(&n, 1, MPI_INT64_T, 0, MPI_COMM_WORLD));
  g_byte_array_set_size(bytes, (guint)n);
  MPI_TRY(MPI_Bcast(bytes->data, (int)n, MPI_BYTE, 0, MPI_COMM_WORLD));
  return NULL;
}

static char *gather(const char own[RANKS_PROBLEM_BYTES], char (*all)[RANKS_PROBLEM_BYTES]) {
  MPI_TRY(MPI_Allgather(own, RANKS_PROBLEM_BYTES, MPI_CHAR, all, RANKS_PROBLEM_BYTES, MPI_CHAR, MPI_COMM_WORLD));
  return NULL;
}

static char *count(const RanksPlace *place, gint64 by, gint64 *before) {
  const MPI_Win *window = place->counter;
  MPI_TRY(MPI_Fetch_and_op(&by, before, MPI_INT64_T, 0, 0, MPI_SUM, *window));
  MPI_TRY(MPI_Win_flush(0, *window));
  return NULL;
}

static char *send_bytes(const GByteArray *bytes) {
  MPI_TRY(MPI_Send(bytes->data, (int)bytes->len, MPI_BYTE, 0, 0, MPI_COMM_WORLD));
  return NULL;
}

static char *receive(GByteArray *bytes, gboolean *has_come) {
  int n_bytes;
  MPI_Status status;
  MPI_TRY(MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, has_come, &status));
  if (!*has_come)
    return NULL;
  MPI_TRY(MPI_Get_count(&status, MPI_BYTE, &n_bytes));
  g_byte_array_set_size(bytes, (guint)n_bytes);
  MPI_TRY(MPI_Recv(bytes->data, n_bytes, MPI_BYTE, status.MPI_SOURCE, 0, MPI_COMM_WORLD, &status));
  return NULL;
}

/* Not in a collective that would keep a processor busy, which another rank may need. */
static char *end(RanksPlace *place) {
  MPI_Request request;
  int all_are_here = 0;
  MPI_TRY(MPI_Ibarrier(MPI_COMM_WORLD, &request));
  while (!all_are_here) {
    MPI_TRY(MPI_Test(&request, &all_are_here, MPI_STATUS_IGNORE));
    if (!all_are_here)
      g_usleep(WAIT_US);
  }
  MPI_TRY(MPI_Win_unlock_all(*(MPI_Win *)place->counter));
  MPI_TRY(MPI_Win_free(place->counter));
  g_free(place->counter);
  MPI_TRY(MPI_Finalize());
  return NULL;
}

extern const RanksModule ranks_module;
const RanksModule ranks_module = {begin, share, gather, count, send_bytes, receive, end};
