/* cuDNN's backend API with less ceremony: a graph of operations on tensors, then a plan that runs it.
 *
 * Building needs no checks in between: after a failure further calls do nothing and return NULL, and why_not says
 * what failed. Descriptors belong to the graph. Functions come from libcudnn through dlopen. */
#pragma once
#include <cudnn.h>
#include <glib.h>

/* The functions used; Library.f is cudnn##f. */
#define CUDNN_FUNCTIONS(X)                                                                                             \
  X(GetVersion)                                                                                                        \
  X(Create)                                                                                                            \
  X(Destroy)                                                                                                           \
  X(SetStream)                                                                                                         \
  X(GetErrorString)                                                                                                    \
  X(GetLastErrorString)                                                                                                \
  X(BackendCreateDescriptor)                                                                                           \
  X(BackendDestroyDescriptor)                                                                                          \
  X(BackendSetAttribute)                                                                                               \
  X(BackendGetAttribute)                                                                                               \
  X(BackendFinalize)                                                                                                   \
  X(BackendExecute)

typedef struct {
  void *handle; /* of dlopen */
#define CUDNN_MEMBER(name) __typeof__(&cudnn##name) name;
  CUDNN_FUNCTIONS(CUDNN_MEMBER)
#undef CUDNN_MEMBER
} CudnnLibrary;

/* FALSE with the reason. Once loaded it stays in the process, because its GPU state outlives its handles. */
gboolean cudnn_library_load(CudnnLibrary *library, char **why_not);
void cudnn_library_unload(CudnnLibrary *library);

/* A GPU from cuDNN's JSON description. NULL with the reason. Needs cuDNN 9.8; free with BackendDestroyDescriptor. */
cudnnBackendDescriptor_t cudnn_gpu_new(const CudnnLibrary *library, const char *json, char **why_not);

typedef cudnnBackendDescriptor_t CudnnTensor;

typedef struct {
  const CudnnLibrary *library;
  cudnnHandle_t handle;         /* NULL: plans for `gpu` */
  cudnnBackendDescriptor_t gpu; /* a described GPU; NULL: the handle's */
  GPtrArray *descriptors;       /* all, owned */
  GPtrArray *operations;        /* subset of descriptors */
  GArray *ids;                  /* of gint64: tensors with memory, each once */
  gint64 next_id;               /* for tensors without one */
  char *why_not;                /* NULL: no failure so far */
  cudnnBackendDescriptor_t plan;
  gint64 workspace_bytes; /* the plan's */
} CudnnGraph;

/* One of `handle` and `gpu` is NULL. */
void cudnn_graph_init(CudnnGraph *graph, const CudnnLibrary *library, cudnnHandle_t handle,
                      cudnnBackendDescriptor_t gpu);
void cudnn_graph_clear(CudnnGraph *graph);

/* Sizes of the four dimensions [batch][head][row][column], and the stride of each in elements. */
typedef struct {
  gint64 sizes[4], strides[4];
} CudnnShape;

/* `id` > 0: memory passed at execution under this id; 0: internal to the graph. */
CudnnTensor cudnn_tensor(CudnnGraph *graph, gint64 id, cudnnDataType_t type, CudnnShape shape);
CudnnTensor cudnn_scalar(CudnnGraph *graph, gint64 id, cudnnDataType_t type); /* one number, in host memory */

void cudnn_matmul(CudnnGraph *graph, CudnnTensor a, CudnnTensor b, CudnnTensor c);
void cudnn_reduce(CudnnGraph *graph, cudnnReduceTensorOp_t operation, CudnnTensor x, CudnnTensor y);
void cudnn_reshape(CudnnGraph *graph, CudnnTensor x, CudnnTensor y);
/* b, t NULL if the mode has only one or two inputs. `compute`: the type it computes in. */
void cudnn_pointwise(CudnnGraph *graph, cudnnPointwiseMode_t mode, cudnnDataType_t compute, CudnnTensor x,
                     CudnnTensor b, CudnnTensor t, CudnnTensor y);
/* y[i] = the index along `axis`, a number of `y`'s type. */
void cudnn_index(CudnnGraph *graph, gint64 axis, CudnnTensor x, CudnnTensor y);

/* Plans with the heuristic's first engine that accepts the graph. FALSE: none, see why_not. */
gboolean cudnn_graph_plan(CudnnGraph *graph);
/* `of_id[id]` is the memory of the tensors with an id. FALSE with the reason in why_not. */
gboolean cudnn_graph_execute(CudnnGraph *graph, void *const *of_id, void *workspace);
