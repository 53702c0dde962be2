#include "ranks_module.h"

#include <mpi.h>

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
  return NULL;
}

static char *send_bytes(int to, int tag, const void *bytes, int n_bytes) {
  MPI_TRY(MPI_Send(bytes, n_bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD));
  return NULL;
}

static char *poll_messages(int *from, int *tag, GByteArray *bytes) {
  int has_come, n_bytes;
  MPI_Status status;
  *tag = -1;
  MPI_TRY(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &has_come, &status));
  if (!has_come)
    return NULL;
  MPI_TRY(MPI_Get_count(&status, MPI_BYTE, &n_bytes));
  g_byte_array_set_size(bytes, (guint)n_bytes);
  MPI_TRY(MPI_Recv(bytes->data, n_bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status));
  *from = status.MPI_SOURCE;
  *tag = status.MPI_TAG;
  return NULL;
}

static char *end(void) {
  MPI_TRY(MPI_Finalize());
  return NULL;
}

extern const RanksModule ranks_module;
const RanksModule ranks_module = {begin, send_bytes, poll_messages, end};
