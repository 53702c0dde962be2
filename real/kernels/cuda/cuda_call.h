/* All CUDA and cuBLASLt (cuda_cublas.h) calls go through here: a failed call becomes a GError that names the call,
 * the error, the device and the line. Returns TRUE, or FALSE with the error set. The rank is added where the process
 * fails: world_fail(). */
#pragma once
#include "error.h"

#include <cuda_runtime_api.h>

#define CUDA_CALL(call, error) cuda_call_check((call), #call, __FILE__, __LINE__, (error))

gboolean cuda_call_check(cudaError_t status, const char *call, const char *file, int line, GError **error);
/* Sets the error for a failed call, with the reason `why`, and returns FALSE. */
gboolean cuda_call_fail(GError **error, const char *why, const char *call, const char *file, int line);
