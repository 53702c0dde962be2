#include "cuda_cudnn_graph.h"

#include <dlfcn.h>

gboolean cudnn_library_load(CudnnLibrary *library, char **why_not) {
  library->handle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library->handle == NULL) {
    *why_not = g_strdup(dlerror());
    return FALSE;
  }
  gboolean is_complete = TRUE;
#define CUDNN_FIND(name)                                                                                               \
  *(void **)&library->name = dlsym(library->handle, "cudnn" #name);                                                    \
  is_complete = is_complete && library->name != NULL;
  CUDNN_FUNCTIONS(CUDNN_FIND)
#undef CUDNN_FIND
  if (!is_complete) {
    *why_not = g_strdup("libcudnn.so.9 lacks a function");
    cudnn_library_unload(library);
  }
  return is_complete;
}

void cudnn_library_unload(CudnnLibrary *library) {
  if (library->handle != NULL)
    dlclose(library->handle);
  *library = (CudnnLibrary){0};
}
