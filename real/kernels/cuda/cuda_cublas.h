/* cuBLASLt, loaded on demand: a program linked against it spends 0.06 s of every start in its initialisers (CUDA
 * 13.0), with or without a GPU. Functions are found with dlopen, in the version of the headers. */
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

/* FALSE with the error: the library is missing or lacks a function; `library` is then zeroed. Once loaded it stays in
 * the process, because its GPU state outlives its handles. */
gboolean cublas_library_load(CublasLibrary *library, GError **error);
/* `library` may be zeroed. */
void cublas_library_unload(CublasLibrary *library);

/* Calls cublasLt##call of the library, like CUDA_CALL. */
#define CUBLAS_CALL(library, call, error)                                                                              \
  cublas_call_check((library), (library)->call, "cublasLt" #call, __FILE__, __LINE__, (error))

gboolean cublas_call_check(const CublasLibrary *library, cublasStatus_t status, const char *call, const char *file,
                           int line, GError **error);
