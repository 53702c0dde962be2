/* Selects the instruction set, keeps the scratch memory, and checks number formats. The kernels themselves are in
 * cpu_matmul.c, cpu_narrow.c, cpu_rows.c, cpu_pointwise.c, cpu_attention*.c, cpu_experts.c, cpu_ends.c and cpu_state.c,
 * one copy per instruction set (cpu_isa.h). */
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

/* The instruction sets this processor has, plainest first; returns how many. */
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

/* Offsets of the fields that name a kernel's number formats; 0: none. */
static const gsize numbers_at[N_KERNELS][2] = {
#define ROW(KIND, name, text, task, first, second) [KERNEL_##KIND] = {first, second},
    KERNELS(ROW)
#undef ROW
};

gboolean cpu_kernel_run(const Kernel *kernel, CpuScratch *scratch, GError **error) {
  g_assert(kernel->kind < N_KERNELS);
  for (int i = 0; i < 2; i++) {
    const gsize at = numbers_at[kernel->kind][i];
    const Number number = at > 0 ? (Number)((const guint8 *)kernel)[at] : NUMBER_FP32;
    const gboolean is_operand = kernel->kind == KERNEL_MATMUL && i == 0;
    if (number != NUMBER_FP32 && number != NUMBER_BF16 && number != NUMBER_FP16 &&
        !(number == NUMBER_FP8 && is_operand))
      return fail_input(error, "kernel %s: found elements of %s, expected fp32, bf16 or fp16",
                        kernel_name((KernelKind)kernel->kind), number_name(number));
  }
  scratch->isa->run[kernel->kind](kernel, scratch);
  return TRUE;
}

void cpu_convert(const void *from, Number from_number, gint64 n, void *to, Number to_number) {
  g_autoptr(CpuScratch) scratch = cpu_scratch_new();
  const Kernel kernel = {
      .kind = KERNEL_CONVERT,
      .convert = {.from_number = (guint8)from_number, .to_number = (guint8)to_number, .n = n, .from = from, .to = to}};
  const gboolean is_known = cpu_kernel_run(&kernel, scratch, NULL);
  g_assert(is_known);
}
