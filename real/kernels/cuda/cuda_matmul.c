/* cuBLASLt is column-major, we are row-major: a row-major matrix is the transpose of the same memory read
 * column-major, so C = A·B is computed as Cᵀ = Bᵀ·Aᵀ, (n×m) = (n×k)·(k×m), with our B first.
 *
 *             our B, first operand          our A, second operand
 *   TN        (k×n) in memory, transposed   (k×m) as it is             C = A·Bᵀ
 *   NN        (n×k) as it is                (k×m) as it is             C = A·B
 *   NT        (n×k) as it is                (m×k) in memory, transp.   C = Aᵀ·B
 *
 * fp32 products are computed in fp32, not TF32; bf16 and fp16 ones are summed in fp32, never in the output's format.
 * fp8 ones are TN, whose operands cuBLASLt multiplies by their scales; its A and B are our B and A here too. */
#include "cuda_matmul.h"

#include "cuda_call.h"
#include "cuda_cublas.h"
#include "cuda_kernels.h"

#include <string.h>

/* Workspace: as NVIDIA recommends for Hopper (cuBLAS 13 documentation, cublasSetWorkspace), and as PyTorch and llm.c
 * have it: with more, other kernels may be chosen, with another split of k. */
enum { WORKSPACE_BYTES = 32 << 20, MAX_ALIGNMENT_BYTES = 256, N_HEURISTICS = 8, N_SHAPE = 24 };
/* Epilogues read the bias 16 bytes at a time. No preference tells the heuristics that it is less aligned, and the
 * kernel then fails with a misaligned address. Source: Marian NMT, src/tensors/gpu/prod.cpp, found on A100. */
enum { BIAS_ALIGNMENT_BYTES = 16 };

/* Everything that the choice of an algorithm depends on. */
typedef struct {
  gint64 v[N_SHAPE];
} Shape;

typedef struct {
  Shape shape;
  const CublasLibrary *cublas;
  cublasLtMatmulDesc_t description;
  cublasLtMatrixLayout_t first, second, result; /* in cuBLASLt's column-major view */
  cublasLtMatmulAlgo_t algorithm;
  gboolean has_epilogue; /* the product adds the bias; otherwise a separate kernel does */
} Plan;

struct CudaMatmuls {
  CublasLibrary cublas;
  cublasLtHandle_t handle;
  void *workspace;
  int capability;    /* of the device: 90 for 9.0 */
  GHashTable *plans; /* Shape → Plan; the key is inside the Plan */
};

static guint shape_hash(gconstpointer data) {
  const Shape *shape = data;
  guint64 hash = G_GUINT64_CONSTANT(0xcbf29ce484222325); /* FNV-1a, a word at a time */
  for (int i = 0; i < N_SHAPE; i++)
    hash = (hash ^ (guint64)shape->v[i]) * G_GUINT64_CONSTANT(0x100000001b3);
  return (guint)(hash ^ (hash >> 32));
}

static gboolean shape_equal(gconstpointer a, gconstpointer b) {
  return memcmp(a, b, sizeof(Shape)) == 0;
}

static guint32 alignment_bytes(const void *pointer) {
  const guintptr address = (guintptr)pointer;
  const guintptr lowest = address & (~address + 1);
  return lowest == 0 || lowest > MAX_ALIGNMENT_BYTES ? MAX_ALIGNMENT_BYTES : (guint32)lowest;
}

static Shape shape_of(const MatmulKernel *k) {
  const gboolean is_batch = k->batch > 1, is_fp8 = k->number == NUMBER_FP8;
  return (Shape){{k->layout,
                  k->number,
                  k->result,
                  k->accumulate,
                  k->batch,
                  k->m,
                  k->n,
                  k->k,
                  k->lda,
                  k->ldb,
                  k->ldc,
                  is_batch ? k->stride_a : 0,
                  is_batch ? k->stride_b : 0,
                  is_batch ? k->stride_c : 0,
                  alignment_bytes(k->a),
                  alignment_bytes(k->b),
                  alignment_bytes(k->c),
                  k->bias != NULL,
                  alignment_bytes(k->bias),
                  is_fp8 ? k->fp8_a.format : 0,
                  is_fp8 ? k->fp8_b.format : 0,
                  is_fp8 ? k->fp8_a.scaling : 0,
                  is_fp8 ? k->fp8_b.scaling : 0,
                  is_fp8 ? k->is_fast : 0}};
}

static cudaDataType_t data_type(Number number) {
  g_assert(number == NUMBER_FP32 || number == NUMBER_BF16 || number == NUMBER_FP16);
  return number == NUMBER_FP32 ? CUDA_R_32F : number == NUMBER_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static cudaDataType_t operand_type(const MatmulKernel *k, const Fp8Operand *operand) {
  if (k->number != NUMBER_FP8)
    return data_type((Number)k->number);
  return operand->format == FP8_E4M3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

static void plan_free(gpointer data) {
  Plan *plan = data;
  if (plan == NULL)
    return;
  if (plan->description != NULL)
    (void)plan->cublas->MatmulDescDestroy(plan->description);
  cublasLtMatrixLayout_t layouts[] = {plan->first, plan->second, plan->result};
  for (gsize i = 0; i < G_N_ELEMENTS(layouts); i++)
    if (layouts[i] != NULL)
      (void)plan->cublas->MatrixLayoutDestroy(layouts[i]);
  g_free(plan);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Plan, plan_free)

static gboolean find_capability(CudaMatmuls *matmuls, GError **error) {
  int device = 0, major = 0, minor = 0;
  if (!CUDA_CALL(cudaGetDevice(&device), error) ||
      !CUDA_CALL(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), error) ||
      !CUDA_CALL(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), error))
    return FALSE;
  matmuls->capability = 10 * major + minor;
  return TRUE;
}

CudaMatmuls *cuda_matmuls_new(GError **error) {
  CudaMatmuls *matmuls = g_new0(CudaMatmuls, 1);
  matmuls->plans = g_hash_table_new_full(shape_hash, shape_equal, NULL, plan_free);
  if (cublas_library_load(&matmuls->cublas, error) && CUBLAS_CALL(&matmuls->cublas, Create(&matmuls->handle), error) &&
      CUDA_CALL(cudaMalloc(&matmuls->workspace, WORKSPACE_BYTES), error) && find_capability(matmuls, error))
    return matmuls;
  cuda_matmuls_free(matmuls);
  return NULL;
}

void cuda_matmuls_free(CudaMatmuls *matmuls) {
  if (matmuls == NULL)
    return;
  g_hash_table_unref(matmuls->plans);
  cudaFree(matmuls->workspace);
  if (matmuls->handle != NULL)
    (void)matmuls->cublas.Destroy(matmuls->handle);
  cublas_library_unload(&matmuls->cublas);
  g_free(matmuls);
}

static cublasLtMatmulMatrixScale_t scale_mode(const Fp8Operand *operand) {
  static const cublasLtMatmulMatrixScale_t modes[] = {[FP8_TENSOR] = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
                                                      [FP8_ROWS] = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
                                                      [FP8_BLOCKS] = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F};
  return modes[operand->scaling];
}

/* Sets an attribute of the plan's description to what `value`, a variable, holds. */
#define DESCRIBE(plan, attribute, value, error)                                                                        \
  CUBLAS_CALL((plan)->cublas,                                                                                          \
              MatmulDescSetAttribute((plan)->description, CUBLASLT_MATMUL_DESC_##attribute, &(value), sizeof(value)),  \
              error)

/* Where the scales of both operands are. */
static gboolean set_scales(const Plan *plan, const MatmulKernel *k, GError **error) {
  return DESCRIBE(plan, A_SCALE_POINTER, k->fp8_b.scales, error) &&
         DESCRIBE(plan, B_SCALE_POINTER, k->fp8_a.scales, error);
}

static gboolean describe_fp8(const Plan *plan, const MatmulKernel *k, GError **error) {
  const gint8 is_fast = k->is_fast != 0;
  const cublasLtMatmulMatrixScale_t first = scale_mode(&k->fp8_b), second = scale_mode(&k->fp8_a);
  return DESCRIBE(plan, FAST_ACCUM, is_fast, error) && DESCRIBE(plan, A_SCALE_MODE, first, error) &&
         DESCRIBE(plan, B_SCALE_MODE, second, error) && set_scales(plan, k, error);
}

static gboolean describe_operation(Plan *plan, const MatmulKernel *k, GError **error) {
  const cublasOperation_t first = k->layout == LAYOUT_TN ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = k->layout == LAYOUT_NT ? CUBLAS_OP_T : CUBLAS_OP_N;
  if (!CUBLAS_CALL(plan->cublas, MatmulDescCreate(&plan->description, CUBLAS_COMPUTE_32F, CUDA_R_32F), error) ||
      !DESCRIBE(plan, TRANSA, first, error) || !DESCRIBE(plan, TRANSB, second, error))
    return FALSE;
  if (k->number == NUMBER_FP8 && !describe_fp8(plan, k, error))
    return FALSE;
  if (!plan->has_epilogue)
    return TRUE;
  const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  const gint32 bias_type = data_type(matmul_bias_number(k));
  return DESCRIBE(plan, EPILOGUE, epilogue, error) && DESCRIBE(plan, BIAS_DATA_TYPE, bias_type, error) &&
         DESCRIBE(plan, BIAS_POINTER, k->bias, error);
}

static gboolean describe_matrix(const CublasLibrary *cublas, cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                gint64 rows, gint64 columns, gint64 ld, gint64 batch, gint64 stride, GError **error) {
  if (!CUBLAS_CALL(cublas, MatrixLayoutCreate(layout, type, (guint64)rows, (guint64)columns, ld), error))
    return FALSE;
  if (batch <= 1)
    return TRUE;
  const gint32 count = (gint32)batch;
  return CUBLAS_CALL(cublas,
                     MatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
                     error) &&
         CUBLAS_CALL(
             cublas,
             MatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
             error);
}

static gboolean describe_matrices(Plan *plan, const MatmulKernel *k, GError **error) {
  const gboolean is_tn = k->layout == LAYOUT_TN, is_nt = k->layout == LAYOUT_NT;
  return describe_matrix(plan->cublas, &plan->first, operand_type(k, &k->fp8_b), is_tn ? k->k : k->n,
                         is_tn ? k->n : k->k, k->ldb, k->batch, k->stride_b, error) &&
         describe_matrix(plan->cublas, &plan->second, operand_type(k, &k->fp8_a), is_nt ? k->m : k->k,
                         is_nt ? k->k : k->m, k->lda, k->batch, k->stride_a, error) &&
         describe_matrix(plan->cublas, &plan->result, data_type(k->result), k->n, k->m, k->ldc, k->batch, k->stride_c,
                         error);
}

/* Algorithms may assume 256-byte aligned operands unless told otherwise. */
static gboolean set_preferences(const CublasLibrary *cublas, cublasLtMatmulPreference_t preference,
                                const MatmulKernel *k, GError **error) {
  const guint64 workspace = WORKSPACE_BYTES;
  const guint32 first = alignment_bytes(k->b), second = alignment_bytes(k->a), result = alignment_bytes(k->c);
  /* "in place" accumulates the parts of a split k in the result's format */
  const guint32 reductions = k->result == NUMBER_FP32
                                 ? CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                 : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  const struct {
    cublasLtMatmulPreferenceAttributes_t attribute;
    const void *value;
    gsize bytes;
  } all[] = {
      {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
      {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &first, sizeof first},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &second, sizeof second},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &result, sizeof result},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &result, sizeof result},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(all); i++)
    if (!CUBLAS_CALL(cublas, MatmulPreferenceSetAttribute(preference, all[i].attribute, all[i].value, all[i].bytes),
                     error))
      return FALSE;
  return TRUE;
}

/* FALSE with the error, also if no algorithm fits the shape. */
static gboolean choose_algorithm(CudaMatmuls *matmuls, Plan *plan, const MatmulKernel *k, GError **error) {
  const CublasLibrary *cublas = &matmuls->cublas;
  cublasLtMatmulPreference_t preference = NULL;
  if (!CUBLAS_CALL(cublas, MatmulPreferenceCreate(&preference), error))
    return FALSE;
  cublasLtMatmulHeuristicResult_t results[N_HEURISTICS];
  int n = 0;
  gboolean ok = set_preferences(cublas, preference, k, error) &&
                CUBLAS_CALL(cublas,
                            MatmulAlgoGetHeuristic(matmuls->handle, plan->description, plan->first, plan->second,
                                                   plan->result, plan->result, preference, N_HEURISTICS, results, &n),
                            error);
  (void)cublas->MatmulPreferenceDestroy(preference);
  for (int i = 0; ok && i < n; i++)
    if (results[i].state == CUBLAS_STATUS_SUCCESS) {
      plan->algorithm = results[i].algo;
      return TRUE;
    }
  return ok ? fail_impossible(error, "cuBLASLt knows no algorithm for this product") : FALSE;
}

static Plan *plan_new(CudaMatmuls *matmuls, const MatmulKernel *k, gboolean has_epilogue, GError **error) {
  g_autoptr(Plan) plan = g_new0(Plan, 1);
  plan->shape = shape_of(k);
  plan->cublas = &matmuls->cublas;
  plan->has_epilogue = has_epilogue;
  if (!describe_operation(plan, k, error) || !describe_matrices(plan, k, error) ||
      !choose_algorithm(matmuls, plan, k, error))
    return NULL;
  return g_steal_pointer(&plan);
}

static Plan *find_plan(CudaMatmuls *matmuls, const MatmulKernel *k, GError **error) {
  const Shape shape = shape_of(k);
  Plan *plan = g_hash_table_lookup(matmuls->plans, &shape);
  if (plan != NULL)
    return plan;
  /* the epilogue needs a bias in the result's format, and does not support every shape */
  if (k->bias != NULL && matmul_bias_number(k) == k->result && alignment_bytes(k->bias) >= BIAS_ALIGNMENT_BYTES)
    plan = plan_new(matmuls, k, TRUE, NULL);
  if (plan == NULL)
    plan = plan_new(matmuls, k, FALSE, error);
  if (plan != NULL)
    g_hash_table_insert(matmuls->plans, &plan->shape, plan);
  return plan;
}

static gboolean add_bias(const MatmulKernel *k, cudaStream_t stream, GError **error) {
  for (gint64 i = 0; i < k->batch; i++) {
    char *matrix = (char *)k->c + i * (k->batch > 1 ? k->stride_c : 0) * kernel_element_bytes(k->result);
    if (!CUDA_CALL(cuda_add_bias(matmul_bias_number(k), k->result, matrix, k->bias, k->m, k->n, k->ldc, stream), error))
      return FALSE;
  }
  return TRUE;
}

static gboolean multiply(CudaMatmuls *matmuls, const MatmulKernel *k, cudaStream_t stream, GError **error) {
  Plan *plan = find_plan(matmuls, k, error);
  if (plan == NULL) {
    g_prefix_error(error, "(%" G_GINT64_FORMAT "×%" G_GINT64_FORMAT ")·(%" G_GINT64_FORMAT "): ", k->m, k->k, k->n);
    return FALSE;
  }
  if (plan->has_epilogue && !DESCRIBE(plan, BIAS_POINTER, k->bias, error))
    return FALSE;
  if (k->number == NUMBER_FP8 && !set_scales(plan, k, error))
    return FALSE;
  const float beta = k->accumulate ? 1.0f : 0.0f;
  if (!CUBLAS_CALL(&matmuls->cublas,
                   Matmul(matmuls->handle, plan->description, &k->alpha, k->b, plan->first, k->a, plan->second, &beta,
                          k->c, plan->result, k->c, plan->result, &plan->algorithm, matmuls->workspace, WORKSPACE_BYTES,
                          stream),
                   error))
    return FALSE;
  return k->bias == NULL || plan->has_epilogue || add_bias(k, stream, error);
}

/* One by one: what is documented of scales of blocks is their place in one matrix. */
static gboolean multiply_in_blocks(CudaMatmuls *matmuls, const MatmulKernel *k, cudaStream_t stream, GError **error) {
  const gint64 scales_a = fp8_n_scales(k->fp8_a.scaling, k->m, k->k);
  const gint64 scales_b = fp8_n_scales(k->fp8_b.scaling, k->n, k->k);
  for (gint64 i = 0; i < MAX(k->batch, 1); i++) {
    MatmulKernel one = *k;
    one.batch = 1;
    one.a = (const char *)k->a + i * k->stride_a;
    one.b = (const char *)k->b + i * k->stride_b;
    one.c = (char *)k->c + i * k->stride_c * kernel_element_bytes(k->result);
    one.fp8_a.scales += i * scales_a;
    one.fp8_b.scales += i * scales_b;
    if (!multiply(matmuls, &one, stream, error))
      return FALSE;
  }
  return TRUE;
}

/* What GPUs have, and what products they have it for. */
static gboolean check_fp8(const CudaMatmuls *matmuls, const MatmulKernel *k, GError **error) {
  const gboolean in_blocks = k->fp8_a.scaling != FP8_TENSOR;
  if (k->layout != LAYOUT_TN || k->m % FP8_MULTIPLE != 0 || k->n % FP8_MULTIPLE != 0 || k->k % FP8_MULTIPLE != 0)
    return fail_impossible(error,
                           "(%" G_GINT64_FORMAT "×%" G_GINT64_FORMAT ")·(%" G_GINT64_FORMAT
                           "): expected sizes that are multiples of %d in fp8",
                           k->m, k->k, k->n, FP8_MULTIPLE);
  if (in_blocks ? matmuls->capability == 90 : matmuls->capability >= 89)
    return TRUE;
  return fail_impossible(error, "products in fp8%s need a GPU of compute capability %s, found %d.%d",
                         in_blocks ? " with scales of blocks" : "", in_blocks ? "9.0" : "8.9 or later",
                         matmuls->capability / 10, matmuls->capability % 10);
}

gboolean cuda_matmul_run(CudaMatmuls *matmuls, const MatmulKernel *k, cudaStream_t stream, GError **error) {
  if (k->number != NUMBER_FP8)
    return multiply(matmuls, k, stream, error);
  return check_fp8(matmuls, k, error) &&
         (k->fp8_a.scaling == FP8_TENSOR ? multiply : multiply_in_blocks)(matmuls, k, stream, error);
}
