/* cuBLASLt, looked for when it is wanted: a program that is linked with it spends 0.06 s of every start on its
 * initialisers (CUDA 13.0), with or without a GPU. Functions come through dlopen, of the version of the headers. */
#pragma once
#include <cublasLt.h>
#include <glib.h>

/* The functions used; CublasLibrary.f is cublasLt##f. */
#define CUBLAS_FUNCTIONS(X)                                                                                            \
  X(Create)                                                                                                            \
  X(Destroy)                                                                                                           \
  X(GetStatusString)                                                                                                   \
  X(Matmul)                                                                                                            \
  X(MatmulAlgoGetHeuristic)                                                                                            \
  X(MatmulDescCreate)                                                                                                  \
  X(MatmulDescDestroy)                                                                                                 \
  X(MatmulDescSetAttribute)                                                                                            \
  X(MatmulPreferenceCreate)                                                                                            \
  X(MatmulPreferenceDestroy)                                                                                           \
  X(MatmulPreferenceSetAttribute)                                                                                      \
  X(MatrixLayoutCreate)                                                                                                \
  X(MatrixLayoutDestroy)                                                                                               \
  X(MatrixLayoutSetAttribute)

/* Zeroed: not loaded. */
typedef struct {
  void *handle; /* of dlopen */
#define CUBLAS_MEMBER(name) __typeof__(&cublasLt##name) name;
  CUBLAS_FUNCTIONS(CUBLAS_MEMBER)
#undef CUBLAS_MEMBER
} CublasLibrary;

/* FALSE with the error: it is not there, or lacks a function; `library` is zeroed then. Once loaded it stays in the
 * process: what it keeps of the GPU outlives its handles. */
gboolean cublas_library_load(CublasLibrary *library, GError **error);
/* Also of a zeroed one. */
void cublas_library_unload(CublasLibrary *library);

/* cublasLt##call of the library, as CUDA_CALL is. */
#define CUBLAS_CALL(library, call, error)                                                                              \
  cublas_call_check((library), (library)->call, "cublasLt" #call, __FILE__, __LINE__, (error))

gboolean cublas_call_check(const CublasLibrary *library, cublasStatus_t status, const char *call, const char *file,
                           int line, GError **error);
