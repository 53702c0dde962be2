/* The one way CUDA and cuBLASLt are called: what a call returned becomes a GError that names the call, what was wrong,
 * the device, and the line. Always TRUE or FALSE-with-error. The rank is added where the process fails: world_fail. */
#pragma once
#include "error.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#define CUDA_CALL(call, error) cuda_call_check((call), #call, __FILE__, __LINE__, (error))
#define CUBLAS_CALL(call, error) cublas_call_check((call), #call, __FILE__, __LINE__, (error))

gboolean cuda_call_check(cudaError_t status, const char *call, const char *file, int line, GError **error);
gboolean cublas_call_check(cublasStatus_t status, const char *call, const char *file, int line, GError **error);
