/* Choosing the instruction set, keeping the scratch memory, and the check of the numbers. The kernels themselves are in
 * cpu_matmul.c, cpu_rows.c, cpu_pointwise.c, cpu_attention*.c, cpu_experts.c, cpu_ends.c and cpu_state.c, one copy per
 * instruction set (cpu_isa.h). */
#include "cpu_kernels.h"

#include "cpu_isa.h"
#include "error.h"

#include <cblas.h>
#include <stdlib.h>

extern const CpuIsa cpu_isa_plain;
#ifdef CPU_HAS_AVX2
extern const CpuIsa cpu_isa_avx2;
#endif
#ifdef CPU_HAS_AVX512
extern const CpuIsa cpu_isa_avx512;
#endif

enum { MAX_ISAS = 3 };

/* Those this processor has, plainest first; returns how many. */
static int usable_isas(const CpuIsa *isas[MAX_ISAS]) {
  int n = 0;
  isas[n++] = &cpu_isa_plain;
#ifdef CPU_HAS_AVX2
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    isas[n++] = &cpu_isa_avx2;
#endif
#ifdef CPU_HAS_AVX512
  if (n == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    isas[n++] = &cpu_isa_avx512;
#endif
  return n;
}

const char *const *cpu_kernels_isa_names(void) {
  static const char *names[MAX_ISAS + 1];
  const CpuIsa *isas[MAX_ISAS];
  int n = usable_isas(isas);
  for (int i = 0; i < n; i++)
    names[i] = isas[i]->name;
  names[n] = NULL;
  return names;
}

gboolean cpu_scratch_use_isa(CpuScratch *scratch, const char *name) {
  const CpuIsa *isas[MAX_ISAS];
  int n = usable_isas(isas);
  for (int i = 0; i < n; i++) {
    if (g_str_equal(isas[i]->name, name)) {
      scratch->isa = isas[i];
      return TRUE;
    }
  }
  return FALSE;
}

CpuScratch *cpu_scratch_new(void) {
  const CpuIsa *isas[MAX_ISAS];
  int n = usable_isas(isas);
  CpuScratch *scratch = g_new0(CpuScratch, 1);
  scratch->isa = isas[n - 1];
  return scratch;
}

void cpu_scratch_free(CpuScratch *scratch) {
  if (scratch == NULL)
    return;
  free(scratch->memory);
  g_free(scratch->angles);
  g_free(scratch);
}

void cpu_kernels_set_threads(int n) {
  openblas_set_num_threads(n);
}

/* Which Numbers a kernel mentions, NUMBER_FP32 where it mentions fewer than two. */
static void kernel_numbers(const Kernel *kernel, guint8 numbers[2]) {
  numbers[0] = numbers[1] = NUMBER_FP32;
  switch ((KernelKind)kernel->kind) {
  case KERNEL_MATMUL:
    numbers[0] = kernel->matmul.number;
    numbers[1] = kernel->matmul.result;
    return;
  case KERNEL_NORM_FORWARD:
    numbers[0] = kernel->norm.number;
    return;
  case KERNEL_NORM_BACKWARD:
    numbers[0] = kernel->norm.number;
    numbers[1] = kernel->norm.gradient;
    return;
  case KERNEL_BIAS_GRADIENT:
    numbers[0] = kernel->bias_gradient.number;
    numbers[1] = kernel->bias_gradient.gradient;
    return;
  case KERNEL_EMBEDDING_BACKWARD:
    numbers[0] = kernel->embedding.number;
    numbers[1] = kernel->embedding.gradient;
    return;
  case KERNEL_POSITIONS_BACKWARD:
    numbers[0] = kernel->positions.number;
    numbers[1] = kernel->positions.gradient;
    return;
  case KERNEL_SUM_SQUARES:
    numbers[0] = kernel->sum_squares.gradient;
    return;
  case KERNEL_ADAM:
    numbers[0] = kernel->adam.number;
    numbers[1] = kernel->adam.gradient;
    return;
  case KERNEL_CONVERT:
    numbers[0] = kernel->convert.from_number;
    numbers[1] = kernel->convert.to_number;
    return;
  case KERNEL_FILL:
  case KERNEL_LOSS_SCALE:
    return;
  default: /* the first member of all others is `number` */
    numbers[0] = kernel->embedding.number;
    return;
  }
}

gboolean cpu_kernel_run(const Kernel *kernel, CpuScratch *scratch, GError **error) {
  g_assert(kernel->kind < N_KERNELS);
  guint8 numbers[2];
  kernel_numbers(kernel, numbers);
  for (int i = 0; i < 2; i++)
    if (numbers[i] != NUMBER_FP32 && numbers[i] != NUMBER_BF16 && numbers[i] != NUMBER_FP16)
      return fail_input(error, "kernel %s: found elements of %s, expected fp32, bf16 or fp16",
                        kernel_name((KernelKind)kernel->kind), number_name((Number)numbers[i]));
  scratch->isa->run[kernel->kind](kernel, scratch);
  return TRUE;
}

void cpu_widen(const void *from, Number number, gint64 n, float *to) {
  g_autoptr(CpuScratch) scratch = cpu_scratch_new();
  const Kernel kernel = {
      .kind = KERNEL_CONVERT,
      .convert = {.from_number = (guint8)number, .to_number = NUMBER_FP32, .n = n, .from = from, .to = to}};
  const gboolean is_known = cpu_kernel_run(&kernel, scratch, NULL);
  g_assert(is_known);
}
