/* cuDNN's backend API with less ceremony: a graph of operations on tensors, then a plan that runs it.
 *
 * Building never stops: after a first failure calls do nothing, return NULL, and why_not says what failed. Descriptors
 * belong to the graph. Functions come from libcudnn through dlopen. */
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

/* FALSE with the reason. Once loaded it stays in the process: what it keeps of the GPU outlives its handles. */
gboolean cudnn_library_load(CudnnLibrary *library, char **why_not);
void cudnn_library_unload(CudnnLibrary *library);

/* A GPU as cuDNN writes one down (JSON). NULL with the reason. Needs cuDNN 9.8; freed by BackendDestroyDescriptor. */
cudnnBackendDescriptor_t cudnn_gpu_new(const CudnnLibrary *library, const char *json, char **why_not);

typedef cudnnBackendDescriptor_t CudnnTensor;

typedef struct {
  const CudnnLibrary *library;
  cudnnHandle_t handle;         /* NULL: plans for `gpu` */
  cudnnBackendDescriptor_t gpu; /* described, not there; NULL: the handle's */
  GPtrArray *descriptors;       /* all, owned */
  GPtrArray *operations;        /* some of them */
  gint64 next_id;               /* of tensors without one */
  char *why_not;                /* NULL: well so far */
  cudnnBackendDescriptor_t plan;
  gint64 workspace_bytes; /* the plan's */
} CudnnGraph;

/* One of `handle` and `gpu` is NULL. */
void cudnn_graph_init(CudnnGraph *graph, const CudnnLibrary *library, cudnnHandle_t handle,
                      cudnnBackendDescriptor_t gpu);
void cudnn_graph_clear(CudnnGraph *graph);

/* Four dimensions [batch][head][row][column] and the elements between neighbours in each. */
typedef struct {
  gint64 sizes[4], strides[4];
} CudnnShape;

/* `id` > 0: memory given at execution under this id; 0: inside the graph only. */
CudnnTensor cudnn_tensor(CudnnGraph *graph, gint64 id, cudnnDataType_t type, CudnnShape shape);
CudnnTensor cudnn_scalar(CudnnGraph *graph, gint64 id); /* a float in host memory */

void cudnn_matmul(CudnnGraph *graph, CudnnTensor a, CudnnTensor b, CudnnTensor c);
void cudnn_reduce(CudnnGraph *graph, cudnnReduceTensorOp_t operation, CudnnTensor x, CudnnTensor y);
void cudnn_reshape(CudnnGraph *graph, CudnnTensor x, CudnnTensor y);
/* b, t NULL where the mode has one or two inputs. `compute`: the type it computes in. */
void cudnn_pointwise(CudnnGraph *graph, cudnnPointwiseMode_t mode, cudnnDataType_t compute, CudnnTensor x,
                     CudnnTensor b, CudnnTensor t, CudnnTensor y);
/* y[i] = the index along `axis`. */
void cudnn_index(CudnnGraph *graph, gint64 axis, CudnnTensor x, CudnnTensor y);

/* The heuristic's first engine that takes the graph. FALSE: none, see why_not. */
gboolean cudnn_graph_plan(CudnnGraph *graph);
/* `memory[i]` is the tensor of `ids[i]`. FALSE with the reason in why_not. */
gboolean cudnn_graph_execute(CudnnGraph *graph, const gint64 *ids, void *const *memory, gint64 n, void *workspace);
