/* cuDNN accepts our attention graphs and compiles them for GPUs that are absent: its heuristics and compiler need only
 * a GPU's properties, and a driver that accepts the compiled kernels (driver.c). Skipped (77) without cuDNN. */
#include "cuda_cudnn.h"
#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

/* Source: CUDA C++ programming guide 13.0, compute capabilities; NVIDIA's data sheets of A100, H100, B200. */
typedef struct {
  const char *name;
  int version;      /* compute capability · 100 */
  int n_sms;        /* multiprocessors */
  int shared_bytes; /* of a block, most */
  int l2_bytes;
  gint64 memory_bytes;
} Gpu;

static const Gpu gpus[] = {{"NVIDIA A100-SXM4-80GB", 800, 108, 163 << 10, 40 << 20, 80ll << 30},
                           {"NVIDIA H100 80GB HBM3", 900, 132, 227 << 10, 50 << 20, 80ll << 30},
                           {"NVIDIA B200", 1000, 148, 227 << 10, 126 << 20, 180ll << 30}};
enum { A100, H100, B200 };

static Cudnn *cudnn_for(const Gpu *gpu, char **why_not) {
  g_autofree char *json = g_strdup_printf(
      "{\"deviceName\": \"%s\", \"deviceVer\": %d, \"multiProcessorCount\": %d, \"maxSharedMemoryPerBlockOptin\": %d, "
      "\"l2CacheSize\": %d, \"totalGlobalMem\": %" G_GINT64_FORMAT ", \"maxSharedMemoryPerBlock\": 49152, "
      "\"reservedSharedMemoryPerBlock\": 1024, \"cudaDeviceId\": 0, \"driverVer\": 13000, \"pciDeviceId\": 0, "
      "\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], \"regsPerBlock\": 65536, "
      "\"maxRegistersPerSM\": 65536, \"warpSize\": 32, \"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, "
      "\"maxThreadsPerSM\": 2048, \"isTccDriver\": 0, \"supportCoopLaunch\": 1, \"smClockRateKHz\": 1980000, "
      "\"memClockRateKHz\": 2619000}",
      gpu->name, gpu->version, gpu->n_sms, gpu->shared_bytes, gpu->l2_bytes, gpu->memory_bytes);
  return cudnn_new_described(json, why_not);
}

/* Rows of q, k and v side by side; gradients side by side too, or, with heads of v of their own width, dq apart. */
static FlashKernel attention(Number number, gint64 seq_len, gint64 heads, gint64 kv_heads, gint64 dim, gint64 dim_v) {
  const gint64 kv = kv_heads * (dim + dim_v), ld = heads * dim + kv;
  return (FlashKernel){.number = (guint8)number,
                       .sequences = 2,
                       .seq_len = seq_len,
                       .n_heads = heads,
                       .n_kv_heads = kv_heads,
                       .head_dim = dim,
                       .v_head_dim = dim_v,
                       .scale = 0.1f,
                       .ld_qkv = ld,
                       .ld_dq = dim == dim_v ? ld : heads * dim,
                       .ld_dkv = dim == dim_v ? ld : kv,
                       .ld_o = heads * dim_v};
}

static void check_plans(const Gpu *gpu, FlashKernel kernel) {
  g_autofree char *why_not = NULL;
  Cudnn *cudnn = cudnn_for(gpu, &why_not);
  ck_assert_msg(cudnn != NULL, "%s", why_not);
  for (int is_backward = 0; is_backward <= 1; is_backward++) {
    const gint64 bytes = cudnn_workspace_bytes(cudnn, &kernel, is_backward, &why_not);
    ck_assert_msg(bytes >= 0, "%s, heads of %d/%d, %s: %s", gpu->name, (int)kernel.head_dim, (int)kernel.v_head_dim,
                  is_backward ? "backward" : "forward", why_not);
    ck_assert_int_le(bytes, 1 << 30);
  }
  cudnn_free(cudnn);
}

/* A block of the keys of all, of which the late half of the queries sees all or, with a mask, those up to its own. */
static FlashKernel cut(FlashKernel kernel, gint64 keys, gboolean is_full) {
  const gint64 kv = kernel.n_kv_heads * (kernel.head_dim + kernel.v_head_dim);
  kernel.block = (FlashBlock){.is_cut = TRUE,
                              .is_full = is_full != 0,
                              .adds = !is_full,
                              .queries = kernel.seq_len / 2,
                              .keys = keys,
                              .key_rows = keys,
                              .ld_kv = kv,
                              .ld_dq = kernel.ld_dq,
                              .ld_dkv = kv};
  return kernel;
}

static FlashKernel windowed(FlashKernel kernel, gint64 window) {
  kernel.rule.window = window;
  return kernel;
}

static FlashKernel sloped(FlashKernel kernel) {
  kernel.rule.alibi_heads = kernel.n_heads;
  return kernel;
}

TEST(attention_with_shared_key_heads_is_compiled_for_each_architecture) {
  check_plans(&gpus[A100], windowed(attention(NUMBER_BF16, 4096, 32, 8, 128, 128), 1024));
  check_plans(&gpus[H100], attention(NUMBER_BF16, 4096, 32, 8, 128, 128));
  check_plans(&gpus[B200], cut(attention(NUMBER_BF16, 4096, 32, 8, 128, 128), 4096, TRUE));
}

TEST(blocks_of_a_cut_sequence_are_compiled) {
  check_plans(&gpus[H100], cut(attention(NUMBER_FP16, 128, 8, 4, 32, 32), 96, TRUE));
  check_plans(&gpus[H100], cut(attention(NUMBER_BF16, 4096, 32, 8, 128, 128), 10240, FALSE));
}

TEST(windows_and_odd_lengths_are_compiled) {
  check_plans(&gpus[H100], windowed(attention(NUMBER_BF16, 200, 8, 1, 80, 80), 48));
  check_plans(&gpus[H100], windowed(cut(attention(NUMBER_BF16, 200, 8, 1, 80, 80), 260, FALSE), 150));
}

TEST(alibi_is_compiled) {
  check_plans(&gpus[H100], sloped(attention(NUMBER_BF16, 2048, 32, 32, 128, 128)));
}

/* DeepSeek-V3's. */
TEST(latent_attention_is_compiled) {
  check_plans(&gpus[H100], attention(NUMBER_BF16, 4096, 16, 16, 192, 128));
}

TEST(what_the_graphs_do_not_cover_is_declined_with_a_reason) {
  g_autofree char *why_not = NULL;
  Cudnn *cudnn = cudnn_for(&gpus[H100], &why_not);
  ck_assert_msg(cudnn != NULL, "%s", why_not);
  const FlashKernel plain = attention(NUMBER_BF16, 256, 4, 4, 64, 64);
  FlashKernel dropped = plain, pieces = sloped(cut(plain, 128, FALSE));
  dropped.drop.dropout.rate = 0.1f;
  pieces.block.query_at = pieces.block.key_at = (RowPositions){64, 128, 640};
  const struct {
    FlashKernel kernel;
    const char *why_not;
  } declined[] = {{dropped, "not with dropout"},
                  {sloped(cut(plain, 256, TRUE)), "ALiBi only where queries and keys are the same tokens"},
                  {sloped(cut(plain, 256, FALSE)), "ALiBi only where queries and keys are the same tokens"},
                  {pieces, "ALiBi only where queries and keys are the same tokens"},
                  {attention(NUMBER_FP32, 256, 4, 4, 64, 64), "not for fp32"},
                  {attention(NUMBER_BF16, 256, 4, 4, 60, 60), "not aligned to 16 bytes"}};
  for (gsize i = 0; i < G_N_ELEMENTS(declined); i++) {
    g_clear_pointer(&why_not, g_free);
    ck_assert_int_eq(cudnn_workspace_bytes(cudnn, &declined[i].kernel, FALSE, &why_not), -1);
    ck_assert_str_eq(why_not, declined[i].why_not);
  }
  cudnn_free(cudnn);
}

TEST(a_description_that_says_nothing_is_refused) {
  g_autofree char *why_not = NULL;
  ck_assert_ptr_null(cudnn_new_described("{", &why_not));
  ck_assert_ptr_nonnull(strstr(why_not, "a described GPU"));
}

int main(void) {
  g_autofree char *why_not = NULL;
  Cudnn *cudnn = cudnn_for(&gpus[H100], &why_not);
  if (cudnn == NULL) {
    printf("1..0 # SKIP %s\n", why_not);
    return 0;
  }
  cudnn_free(cudnn);
  return run_tests();
}
