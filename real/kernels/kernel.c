#include "kernel.h"

static const char *const names[N_KERNELS] = {
#define ROW(KIND, name, text, ...) [KERNEL_##KIND] = text,
    KERNELS(ROW)
#undef ROW
};

const char *kernel_name(KernelKind kind) {
  g_assert((guint)kind < N_KERNELS);
  return names[kind];
}

int kernel_element_bytes(Number number) {
  g_assert(number == NUMBER_FP32 || number == NUMBER_BF16 || number == NUMBER_FP16 || number == NUMBER_FP8);
  return number == NUMBER_FP32 ? 4 : number == NUMBER_FP8 ? 1 : 2;
}
