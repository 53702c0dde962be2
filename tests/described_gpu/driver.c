/* A CUDA driver (libcuda.so.1) for a machine without a GPU. It accepts every kernel and never runs one, so cuDNN can
 * build complete plans, including compiled kernels, for GPUs described to it. It has the symbols that cuDNN 9.19 looks
 * up; a call that asks for a device is told there is none. */
#include <cuda.h>
#undef cuLinkCreate
#undef cuLinkAddData

enum { ANY = 256 }; /* handles: never looked into */

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values, unsigned n_jit,
                           CUlibraryOption *options, void **option_values, unsigned n_options) {
  *library = (CUlibrary)ANY;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  *kernel = (CUkernel)ANY;
  return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library) {
  return CUDA_SUCCESS;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

/* Declared in cuda.h with arguments that are not looked at here: told by name alone. */
#define NO_DEVICE(name)                                                                                                \
  CUresult no_device_##name(void) __asm__(#name);                                                                      \
  CUresult no_device_##name(void) {                                                                                    \
    return CUDA_ERROR_NO_DEVICE;                                                                                       \
  }
NO_DEVICE(cuInit)
NO_DEVICE(cuGetErrorName)
NO_DEVICE(cuGetErrorString)
NO_DEVICE(cuGetExportTable)
NO_DEVICE(cuGetProcAddress_v2)
NO_DEVICE(cuDeviceGet)
NO_DEVICE(cuDeviceGetCount)
NO_DEVICE(cuDeviceGetAttribute)
NO_DEVICE(cuDevicePrimaryCtxRetain)
NO_DEVICE(cuDevicePrimaryCtxRelease)
NO_DEVICE(cuDevicePrimaryCtxReset)
NO_DEVICE(cuCtxPushCurrent)
NO_DEVICE(cuCtxPopCurrent)
NO_DEVICE(cuCtxGetCurrent)
NO_DEVICE(cuCtxGetDevice)
NO_DEVICE(cuCtxGetLimit)
NO_DEVICE(cuModuleLoadData)
NO_DEVICE(cuModuleLoadDataEx)
NO_DEVICE(cuModuleLoadFatBinary)
NO_DEVICE(cuModuleGetFunction)
NO_DEVICE(cuModuleGetGlobal_v2)
NO_DEVICE(cuModuleUnload)
NO_DEVICE(cuKernelGetAttribute)
NO_DEVICE(cuLibraryLoadFromFile)
NO_DEVICE(cuLinkCreate)
NO_DEVICE(cuLinkCreate_v2)
NO_DEVICE(cuLinkAddData)
NO_DEVICE(cuLinkAddData_v2)
NO_DEVICE(cuLinkAddFile_v2)
NO_DEVICE(cuLinkComplete)
NO_DEVICE(cuLinkDestroy)
NO_DEVICE(cuFuncSetAttribute)
NO_DEVICE(cuFuncGetAttribute)
NO_DEVICE(cuLaunchKernel)
NO_DEVICE(cuLaunchKernelEx)
NO_DEVICE(cuLaunchCooperativeKernel)
NO_DEVICE(cuStreamGetCtx)
NO_DEVICE(cuStreamSynchronize)
NO_DEVICE(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NO_DEVICE(cuOccupancyMaxPotentialClusterSize)
NO_DEVICE(cuTensorMapEncodeTiled)
NO_DEVICE(cuMemcpyDtoH_v2)
