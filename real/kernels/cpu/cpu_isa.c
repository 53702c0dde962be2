/* One instruction set's table. */
#include "cpu_isa.h"

#define CPU_TEXT_(name) #name
#define CPU_TEXT(name) CPU_TEXT_(name)

const CpuIsa cpu_isa = {
    .name = CPU_TEXT(CPU_ISA),
    .run =
        {
#define ROW(KIND, name, ...) [KERNEL_##KIND] = CPU_NAME(cpu_##name),
            KERNELS(ROW)
#undef ROW
        },
};
