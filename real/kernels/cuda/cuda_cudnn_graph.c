#include "cuda_cudnn_graph.h"

#include <stdbool.h>
#include <string.h>

cudnnBackendDescriptor_t cudnn_gpu_new(const CudnnLibrary *library, const char *json, char **why_not) {
  cudnnBackendDescriptor_t gpu = NULL;
  cudnnStatus_t status = library->BackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &gpu);
  if (status == CUDNN_STATUS_SUCCESS)
    status = library->BackendSetAttribute(gpu, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                          (gint64)strlen(json), json);
  if (status == CUDNN_STATUS_SUCCESS)
    status = library->BackendFinalize(gpu);
  if (status == CUDNN_STATUS_SUCCESS)
    return gpu;
  *why_not = g_strdup_printf("a described GPU: %s", library->GetErrorString(status));
  if (gpu != NULL)
    (void)library->BackendDestroyDescriptor(gpu);
  return NULL;
}

void cudnn_graph_init(CudnnGraph *graph, const CudnnLibrary *library, cudnnHandle_t handle,
                      cudnnBackendDescriptor_t gpu) {
  *graph = (CudnnGraph){.library = library, .handle = handle, .gpu = gpu, .next_id = 1000};
  graph->descriptors = g_ptr_array_new();
  graph->operations = g_ptr_array_new();
  graph->ids = g_array_new(FALSE, FALSE, sizeof(gint64));
}

/* Newest first: operations are destroyed before their tensors. */
void cudnn_graph_clear(CudnnGraph *graph) {
  if (graph->library == NULL)
    return;
  for (guint i = graph->descriptors->len; i > 0; i--)
    (void)graph->library->BackendDestroyDescriptor(g_ptr_array_index(graph->descriptors, i - 1));
  g_ptr_array_unref(graph->descriptors);
  g_ptr_array_unref(graph->operations);
  g_array_unref(graph->ids);
  g_free(graph->why_not);
  *graph = (CudnnGraph){0};
}

static gboolean check(CudnnGraph *graph, cudnnStatus_t status, const char *what) {
  if (status == CUDNN_STATUS_SUCCESS)
    return TRUE;
  char detail[512] = "";
  graph->library->GetLastErrorString(detail, sizeof detail);
  g_free(graph->why_not);
  graph->why_not = g_strdup_printf("%s: %s %s", what, graph->library->GetErrorString(status), detail);
  return FALSE;
}

static cudnnBackendDescriptor_t create(CudnnGraph *graph, cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor = NULL;
  if (graph->why_not != NULL ||
      !check(graph, graph->library->BackendCreateDescriptor(type, &descriptor), "BackendCreateDescriptor"))
    return NULL;
  g_ptr_array_add(graph->descriptors, descriptor);
  return descriptor;
}

static void set(CudnnGraph *graph, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, gint64 n, const void *values) {
  if (graph->why_not != NULL)
    return;
  g_autofree char *what = g_strdup_printf("attribute %d", (int)name);
  check(graph, graph->library->BackendSetAttribute(descriptor, name, type, n, values), what);
}

static void set_descriptor(CudnnGraph *graph, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                           cudnnBackendDescriptor_t value) {
  set(graph, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static gboolean finalize(CudnnGraph *graph, cudnnBackendDescriptor_t descriptor, const char *what) {
  return graph->why_not == NULL && check(graph, graph->library->BackendFinalize(descriptor), what);
}

static void add_operation(CudnnGraph *graph, cudnnBackendDescriptor_t operation, const char *what) {
  if (finalize(graph, operation, what))
    g_ptr_array_add(graph->operations, operation);
}

static void note_id(CudnnGraph *graph, gint64 id) {
  for (guint i = 0; i < graph->ids->len; i++)
    if (g_array_index(graph->ids, gint64, i) == id)
      return;
  if (id > 0)
    g_array_append_val(graph->ids, id);
}

static CudnnTensor add_tensor(CudnnGraph *graph, gint64 id, cudnnDataType_t type, const CudnnShape *shape,
                              bool is_by_value) {
  const gint64 alignment_bytes = 16, own_id = id > 0 ? id : graph->next_id++;
  const bool is_virtual = id == 0;
  CudnnTensor tensor = create(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(graph, tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set(graph, tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape->sizes);
  set(graph, tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape->strides);
  set(graph, tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &own_id);
  set(graph, tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment_bytes);
  if (is_virtual)
    set(graph, tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  if (is_by_value)
    set(graph, tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &is_by_value);
  note_id(graph, id);
  return finalize(graph, tensor, "tensor") ? tensor : NULL;
}

CudnnTensor cudnn_tensor(CudnnGraph *graph, gint64 id, cudnnDataType_t type, CudnnShape shape) {
  return add_tensor(graph, id, type, &shape, false);
}

CudnnTensor cudnn_scalar(CudnnGraph *graph, gint64 id, cudnnDataType_t type) {
  const CudnnShape one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
  return add_tensor(graph, id, type, &one, true);
}

void cudnn_matmul(CudnnGraph *graph, CudnnTensor a, CudnnTensor b, CudnnTensor c) {
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnBackendDescriptor_t kind = create(graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set(graph, kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  finalize(graph, kind, "matmul");
  cudnnBackendDescriptor_t operation = create(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
  add_operation(graph, operation, "matmul operation");
}

void cudnn_reduce(CudnnGraph *graph, cudnnReduceTensorOp_t reduction, CudnnTensor x, CudnnTensor y) {
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnBackendDescriptor_t kind = create(graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  set(graph, kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  set(graph, kind, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &reduction);
  finalize(graph, kind, "reduction");
  cudnnBackendDescriptor_t operation = create(graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
  set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  add_operation(graph, operation, "reduction operation");
}

void cudnn_reshape(CudnnGraph *graph, CudnnTensor x, CudnnTensor y) {
  cudnnBackendDescriptor_t operation = create(graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  add_operation(graph, operation, "reshape operation");
}

static void add_pointwise(CudnnGraph *graph, cudnnPointwiseMode_t mode, cudnnDataType_t compute, const gint64 *axis,
                          CudnnTensor x, CudnnTensor b, CudnnTensor t, CudnnTensor y) {
  cudnnBackendDescriptor_t kind = create(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set(graph, kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  set(graph, kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  if (axis != NULL)
    set(graph, kind, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, axis);
  finalize(graph, kind, "pointwise");
  cudnnBackendDescriptor_t operation = create(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != NULL)
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  if (t != NULL)
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
  set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  g_autofree char *what = g_strdup_printf("pointwise operation %d", (int)mode);
  add_operation(graph, operation, what);
}

void cudnn_pointwise(CudnnGraph *graph, cudnnPointwiseMode_t mode, cudnnDataType_t compute, CudnnTensor x,
                     CudnnTensor b, CudnnTensor t, CudnnTensor y) {
  add_pointwise(graph, mode, compute, NULL, x, b, t, y);
}

void cudnn_index(CudnnGraph *graph, gint64 axis, CudnnTensor x, CudnnTensor y) {
  add_pointwise(graph, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, &axis, x, NULL, NULL, y);
}

/* Sets the descriptor's GPU: the handle's, or the described one. */
static void set_where(CudnnGraph *graph, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t handle,
                      cudnnBackendAttributeName_t gpu) {
  if (graph->gpu != NULL)
    set_descriptor(graph, descriptor, gpu, graph->gpu);
  else
    set(graph, descriptor, handle, CUDNN_TYPE_HANDLE, 1, &graph->handle);
}

/* TRUE: graph->plan is ready. FALSE: this configuration does not work; the next may. */
static gboolean try_configuration(CudnnGraph *graph, cudnnBackendDescriptor_t configuration) {
  cudnnBackendDescriptor_t plan = create(graph, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set_where(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  set_descriptor(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  gint64 n = 0;
  if (!finalize(graph, plan, "plan") ||
      !check(graph,
             graph->library->BackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                                 &n, &graph->workspace_bytes),
             "workspace size"))
    return FALSE;
  graph->plan = plan;
  return TRUE;
}

enum { N_CONFIGURATIONS = 8 };

/* Tries the engines that one heuristic proposes. FALSE: none accepts the graph; why_not has the last one's reason. */
static gboolean try_heuristic(CudnnGraph *graph, cudnnBackendDescriptor_t operations, cudnnBackendHeurMode_t mode) {
  cudnnBackendDescriptor_t heuristic = create(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set_descriptor(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations);
  set(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (graph->gpu != NULL)
    set_descriptor(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, graph->gpu);
  if (!finalize(graph, heuristic, "engine heuristic"))
    return FALSE;
  cudnnBackendDescriptor_t configurations[N_CONFIGURATIONS];
  for (int i = 0; i < N_CONFIGURATIONS; i++)
    configurations[i] = create(graph, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  gint64 n = 0;
  if (graph->why_not != NULL ||
      !check(graph,
             graph->library->BackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, N_CONFIGURATIONS, &n, configurations),
             "engine heuristic results"))
    return FALSE;
  for (gint64 i = 0; i < MIN(n, N_CONFIGURATIONS); i++) {
    g_clear_pointer(&graph->why_not, g_free);
    if (try_configuration(graph, configurations[i]))
      return TRUE;
  }
  if (graph->why_not == NULL)
    graph->why_not = g_strdup("no engine takes the shape");
  return FALSE;
}

gboolean cudnn_graph_plan(CudnnGraph *graph) {
  cudnnBackendDescriptor_t operations = create(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set(graph, operations, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph->operations->len,
      graph->operations->pdata);
  if (graph->gpu == NULL)
    set(graph, operations, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &graph->handle);
  if (!finalize(graph, operations, "operation graph"))
    return FALSE;
  if (try_heuristic(graph, operations, CUDNN_HEUR_MODE_A))
    return TRUE;
  char *why_not = g_steal_pointer(&graph->why_not); /* more informative than the fallback's */
  const gboolean ok = try_heuristic(graph, operations, CUDNN_HEUR_MODE_FALLBACK);
  if (!ok) {
    g_free(graph->why_not);
    graph->why_not = g_steal_pointer(&why_not);
  }
  g_free(why_not);
  return ok;
}

gboolean cudnn_graph_execute(CudnnGraph *graph, void *const *of_id, void *workspace) {
  const guint n_kept = graph->descriptors->len, n = graph->ids->len;
  g_autofree void **memory = g_new(void *, n);
  for (guint i = 0; i < n; i++)
    memory[i] = of_id[g_array_index(graph->ids, gint64, i)];
  cudnnBackendDescriptor_t pack = create(graph, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(graph, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, graph->ids->data);
  set(graph, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, memory);
  set(graph, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  const gboolean ok = finalize(graph, pack, "variant pack") &&
                      check(graph, graph->library->BackendExecute(graph->handle, graph->plan, pack), "execution");
  if (graph->descriptors->len > n_kept) {
    (void)graph->library->BackendDestroyDescriptor(pack);
    g_ptr_array_set_size(graph->descriptors, (gint)n_kept);
  }
  return ok;
}
