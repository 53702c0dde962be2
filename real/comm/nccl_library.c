#include "nccl_library.h"

#include "error.h"

#include <dlfcn.h>

#define LIBRARY "libnccl.so.2"

gboolean nccl_library_load(NcclLibrary *library, GError **error) {
  *library = (NcclLibrary){NULL};
  void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == NULL)
    return fail_impossible(error, "NCCL cannot be loaded: %s; --comm mpi does without it", dlerror());
  const char *missing = NULL;
#define NCCL_FIND(name)                                                                                                \
  *(void **)&library->name = dlsym(handle, "nccl" #name);                                                              \
  missing = library->name == NULL ? "nccl" #name : missing;
  NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
  return missing == NULL || fail_impossible(error, LIBRARY " has no %s", missing);
}
