#include "cuda_cublas.h"

#include "cuda_call.h"

#include <dlfcn.h>

#define LIBRARY "libcublasLt.so." G_STRINGIFY(CUBLAS_VER_MAJOR)

gboolean cublas_library_load(CublasLibrary *library, GError **error) {
  *library = (CublasLibrary){.handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
  if (library->handle == NULL)
    return fail_impossible(error, "cuBLASLt cannot be loaded: %s", dlerror());
  const char *missing = NULL;
#define CUBLAS_FIND(name)                                                                                              \
  *(void **)&library->name = dlsym(library->handle, "cublasLt" #name);                                                 \
  missing = library->name == NULL ? "cublasLt" #name : missing;
  CUBLAS_FUNCTIONS(CUBLAS_FIND)
#undef CUBLAS_FIND
  if (missing == NULL)
    return TRUE;
  cublas_library_unload(library);
  return fail_impossible(error, LIBRARY " has no %s", missing);
}

void cublas_library_unload(CublasLibrary *library) {
  if (library->handle != NULL)
    dlclose(library->handle);
  *library = (CublasLibrary){0};
}

gboolean cublas_call_check(const CublasLibrary *library, cublasStatus_t status, const char *call, const char *file,
                           int line, GError **error) {
  return status == CUBLAS_STATUS_SUCCESS || cuda_call_fail(error, library->GetStatusString(status), call, file, line);
}
