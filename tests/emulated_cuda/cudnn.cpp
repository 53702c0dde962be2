/* The part of cuDNN's backend API that real/ calls: graphs of operations, computed one after another in fp32 on whole
 * tensors, as their descriptors say. Checks that memory is the device's and aligned as promised, that every tensor with
 * an id has memory, that operations fit their tensors' sizes, and that the statistics of rows have no gaps. Reference:
 * cuDNN 9 documentation, "Graph API". */
#include "emulated.h"

extern "C" {
#include "cuda_cudnn_graph.h"
}

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

using Sizes = std::array<int64_t, 4>;

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  std::map<cudnnBackendAttributeName_t, std::vector<char>> attributes;

  /* What was set; fails if it was not. */
  template <typename T> std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end())
      emulated_fail("cuDNN: an attribute that is needed is not set");
    std::vector<T> values(found->second.size() / sizeof(T));
    memcpy(values.data(), found->second.data(), found->second.size());
    return values;
  }
  template <typename T> T one(cudnnBackendAttributeName_t name) const {
    return all<T>(name).at(0);
  }
  template <typename T> T one_or(cudnnBackendAttributeName_t name, T otherwise) const {
    return attributes.count(name) == 0 ? otherwise : one<T>(name);
  }
  const Descriptor *descriptor(cudnnBackendAttributeName_t name) const {
    return (const Descriptor *)one<void *>(name);
  }
  const Descriptor *descriptor_or_none(cudnnBackendAttributeName_t name) const {
    return attributes.count(name) == 0 ? nullptr : descriptor(name);
  }
};

size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
  case CUDNN_TYPE_BOOLEAN:
  case CUDNN_TYPE_CHAR:
    return 1;
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    return 8;
  default: /* enumerations */
    return 4;
  }
}

/* ---- tensors ---- */

struct Tensor {
  Sizes sizes, strides;
  cudnnDataType_t type;
  int64_t id;
  bool is_virtual, is_by_value;
  char *memory = nullptr;    /* on the device */
  std::vector<float> values; /* of a virtual one, or a scalar; dense */

  explicit Tensor(const Descriptor &d)
      : type(d.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)), id(d.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)),
        is_virtual(d.one_or<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0),
        is_by_value(d.one_or<char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE, 0) != 0) {
    const auto n = d.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS), steps = d.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
    for (size_t i = 0; i < 4; i++)
      sizes[i] = n.at(i), strides[i] = steps.at(i);
    values.resize(is_virtual ? (size_t)(sizes[0] * sizes[1] * sizes[2] * sizes[3]) : 0);
    if (!is_virtual && !is_by_value && sizes[3] == 1 && sizes[2] > 1 &&
        strides != Sizes{sizes[1] * sizes[2], sizes[2], 1, 1})
      emulated_fail("cuDNN: statistics of rows with gaps");
  }

  size_t element_bytes() const {
    return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_INT32 ? 4 : 2;
  }
  size_t dense(const Sizes &at) const {
    return (size_t)(((at[0] * sizes[1] + at[1]) * sizes[2] + at[2]) * sizes[3] + at[3]);
  }
  size_t place(const Sizes &at) const {
    return (size_t)(at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3]);
  }
  size_t span_bytes() const {
    return (place({sizes[0] - 1, sizes[1] - 1, sizes[2] - 1, sizes[3] - 1}) + 1) * element_bytes();
  }

  float rounded(float value) const {
    return type == CUDNN_DATA_BFLOAT16 ? __bfloat162float(__float2bfloat16_rn(value))
           : type == CUDNN_DATA_HALF   ? __half2float(__float2half_rn(value))
                                       : value;
  }
  float get(const Sizes &at) const {
    if (is_virtual || is_by_value)
      return values[is_by_value ? 0 : dense(at)];
    const char *from = memory + place(at) * element_bytes();
    return type == CUDNN_DATA_FLOAT      ? *(const float *)from
           : type == CUDNN_DATA_BFLOAT16 ? __bfloat162float(*(const __nv_bfloat16 *)from)
                                         : __half2float(*(const __half *)from);
  }
  /* A size that divides the other's is repeated: a scalar, a row's number, a head that several share. */
  float get_repeated(Sizes at, const Sizes &of) const {
    for (size_t i = 0; i < 4; i++) {
      if (of[i] % sizes[i] != 0)
        emulated_fail("cuDNN: an operand's sizes do not fit the result's");
      at[i] = at[i] / (of[i] / sizes[i]);
    }
    return get(at);
  }
  void set(const Sizes &at, float value) {
    if (is_virtual)
      values[dense(at)] = rounded(value);
    else if (type == CUDNN_DATA_FLOAT)
      *(float *)(memory + place(at) * 4) = value;
    else if (type == CUDNN_DATA_BFLOAT16)
      *(__nv_bfloat16 *)(memory + place(at) * 2) = __float2bfloat16_rn(value);
    else
      *(__half *)(memory + place(at) * 2) = __float2half_rn(value);
  }
};

template <typename Work> void for_all(const Sizes &sizes, Work work) {
  Sizes at;
  for (at[0] = 0; at[0] < sizes[0]; at[0]++)
    for (at[1] = 0; at[1] < sizes[1]; at[1]++)
      for (at[2] = 0; at[2] < sizes[2]; at[2]++)
        for (at[3] = 0; at[3] < sizes[3]; at[3]++)
          work(at);
}

/* ---- operations ---- */

enum Kind { POINTWISE, MATMUL, REDUCTION, RESHAPE };

struct Operation {
  Kind kind;
  int mode = 0;     /* of a pointwise operation or a reduction */
  int64_t axis = 0; /* of an index */
  Tensor *x, *b = nullptr, *t = nullptr, *y;
};

float of_pointwise(const Operation &o, const Sizes &at) {
  const Sizes &sizes = o.y->sizes;
  if (o.mode == CUDNN_POINTWISE_GEN_INDEX)
    return (float)at[(size_t)o.axis];
  const float x = o.x->get_repeated(at, sizes), b = o.b == nullptr ? 0 : o.b->get_repeated(at, sizes);
  switch (o.mode) {
  case CUDNN_POINTWISE_ADD:
    return x + b;
  case CUDNN_POINTWISE_SUB:
    return x - b;
  case CUDNN_POINTWISE_MUL:
    return x * b;
  case CUDNN_POINTWISE_DIV:
    return x / b;
  case CUDNN_POINTWISE_EXP:
    return expf(x);
  case CUDNN_POINTWISE_LOG:
    return logf(x);
  case CUDNN_POINTWISE_IDENTITY:
    return x;
  case CUDNN_POINTWISE_CMP_GE:
    return x >= b;
  case CUDNN_POINTWISE_CMP_GT:
    return x > b;
  case CUDNN_POINTWISE_BINARY_SELECT:
    return o.t->get_repeated(at, sizes) != 0 ? x : b;
  default:
    emulated_fail("cuDNN: a pointwise operation that is not emulated");
  }
}

std::vector<float> dense_values(const Tensor &tensor, const Sizes &sizes) {
  std::vector<float> values;
  values.reserve((size_t)(sizes[0] * sizes[1] * sizes[2] * sizes[3]));
  for_all(sizes, [&](const Sizes &at) { values.push_back(tensor.get_repeated(at, sizes)); });
  return values;
}

void matmul(const Operation &o) {
  const size_t n = (size_t)o.x->sizes[3], columns = (size_t)o.y->sizes[3];
  if (o.b->sizes[2] != (int64_t)n || o.x->sizes[2] != o.y->sizes[2] || o.b->sizes[3] != o.y->sizes[3])
    emulated_fail("cuDNN: a product's sizes do not fit");
  Sizes of_x = o.y->sizes, of_b = o.y->sizes;
  of_x[3] = of_b[2] = (int64_t)n;
  const std::vector<float> x = dense_values(*o.x, of_x), b = dense_values(*o.b, of_b);
  std::vector<float> row(columns);
  for_all({of_x[0], of_x[1], of_x[2], 1}, [&](Sizes at) {
    const size_t matrix = (size_t)(at[0] * of_x[1] + at[1]);
    const float *left = &x[(matrix * (size_t)of_x[2] + (size_t)at[2]) * n], *right = &b[matrix * n * columns];
    row.assign(columns, 0);
    for (size_t k = 0; k < n; k++)
      for (size_t j = 0; j < columns; j++)
        row[j] += left[k] * right[k * columns + j];
    for (at[3] = 0; at[3] < (int64_t)columns; at[3]++)
      o.y->set(at, row[(size_t)at[3]]);
  });
}

void reduction(const Operation &o) {
  std::vector<float> results((size_t)(o.y->sizes[0] * o.y->sizes[1] * o.y->sizes[2] * o.y->sizes[3]),
                             o.mode == CUDNN_REDUCE_TENSOR_MAX ? -INFINITY : 0.0f);
  for_all(o.x->sizes, [&](Sizes at) {
    const float value = o.x->get(at);
    for (size_t i = 0; i < 4; i++)
      at[i] = at[i] / (o.x->sizes[i] / o.y->sizes[i]);
    float &result = results[o.y->dense(at)];
    result = o.mode == CUDNN_REDUCE_TENSOR_MAX ? std::max(result, value) : result + value;
  });
  for_all(o.y->sizes, [&](const Sizes &at) { o.y->set(at, results[o.y->dense(at)]); });
}

void run(const Operation &o) {
  switch (o.kind) {
  case MATMUL:
    matmul(o);
    return;
  case REDUCTION:
    reduction(o);
    return;
  case RESHAPE: /* rows become columns */
    if (o.x->sizes[2] != o.y->sizes[3] || o.x->sizes[3] != o.y->sizes[2] || o.x->strides[2] != o.y->strides[3])
      emulated_fail("cuDNN: a change of shape that is not emulated");
    for_all(o.y->sizes, [&](const Sizes &at) { o.y->set(at, o.x->get({at[0], at[1], at[3], at[2]})); });
    return;
  case POINTWISE:
    for_all(o.y->sizes, [&](const Sizes &at) { o.y->set(at, of_pointwise(o, at)); });
  }
}

struct Run {
  std::map<const Descriptor *, Tensor> tensors;
  std::vector<Operation> operations;

  Tensor *tensor(const Descriptor *d) {
    return d == nullptr ? nullptr : &tensors.try_emplace(d, *d).first->second;
  }

  void add(const Descriptor &d) {
    Operation o{};
    switch (d.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
      const Descriptor *kind = d.descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      o.kind = POINTWISE;
      o.mode = kind->one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
      o.axis = kind->one_or<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, 0);
      o.x = tensor(d.descriptor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
      o.b = tensor(d.descriptor_or_none(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
      o.t = tensor(d.descriptor_or_none(CUDNN_ATTR_OPERATION_POINTWISE_TDESC));
      o.y = tensor(d.descriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
      break;
    }
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      o.kind = MATMUL;
      o.x = tensor(d.descriptor(CUDNN_ATTR_OPERATION_MATMUL_ADESC));
      o.b = tensor(d.descriptor(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
      o.y = tensor(d.descriptor(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
      break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      o.kind = REDUCTION;
      o.mode =
          d.descriptor(CUDNN_ATTR_OPERATION_REDUCTION_DESC)->one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
      o.x = tensor(d.descriptor(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
      o.y = tensor(d.descriptor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
      break;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      o.kind = RESHAPE;
      o.x = tensor(d.descriptor(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
      o.y = tensor(d.descriptor(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
      break;
    default:
      emulated_fail("cuDNN: an operation that is not emulated");
    }
    operations.push_back(o);
  }

  /* Scalars are read now, device memory when the stream gets there. */
  void place(const std::map<int64_t, char *> &memory) {
    for (auto &[descriptor, tensor] : tensors) {
      if (tensor.is_virtual)
        continue;
      const auto found = memory.find(tensor.id);
      if (found == memory.end() || found->second == nullptr)
        emulated_fail("cuDNN: a tensor has no memory");
      tensor.memory = found->second;
      if (tensor.is_by_value) {
        tensor.values = {tensor.type == CUDNN_DATA_INT32 ? (float)*(const int32_t *)(const void *)found->second
                                                         : *(const float *)(const void *)found->second};
        continue;
      }
      emulated_check_memory(found->second, tensor.span_bytes(), false, "cuDNN");
      if ((uintptr_t)found->second % (size_t)descriptor->one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) != 0)
        emulated_fail("cuDNN: memory is not aligned as promised");
    }
  }
};

Descriptor *of(cudnnBackendDescriptor_t descriptor) {
  return (Descriptor *)descriptor;
}

cudnnStatus_t create_descriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor) {
  *descriptor = new Descriptor{type, {}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t destroy_descriptor(cudnnBackendDescriptor_t descriptor) {
  delete of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set_attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t type, int64_t n, const void *values) {
  of(descriptor)->attributes[name] =
      std::vector<char>((const char *)values, (const char *)values + (size_t)n * bytes_of(type));
  return CUDNN_STATUS_SUCCESS;
}

/* One configuration, which takes every graph. */
cudnnStatus_t get_attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t type, int64_t n, int64_t *n_found, void *values) {
  *n_found = 1;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
    *(int64_t *)values = 512;
  else if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS)
    of(*(cudnnBackendDescriptor_t *)values)->attributes = of(descriptor)->attributes;
  else
    return CUDNN_STATUS_BAD_PARAM;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize(cudnnBackendDescriptor_t descriptor) {
  if (of(descriptor)->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
    emulated_load("attention"); /* it is compiled and loaded */
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const auto ids = of(pack)->all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = of(pack)->all<char *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  emulated_check_memory(of(pack)->one<char *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE), 512, false, "cuDNN's workspace");
  std::map<int64_t, char *> memory;
  for (size_t i = 0; i < ids.size(); i++)
    memory[ids[i]] = pointers.at(i);
  const Descriptor *graph =
      of(plan)->descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  auto *all = new Run;
  for (void *operation : graph->all<void *>(CUDNN_ATTR_OPERATIONGRAPH_OPS))
    all->add(*(const Descriptor *)operation);
  all->place(memory);
  emulated_put(handle->stream, [all] {
    for (const Operation &operation : all->operations)
      run(operation);
    delete all;
  });
  return CUDNN_STATUS_SUCCESS;
}

} // namespace

extern "C" {
gboolean cudnn_library_load(CudnnLibrary *library, char **why_not) {
  *library = CudnnLibrary{};
  library->GetVersion = []() -> size_t { return CUDNN_VERSION; };
  library->Create = [](cudnnHandle_t *handle) {
    *handle = new cudnnContext;
    return CUDNN_STATUS_SUCCESS;
  };
  library->Destroy = [](cudnnHandle_t handle) {
    delete handle;
    return CUDNN_STATUS_SUCCESS;
  };
  library->SetStream = [](cudnnHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
  };
  library->GetErrorString = [](cudnnStatus_t) { return "an error"; };
  library->GetLastErrorString = [](char *text, size_t n) { *text = '\0'; };
  library->BackendCreateDescriptor = create_descriptor;
  library->BackendDestroyDescriptor = destroy_descriptor;
  library->BackendSetAttribute = set_attribute;
  library->BackendGetAttribute = get_attribute;
  library->BackendFinalize = finalize;
  library->BackendExecute = execute;
  return TRUE;
}

void cudnn_library_unload(CudnnLibrary *library) {
}
}
