/* The one way CUDA and cuBLASLt (cuda_cublas.h) are called: what a call returned becomes a GError that names the call,
 * what was wrong, the device, and the line. Always TRUE or FALSE-with-error. The rank is added where the process fails:
 * world_fail. */
#pragma once
#include "error.h"

#include <cuda_runtime_api.h>

#define CUDA_CALL(call, error) cuda_call_check((call), #call, __FILE__, __LINE__, (error))

gboolean cuda_call_check(cudaError_t status, const char *call, const char *file, int line, GError **error);
/* FALSE with the error: `why` of a call that failed. */
gboolean cuda_call_fail(GError **error, const char *why, const char *call, const char *file, int line);
