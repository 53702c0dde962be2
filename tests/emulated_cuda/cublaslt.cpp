/* The part of cuBLASLt that real/ calls, through OpenBLAS: D = alpha·op(A)·op(B) + beta·C (+ bias of a row), all
 * matrices column-major, sums in fp32. Checks what its documentation demands: type pairs, leading dimensions,
 * alignments as promised in the preferences, device memory. Reference: cuBLAS 13 documentation, cublasLtMatmul. */
#include "emulated.h"

#include <cblas.h>
#include <cublasLt.h>
#include <glib.h>

#include <string>
#include <vector>

extern "C" {
#include "cuda_call.h"
#include "cuda_cublas.h"
}

namespace {

struct Description {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t transa = CUBLAS_OP_N, transb = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void *bias = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;
};

struct Layout {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t ld, stride = 0;
  int32_t batch = 1;
};

struct Preference {
  uint64_t workspace_bytes = 0;
  uint32_t a = 256, b = 256, c = 256, d = 256; /* least alignments */
};

/* What the heuristic notes of a product in the algorithm it gives out. */
struct Choice {
  uint64_t workspace_bytes;
  uint32_t a, b, c, d;
};
static_assert(sizeof(Choice) <= sizeof(cublasLtMatmulAlgo_t), "a choice fits an algorithm");

size_t bytes_of(cudaDataType_t type) {
  return type == CUDA_R_32F ? 4 : 2;
}

float read(const void *from, cudaDataType_t type, size_t i) {
  return type == CUDA_R_32F    ? ((const float *)from)[i]
         : type == CUDA_R_16BF ? __bfloat162float(((const __nv_bfloat16 *)from)[i])
                               : __half2float(((const __half *)from)[i]);
}

void write(void *to, cudaDataType_t type, size_t i, float value) {
  if (type == CUDA_R_32F)
    ((float *)to)[i] = value;
  else if (type == CUDA_R_16BF)
    ((__nv_bfloat16 *)to)[i] = __float2bfloat16_rn(value);
  else
    ((__half *)to)[i] = __float2half_rn(value);
}

size_t elements(const Layout &l) {
  return (size_t)(l.columns - 1) * (size_t)l.ld + l.rows;
}

size_t span_bytes(const Layout &l) {
  return bytes_of(l.type) * (elements(l) + (size_t)(l.batch - 1) * (size_t)l.stride);
}

bool is_well_formed(const Layout &l) {
  return l.rows > 0 && l.columns > 0 && l.ld >= (int64_t)l.rows && l.batch > 0;
}

cublasStatus_t check(const Description &o, const Layout &a, const Layout &b, const Layout &c, const Layout &d) {
  const bool is_ta = o.transa == CUBLAS_OP_T, is_tb = o.transb == CUBLAS_OP_T;
  const uint64_t m = is_ta ? a.columns : a.rows, ka = is_ta ? a.rows : a.columns;
  const uint64_t kb = is_tb ? b.columns : b.rows, n = is_tb ? b.rows : b.columns;
  if (!is_well_formed(a) || !is_well_formed(b) || !is_well_formed(c) || !is_well_formed(d))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (ka != kb || c.rows != m || c.columns != n || d.rows != m || d.columns != n)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (a.batch != b.batch || a.batch != c.batch || a.batch != d.batch)
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool is_supported = o.compute == CUBLAS_COMPUTE_32F && o.scale == CUDA_R_32F && a.type == b.type &&
                            c.type == d.type && (c.type == a.type || c.type == CUDA_R_32F);
  const bool is_bias_supported = o.epilogue == CUBLASLT_EPILOGUE_DEFAULT || (o.bias_type == d.type && c.type == a.type);
  return is_supported && is_bias_supported ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

struct Operands {
  Description operation;
  Layout a, b, c, d;
  const void *pa, *pb, *pc;
  void *pd;
  float alpha, beta;
};

std::vector<float> as_floats(const void *from, const Layout &l, size_t batch) {
  std::vector<float> to(elements(l));
  for (size_t i = 0; i < to.size(); i++)
    to[i] = read(from, l.type, batch * (size_t)l.stride + i);
  return to;
}

void multiply(const Operands &o, size_t batch) {
  const size_t m = o.d.rows, n = o.d.columns;
  const bool is_ta = o.operation.transa == CUBLAS_OP_T, is_tb = o.operation.transb == CUBLAS_OP_T;
  const std::vector<float> a = as_floats(o.pa, o.a, batch), b = as_floats(o.pb, o.b, batch);
  std::vector<float> d(m * n);
  cblas_sgemm(CblasColMajor, is_ta ? CblasTrans : CblasNoTrans, is_tb ? CblasTrans : CblasNoTrans, (int)m, (int)n,
              (int)(is_ta ? o.a.rows : o.a.columns), o.alpha, a.data(), (int)o.a.ld, b.data(), (int)o.b.ld, 0.0f,
              d.data(), (int)m);
  for (size_t j = 0; j < n; j++)
    for (size_t i = 0; i < m; i++) {
      float value = d[j * m + i];
      if (o.beta != 0.0f) /* else C is not read: it may hold anything */
        value += o.beta * read(o.pc, o.c.type, batch * (size_t)o.c.stride + j * (size_t)o.c.ld + i);
      if (o.operation.epilogue == CUBLASLT_EPILOGUE_BIAS)
        value += read(o.operation.bias, o.operation.bias_type, i);
      write(o.pd, o.d.type, batch * (size_t)o.d.stride + j * (size_t)o.d.ld + i, value);
    }
}

void check_aligned(const void *pointer, uint32_t bytes) {
  if ((uintptr_t)pointer % bytes != 0)
    emulated_fail("cublasLtMatmul: an operand is aligned less than the preferences said");
}

template <typename V> cublasStatus_t set(V *to, const void *value, size_t bytes) {
  if (bytes != sizeof *to)
    return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

} // namespace

extern "C" {

const char *cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED   ? "CUBLAS_STATUS_NOT_SUPPORTED"
         : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                                 : "CUBLAS_STATUS_SUCCESS";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  *handle = (cublasLtHandle_t) new char;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete (char *)handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  auto *made = new Description;
  made->compute = compute;
  made->scale = scale;
  *description = (cublasLtMatmulDesc_t)made;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete (Description *)description;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void *value,
                                              size_t bytes) {
  auto *d = (Description *)description;
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return set(&d->transa, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return set(&d->transb, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return set(&d->epilogue, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return set(&d->bias, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    return set(&d->bias_type, value, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  auto *made = new Layout;
  made->type = type;
  made->rows = rows;
  made->columns = columns;
  made->ld = ld;
  *layout = (cublasLtMatrixLayout_t)made;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete (Layout *)layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes) {
  auto *l = (Layout *)layout;
  switch (attribute) {
  case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
    return set(&l->batch, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
    return set(&l->stride, value, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  *preference = (cublasLtMatmulPreference_t) new Preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete (Preference *)preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes) {
  auto *p = (Preference *)preference;
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: /* others let split products have so much on Hopper: PyTorch, llm.c */
    if (bytes != 8 || *(const uint64_t *)value != (uint64_t)32 << 20)
      emulated_fail("cublasLt: another workspace than frameworks give, for which it may choose other kernels");
    return set(&p->workspace_bytes, value, bytes);
  case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    return bytes == 4 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    return set(&p->a, value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    return set(&p->b, value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    return set(&p->c, value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return set(&p->d, value, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int n,
                                              cublasLtMatmulHeuristicResult_t results[], int *n_found) {
  emulated_load("a product"); /* kernels may be loaded */
  emulated_await_all_streams("cublasLtMatmulAlgoGetHeuristic");
  const cublasStatus_t status =
      check(*(Description *)description, *(Layout *)a, *(Layout *)b, *(Layout *)c, *(Layout *)d);
  *n_found = 0;
  if (status != CUBLAS_STATUS_SUCCESS || n < 1)
    return status;
  const auto *p = (Preference *)preference;
  const Choice choice = {p->workspace_bytes, p->a, p->b, p->c, p->d};
  results[0] = {};
  memcpy(&results[0].algo, &choice, sizeof choice);
  results[0].workspaceSize = p->workspace_bytes;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *n_found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t layout_a, const void *b,
                              cublasLtMatrixLayout_t layout_b, const void *beta, const void *c,
                              cublasLtMatrixLayout_t layout_c, void *d, cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  Operands o = {*(Description *)description,
                *(Layout *)layout_a,
                *(Layout *)layout_b,
                *(Layout *)layout_c,
                *(Layout *)layout_d,
                a,
                b,
                c,
                d,
                *(const float *)alpha,
                *(const float *)beta};
  const cublasStatus_t status = check(o.operation, o.a, o.b, o.c, o.d);
  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  Choice choice;
  memcpy(&choice, algorithm, sizeof choice);
  check_aligned(a, choice.a);
  check_aligned(b, choice.b);
  check_aligned(c, choice.c);
  check_aligned(d, choice.d);
  if (workspace_bytes < choice.workspace_bytes)
    return CUBLAS_STATUS_INVALID_VALUE;
  emulated_check_memory(workspace, workspace_bytes, false, "cublasLtMatmul's workspace");
  emulated_check_memory(a, span_bytes(o.a), false, "cublasLtMatmul's A");
  emulated_check_memory(b, span_bytes(o.b), false, "cublasLtMatmul's B");
  emulated_check_memory(d, span_bytes(o.d), false, "cublasLtMatmul's D");
  if (o.operation.epilogue == CUBLASLT_EPILOGUE_BIAS && (uintptr_t)o.operation.bias % 16 != 0)
    emulated_fail("cublasLtMatmul: an epilogue reads its bias 16 bytes at a time");
  if (o.operation.epilogue == CUBLASLT_EPILOGUE_BIAS)
    emulated_check_memory(o.operation.bias, bytes_of(o.d.type) * o.d.rows, false, "cublasLtMatmul's bias");
  emulated_put(stream, [=] {
    for (size_t i = 0; i < (size_t)o.d.batch; i++)
      multiply(o, i);
  });
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- in place of cuda_cublas.c, which loads the library ---- */

gboolean cublas_library_load(CublasLibrary *library, GError **error) {
  library->handle = nullptr;
#define CUBLAS_FIND(name) library->name = cublasLt##name;
  CUBLAS_FUNCTIONS(CUBLAS_FIND)
#undef CUBLAS_FIND
  return TRUE;
}

void cublas_library_unload(CublasLibrary *library) {
  *library = {};
}

gboolean cublas_call_check(const CublasLibrary *library, cublasStatus_t status, const char *call, const char *file,
                           int line, GError **error) {
  return status == CUBLAS_STATUS_SUCCESS || cuda_call_fail(error, library->GetStatusString(status), call, file, line);
}
}
