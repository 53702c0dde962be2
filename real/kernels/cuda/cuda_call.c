#include "cuda_call.h"

gboolean cuda_call_fail(GError **error, const char *why, const char *call, const char *file, int line) {
  int device;
  g_autofree char *file_name = g_path_get_basename(file);
  g_autofree char *name =
      cudaGetDevice(&device) == cudaSuccess ? g_strdup_printf("CUDA device %d", device) : g_strdup("CUDA");
  return fail_impossible(error, "%s: %s: %s (%s:%d)", name, call, why, file_name, line);
}

gboolean cuda_call_check(cudaError_t status, const char *call, const char *file, int line, GError **error) {
  if (status == cudaSuccess)
    return TRUE;
  (void)cudaGetLastError(); /* clears a non-sticky error, so that it is reported only once */
  return cuda_call_fail(error, cudaGetErrorString(status), call, file, line);
}
