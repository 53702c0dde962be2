/* Kernels by their names. The first row that a name has counts, so special names stand before general ones; the
 * operator tells what the kernel's name leaves open (a product by its cuBLAS kernel needs none). */
#include "profile.h"

#include <string.h>

const char *profile_kind_name(ProfileKind kind) {
  static const char *const names[N_PROFILE_KINDS] = {
      [PROFILE_PRODUCT] = "products",
      [PROFILE_ATTENTION] = "attention",
      [PROFILE_NORM] = "norms",
      [PROFILE_SOFTMAX] = "softmax",
      [PROFILE_ELEMENTWISE] = "elementwise",
      [PROFILE_EMBEDDING] = "tables",
      [PROFILE_OPTIMIZER] = "optimizer",
      [PROFILE_OTHER] = "other",
      [PROFILE_COPY] = "copies",
      [PROFILE_COLLECTIVE] = "collectives",
  };
  return names[kind];
}

typedef struct {
  const char *text; /* in small letters */
  ProfileKind kind;
} NamedKind;

static const NamedKind kernels[] = {
    {"nccl", PROFILE_COLLECTIVE},
    {"rccl", PROFILE_COLLECTIVE},
    {"deep_ep", PROFILE_COLLECTIVE},
    {"allreduce", PROFILE_COLLECTIVE},
    {"all_reduce", PROFILE_COLLECTIVE},
    {"cross_device_reduce", PROFILE_COLLECTIVE},
    {"nvshmem", PROFILE_COLLECTIVE},
    {"memcpy", PROFILE_COPY},
    {"memset", PROFILE_COPY},
    {"layer_norm", PROFILE_NORM},
    {"layernorm", PROFILE_NORM},
    {"rms_norm", PROFILE_NORM},
    {"rmsnorm", PROFILE_NORM},
    {"activation", PROFILE_ELEMENTWISE},
    {"rotary", PROFILE_ELEMENTWISE},
    {"flash", PROFILE_ATTENTION},
    {"fmha", PROFILE_ATTENTION},
    {"attention", PROFILE_ATTENTION},
    {"sdpa", PROFILE_ATTENTION},
    {"multi_tensor", PROFILE_OPTIMIZER},
    {"multitensor", PROFILE_OPTIMIZER},
    {"adam", PROFILE_OPTIMIZER},
    {"lamb_", PROFILE_OPTIMIZER},
    {"optimizer", PROFILE_OPTIMIZER},
    {"embedding", PROFILE_EMBEDDING},
    {"fbgemm", PROFILE_EMBEDDING},
    {"gemm", PROFILE_PRODUCT},
    {"nvjet", PROFILE_PRODUCT},
    {"cublas", PROFILE_PRODUCT},
    {"gemv", PROFILE_PRODUCT},
    {"xmma", PROFILE_PRODUCT},
    {"cutlass", PROFILE_PRODUCT},
    {"splitk", PROFILE_PRODUCT},
    {"matmul", PROFILE_PRODUCT},
    {"_mm_", PROFILE_PRODUCT},
    {"addmm", PROFILE_PRODUCT},
    {"bmm_", PROFILE_PRODUCT},
    {"cijk_", PROFILE_PRODUCT},
    {"implicit_convolve", PROFILE_PRODUCT},
    {"wgrad", PROFILE_PRODUCT},
    {"dgrad", PROFILE_PRODUCT},
    {"scudnn", PROFILE_PRODUCT},
    {"ln_fwd", PROFILE_NORM},
    {"ln_bwd", PROFILE_NORM},
    {"batch_norm", PROFILE_NORM},
    {"bn_fw", PROFILE_NORM},
    {"bn_bw", PROFILE_NORM},
    {"softmax", PROFILE_SOFTMAX},
    {"cross_entropy", PROFILE_SOFTMAX},
    {"nll_loss", PROFILE_SOFTMAX},
    {"logsumexp", PROFILE_SOFTMAX},
    {"index", PROFILE_EMBEDDING},
    {"gather", PROFILE_EMBEDDING},
    {"scatter", PROFILE_EMBEDDING},
    {"permute", PROFILE_EMBEDDING},
    {"topk", PROFILE_EMBEDDING},
    {"sort", PROFILE_EMBEDDING},
    {"cub::", PROFILE_EMBEDDING},
    {"elementwise", PROFILE_ELEMENTWISE},
    {"reduce_kernel", PROFILE_ELEMENTWISE},
    {"catarray", PROFILE_ELEMENTWISE},
    {"triton", PROFILE_ELEMENTWISE},
    {"rope", PROFILE_ELEMENTWISE},
    {"dropout", PROFILE_ELEMENTWISE},
    {"glu", PROFILE_ELEMENTWISE},
    {"gelu", PROFILE_ELEMENTWISE},
    {"silu", PROFILE_ELEMENTWISE},
    {"cast", PROFILE_ELEMENTWISE},
    {"quantize", PROFILE_ELEMENTWISE},
    {"transpose", PROFILE_ELEMENTWISE},
    {"convert", PROFILE_ELEMENTWISE},
};

static const NamedKind operators[] = {
    {"aten::mm", PROFILE_PRODUCT},         {"aten::addmm", PROFILE_PRODUCT},
    {"aten::bmm", PROFILE_PRODUCT},        {"aten::baddbmm", PROFILE_PRODUCT},
    {"aten::_scaled_mm", PROFILE_PRODUCT}, {"aten::linear", PROFILE_PRODUCT},
    {"aten::matmul", PROFILE_PRODUCT},     {"convolution", PROFILE_PRODUCT},
    {"attention", PROFILE_ATTENTION},      {"norm", PROFILE_NORM},
    {"softmax", PROFILE_SOFTMAX},          {"embedding", PROFILE_EMBEDDING},
    {"optimizer", PROFILE_OPTIMIZER},      {"_foreach_", PROFILE_OPTIMIZER},
};

static gboolean find(const NamedKind *known, gsize n_known, const char *name, ProfileKind *kind) {
  g_autofree char *small = g_ascii_strdown(name, -1);
  for (gsize i = 0; i < n_known; i++)
    if (strstr(small, known[i].text) != NULL) {
      *kind = known[i].kind;
      return TRUE;
    }
  return FALSE;
}

ProfileKind profile_kind_of(const char *kernel, const char *operator_name) {
  ProfileKind kind = PROFILE_OTHER;
  if (find(kernels, G_N_ELEMENTS(kernels), kernel, &kind) && kind != PROFILE_ELEMENTWISE)
    return kind;
  ProfileKind by_operator;
  if (operator_name != NULL && find(operators, G_N_ELEMENTS(operators), operator_name, &by_operator) &&
      by_operator != PROFILE_PRODUCT)
    return by_operator;
  return kind;
}

const char *profile_collective_of(const char *name) {
  static const struct {
    const char *text, *op;
  } known[] = {{"allreduce", "all_reduce"},
               {"all_reduce", "all_reduce"},
               {"crossdevicereduce", "all_reduce"},
               {"cross_device_reduce", "all_reduce"},
               {"reducescatter", "reduce_scatter"},
               {"reduce_scatter", "reduce_scatter"},
               {"allgather", "all_gather"},
               {"all_gather", "all_gather"},
               {"alltoall", "all_to_all"},
               {"all_to_all", "all_to_all"},
               {"broadcast", "broadcast"},
               {"sendrecv", "send_recv"},
               {"send", "send_recv"},
               {"recv", "send_recv"},
               {"reduce", "reduce"},
               {"barrier", "barrier"},
               {"gather", "gather"},
               {"scatter", "scatter"}};
  g_autofree char *small = g_ascii_strdown(name, -1);
  for (gsize i = 0; i < G_N_ELEMENTS(known); i++)
    if (strstr(small, known[i].text) != NULL)
      return known[i].op;
  return NULL;
}
