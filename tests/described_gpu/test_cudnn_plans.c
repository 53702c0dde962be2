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

START_TEST(attention_with_a_key_head_for_each_query_head_is_compiled) {
  check_plans(&gpus[H100], attention(NUMBER_BF16, 2048, 16, 16, 128, 128));
}
END_TEST

START_TEST(attention_with_shared_key_heads_is_compiled_for_each_architecture) {
  check_plans(&gpus[A100], attention(NUMBER_BF16, 4096, 32, 8, 128, 128));
  check_plans(&gpus[H100], attention(NUMBER_BF16, 4096, 32, 8, 128, 128));
  check_plans(&gpus[B200], attention(NUMBER_BF16, 4096, 32, 8, 128, 128));
}
END_TEST

START_TEST(narrow_heads_and_odd_lengths_are_compiled) {
  check_plans(&gpus[H100], attention(NUMBER_FP16, 128, 8, 4, 32, 32));
  check_plans(&gpus[H100], attention(NUMBER_BF16, 200, 8, 1, 80, 80));
}
END_TEST

/* DeepSeek-V3's. */
START_TEST(latent_attention_is_compiled) {
  check_plans(&gpus[H100], attention(NUMBER_BF16, 4096, 16, 16, 192, 128));
}
END_TEST

START_TEST(what_the_graphs_do_not_cover_is_declined_with_a_reason) {
  g_autofree char *why_not = NULL;
  Cudnn *cudnn = cudnn_for(&gpus[H100], &why_not);
  ck_assert_msg(cudnn != NULL, "%s", why_not);
  FlashKernel kernel = attention(NUMBER_BF16, 256, 4, 4, 64, 64);
  kernel.rule.window = 100;
  ck_assert_int_eq(cudnn_workspace_bytes(cudnn, &kernel, FALSE, &why_not), -1);
  ck_assert_str_eq(why_not, "not for a sliding window");
  g_clear_pointer(&why_not, g_free);
  kernel = attention(NUMBER_BF16, 256, 4, 4, 60, 60);
  ck_assert_int_eq(cudnn_workspace_bytes(cudnn, &kernel, FALSE, &why_not), -1);
  ck_assert_str_eq(why_not, "not aligned to 16 bytes");
  cudnn_free(cudnn);
}
END_TEST

START_TEST(a_description_that_says_nothing_is_refused) {
  g_autofree char *why_not = NULL;
  ck_assert_ptr_null(cudnn_new_described("{", &why_not));
  ck_assert_ptr_nonnull(strstr(why_not, "a described GPU"));
}
END_TEST

int main(void) {
  g_autofree char *why_not = NULL;
  Cudnn *cudnn = cudnn_for(&gpus[H100], &why_not);
  if (cudnn == NULL) {
    printf("1..0 # SKIP %s\n", why_not);
    return 0;
  }
  cudnn_free(cudnn);
  TCase *cases = tcase_create("plans");
  tcase_set_timeout(cases, 120);
  tcase_add_test(cases, attention_with_a_key_head_for_each_query_head_is_compiled);
  tcase_add_test(cases, attention_with_shared_key_heads_is_compiled_for_each_architecture);
  tcase_add_test(cases, narrow_heads_and_odd_lengths_are_compiled);
  tcase_add_test(cases, latent_attention_is_compiled);
  tcase_add_test(cases, what_the_graphs_do_not_cover_is_declined_with_a_reason);
  tcase_add_test(cases, a_description_that_says_nothing_is_refused);
  return run_case("cuDNN plans", cases);
}
