/* The part of cuBLASLt that real/ calls, through OpenBLAS: D = alpha·op(A)·op(B) + beta·C (+ bias of a row), all
 * matrices column-major, sums in fp32. Checks what its documentation demands: type pairs, leading dimensions,
 * alignments as promised in the preferences, device memory. Reference: cuBLAS 13 documentation, cublasLtMatmul; for fp8
 * also "Narrow Precision Data Types Usage", as of a GPU of compute capability 9.0. */
#include "emulated.h"

#include <cblas.h>
#include <cublasLt.h>
#include <cuda_fp8.h>
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
  int8_t is_fast = 0;
  const float *scales[2] = {}; /* of A and B */
  int32_t scale_modes[2] = {CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F};
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

bool is_fp8(cudaDataType_t type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

size_t bytes_of(cudaDataType_t type) {
  return is_fp8(type) ? 1 : type == CUDA_R_32F ? 4 : 2;
}

float read(const void *from, cudaDataType_t type, size_t i) {
  return is_fp8(type)          ? __half2float(__half(__nv_cvt_fp8_to_halfraw(((const __nv_fp8_storage_t *)from)[i],
                                                                    type == CUDA_R_8F_E4M3 ? __NV_E4M3 : __NV_E5M2)))
         : type == CUDA_R_32F  ? ((const float *)from)[i]
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

/* One row of an operand, with k in it: A and B transposed and not, as only these are multiplied in fp8. */
struct Lines {
  uint64_t n, k;
};

/* Inverse scales of an operand, and where that of an element is. */
size_t n_scales(int32_t mode, Lines lines) {
  const size_t blocks = (lines.k + 127) / 128;
  return mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F   ? 1
         : mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F ? blocks * lines.n
                                                           : (blocks + 3) / 4 * 4 * ((lines.n + 127) / 128);
}

size_t scale_at(int32_t mode, Lines lines, size_t line, size_t k) {
  const size_t blocks = (lines.k + 127) / 128;
  return mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F   ? 0
         : mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F ? k / 128 * lines.n + line
                                                           : line / 128 * ((blocks + 3) / 4 * 4) + k / 128;
}

/* What is multiplied in fp8: transposed A, B as it is; sizes and pointers of 16 bytes; types and scales that go
 * together. */
bool is_fp8_supported(const Description &o, const Layout &a, const Layout &b, const Layout &d) {
  const bool is_scalar = o.scale_modes[0] == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  const bool both_blocks = o.scale_modes[0] == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F &&
                           o.scale_modes[1] == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  return is_fp8(a.type) && is_fp8(b.type) && !(a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2) &&
         o.transa == CUBLAS_OP_T && o.transb == CUBLAS_OP_N && (d.type == CUDA_R_16BF || d.type == CUDA_R_32F) &&
         a.rows % 16 == 0 && a.ld % 16 == 0 && b.ld % 16 == 0 && d.rows % 16 == 0 &&
         d.ld * bytes_of(d.type) % 16 == 0 && o.scales[0] != nullptr && o.scales[1] != nullptr && !both_blocks &&
         is_scalar == (o.scale_modes[1] == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F) &&
         (is_scalar || (a.batch == 1 && a.columns % 4 == 0 && b.columns % 4 == 0 && !o.is_fast &&
                        (uintptr_t)o.scales[0] % 16 == 0 && (uintptr_t)o.scales[1] % 16 == 0));
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
  const bool in_fp8 = is_fp8(a.type) || is_fp8(b.type);
  const bool is_supported =
      o.compute == CUBLAS_COMPUTE_32F && o.scale == CUDA_R_32F && c.type == d.type &&
      (in_fp8 ? is_fp8_supported(o, a, b, d)
              : a.type == b.type && (c.type == a.type || c.type == CUDA_R_32F) && o.scales[0] == nullptr);
  const bool is_bias_supported = o.epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
                                 (in_fp8 ? o.bias_type == CUDA_R_16BF : o.bias_type == d.type && c.type == a.type);
  return is_supported && is_bias_supported ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

struct Operands {
  Description operation;
  Layout a, b, c, d;
  const void *pa, *pb, *pc;
  void *pd;
  float alpha, beta;
};

/* Operand 0 or 1, times its scales. */
std::vector<float> as_floats(const void *from, const Layout &l, size_t batch, const Description &operation,
                             int operand) {
  std::vector<float> to(elements(l));
  for (size_t i = 0; i < to.size(); i++) {
    to[i] = read(from, l.type, batch * (size_t)l.stride + i);
    if (is_fp8(l.type) && i % l.ld < l.rows)
      to[i] *=
          operation.scales[operand][scale_at(operation.scale_modes[operand], {l.columns, l.rows}, i / l.ld, i % l.ld)];
  }
  return to;
}

void multiply(const Operands &o, size_t batch) {
  const size_t m = o.d.rows, n = o.d.columns;
  const bool is_ta = o.operation.transa == CUBLAS_OP_T, is_tb = o.operation.transb == CUBLAS_OP_T;
  const std::vector<float> a = as_floats(o.pa, o.a, batch, o.operation, 0);
  const std::vector<float> b = as_floats(o.pb, o.b, batch, o.operation, 1);
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
  case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
    return set(&d->is_fast, value, bytes);
  case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
    return set(&d->scales[0], value, bytes);
  case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
    return set(&d->scales[1], value, bytes);
  case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
    return set(&d->scale_modes[0], value, bytes);
  case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
    return set(&d->scale_modes[1], value, bytes);
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
  for (int i = 0; i < 2 && is_fp8(o.a.type); i++)
    emulated_check_memory(
        o.operation.scales[i],
        4 * n_scales(o.operation.scale_modes[i], {i == 0 ? o.a.columns : o.b.columns, i == 0 ? o.a.rows : o.b.rows}),
        false, "cublasLtMatmul's scales");
  if (is_fp8(o.a.type) && ((uintptr_t)a % 16 != 0 || (uintptr_t)b % 16 != 0 || (uintptr_t)d % 16 != 0))
    emulated_fail("cublasLtMatmul: an operand of a product in fp8 is not at 16 bytes");
  if (o.operation.epilogue == CUBLASLT_EPILOGUE_BIAS && (uintptr_t)o.operation.bias % 16 != 0)
    emulated_fail("cublasLtMatmul: an epilogue reads its bias 16 bytes at a time");
  if (o.operation.epilogue == CUBLASLT_EPILOGUE_BIAS)
    emulated_check_memory(o.operation.bias, bytes_of(o.operation.bias_type) * o.d.rows, false, "cublasLtMatmul's bias");
  /* a PFLOP/s after 10 microseconds */
  const double flops = 2.0 * (double)o.d.rows * (double)o.d.columns * o.d.batch *
                       (double)(o.operation.transa == CUBLAS_OP_T ? o.a.rows : o.a.columns);
  emulated_put_kernel(stream, 10000 + (int64_t)(flops / 1e6), [=] {
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
