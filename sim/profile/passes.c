/* An operator reads its tensors and writes a new one, of the size that they broadcast to and of the widest type; one
 * whose name ends in "_" writes its first tensor instead, and has no other row in the table. Tensors behind those that
 * are read are where an out= variant writes. Sums over a dimension write little beside what they read, which is left
 * out. Sources: PyTorch's native_functions.yaml, ReduceOps.cpp and BinaryOps.cpp under aten/src/ATen/native; vLLM's
 * csrc/torch_bindings.cpp. */
#include "passes.h"

#include <stdlib.h>
#include <string.h>

#include "operator_inputs.h"

typedef enum {
  WRITES_NEW,
  WRITES_BOOLS,
  WRITES_NEW_AND_MASK,
  WRITES_LITTLE,
  WRITES_FIRST,    /* which it also reads */
  OVERWRITES_FIRST /* without reading it */
} Writes;

typedef struct {
  const char *name;
  guint n_read; /* inputs, the first of all */
  Writes writes;
  int n_written;     /* tensors of the size of the first or the new one; 0: 1 */
  const char *curve; /* NULL: "memory" */
} Pass;

static const char memory[] = "memory", norm[] = "norm", adam[] = "adam", copy[] = "copy";

static const Pass passes[] = {
    {"aten::copy", 2, OVERWRITES_FIRST, 0, NULL},
    {"aten::fill", 1, OVERWRITES_FIRST, 0, NULL},
    {"aten::zero", 1, OVERWRITES_FIRST, 0, NULL},
    {"aten::cat", 1, WRITES_NEW, 0, NULL},
    {"aten::add", 3, WRITES_NEW, 0, NULL},
    {"aten::sub", 3, WRITES_NEW, 0, NULL},
    {"aten::rsub", 3, WRITES_NEW, 0, NULL},
    {"aten::mul", 2, WRITES_NEW, 0, NULL},
    {"aten::div", 2, WRITES_NEW, 0, NULL},
    {"aten::pow", 2, WRITES_NEW, 0, NULL},
    {"aten::maximum", 2, WRITES_NEW, 0, NULL},
    {"aten::minimum", 2, WRITES_NEW, 0, NULL},
    {"aten::addcmul", 3, WRITES_NEW, 0, NULL},
    {"aten::addcdiv", 3, WRITES_NEW, 0, NULL},
    {"aten::lerp", 3, WRITES_NEW, 0, NULL},
    {"aten::where", 3, WRITES_NEW, 0, NULL},
    {"aten::masked_fill", 2, WRITES_NEW, 0, NULL},
    {"aten::neg", 1, WRITES_NEW, 0, NULL},
    {"aten::abs", 1, WRITES_NEW, 0, NULL},
    {"aten::exp", 1, WRITES_NEW, 0, NULL},
    {"aten::log", 1, WRITES_NEW, 0, NULL},
    {"aten::sqrt", 1, WRITES_NEW, 0, NULL},
    {"aten::rsqrt", 1, WRITES_NEW, 0, NULL},
    {"aten::reciprocal", 1, WRITES_NEW, 0, NULL},
    {"aten::cos", 1, WRITES_NEW, 0, NULL},
    {"aten::sin", 1, WRITES_NEW, 0, NULL},
    {"aten::tanh", 1, WRITES_NEW, 0, NULL},
    {"aten::sigmoid", 1, WRITES_NEW, 0, NULL},
    {"aten::relu", 1, WRITES_NEW, 0, NULL},
    {"aten::gelu", 1, WRITES_NEW, 0, NULL},
    {"aten::silu", 1, WRITES_NEW, 0, NULL},
    {"aten::clamp", 1, WRITES_NEW, 0, NULL},
    {"aten::clamp_min", 1, WRITES_NEW, 0, NULL},
    {"aten::clamp_max", 1, WRITES_NEW, 0, NULL},
    {"aten::eq", 2, WRITES_BOOLS, 0, NULL},
    {"aten::ne", 2, WRITES_BOOLS, 0, NULL},
    {"aten::lt", 2, WRITES_BOOLS, 0, NULL},
    {"aten::le", 2, WRITES_BOOLS, 0, NULL},
    {"aten::gt", 2, WRITES_BOOLS, 0, NULL},
    {"aten::ge", 2, WRITES_BOOLS, 0, NULL},
    {"aten::logical_not", 1, WRITES_BOOLS, 0, NULL},
    {"aten::logical_and", 2, WRITES_BOOLS, 0, NULL},
    {"aten::logical_or", 2, WRITES_BOOLS, 0, NULL},
    {"aten::isnan", 1, WRITES_BOOLS, 0, NULL},
    {"aten::sigmoid_backward", 2, WRITES_NEW, 0, NULL},
    {"aten::tanh_backward", 2, WRITES_NEW, 0, NULL},
    {"aten::silu_backward", 2, WRITES_NEW, 0, NULL},
    {"aten::gelu_backward", 2, WRITES_NEW, 0, NULL},
    {"aten::threshold_backward", 2, WRITES_NEW, 0, NULL},
    {"aten::native_dropout", 1, WRITES_NEW_AND_MASK, 0, NULL},
    {"aten::native_dropout_backward", 2, WRITES_NEW, 0, NULL},
    {"aten::_softmax", 1, WRITES_NEW, 0, NULL},
    {"aten::_log_softmax", 1, WRITES_NEW, 0, NULL},
    {"aten::_softmax_backward_data", 2, WRITES_NEW, 0, NULL},
    {"aten::_log_softmax_backward_data", 2, WRITES_NEW, 0, NULL},
    {"aten::native_layer_norm", 4, WRITES_NEW, 0, norm},
    {"aten::_fused_rms_norm", 3, WRITES_NEW, 0, norm},
    {"aten::native_layer_norm_backward", 6, WRITES_NEW, 0, NULL},
    {"aten::_fused_rms_norm_backward", 5, WRITES_NEW, 0, NULL},
    {"aten::sum", 1, WRITES_LITTLE, 0, NULL},
    {"aten::mean", 1, WRITES_LITTLE, 0, NULL},
    {"aten::amax", 1, WRITES_LITTLE, 0, NULL},
    {"aten::amin", 1, WRITES_LITTLE, 0, NULL},
    {"aten::max", 1, WRITES_LITTLE, 0, NULL},
    {"aten::min", 1, WRITES_LITTLE, 0, NULL},
    {"aten::all", 1, WRITES_LITTLE, 0, NULL},
    {"aten::any", 1, WRITES_LITTLE, 0, NULL},
    {"aten::linalg_vector_norm", 1, WRITES_LITTLE, 0, NULL},
    {"aten::_foreach_zero", 1, OVERWRITES_FIRST, 0, NULL},
    {"aten::_foreach_copy", 2, OVERWRITES_FIRST, 0, NULL},
    {"aten::_foreach_add", 2, WRITES_NEW, 0, NULL},
    {"aten::_foreach_sub", 2, WRITES_NEW, 0, NULL},
    {"aten::_foreach_mul", 2, WRITES_NEW, 0, NULL},
    {"aten::_foreach_div", 2, WRITES_NEW, 0, NULL},
    {"aten::_foreach_sqrt", 1, WRITES_NEW, 0, NULL},
    {"aten::_foreach_neg", 1, WRITES_NEW, 0, NULL},
    {"aten::_foreach_reciprocal", 1, WRITES_NEW, 0, NULL},
    {"aten::_foreach_lerp", 3, WRITES_NEW, 0, NULL},
    {"aten::_foreach_addcmul", 3, WRITES_NEW, 0, NULL},
    {"aten::_foreach_addcdiv", 3, WRITES_NEW, 0, NULL},
    {"aten::_foreach_norm", 1, WRITES_LITTLE, 0, NULL},
    {"aten::_fused_adam", 4, WRITES_FIRST, 3, adam}, /* parameters, gradients and both moments */
    {"aten::_fused_adamw", 4, WRITES_FIRST, 3, adam},
    {"_C::rms_norm", 3, OVERWRITES_FIRST, 0, norm},
    {"_C::fused_add_rms_norm", 3, WRITES_FIRST, 2, norm},
    {"_C::silu_and_mul", 2, OVERWRITES_FIRST, 0, NULL},
    {"_C::gelu_and_mul", 2, OVERWRITES_FIRST, 0, NULL},
    {"_C::static_scaled_fp8_quant", 3, OVERWRITES_FIRST, 0, NULL},
    {"Memcpy DtoD", 1, WRITES_NEW, 0, copy}, /* as the readers name them, who have their bytes */
    {"Memset", 1, OVERWRITES_FIRST, 0, copy},
};

/* FALSE: there is none of that name. `pass`: as the name is written. */
static gboolean find_pass(const char *name, Pass *pass) {
  const gboolean in_place = g_str_has_suffix(name, "_");
  const gsize length = strlen(name) - (in_place ? 1 : 0);
  for (gsize i = 0; i < G_N_ELEMENTS(passes); i++)
    if (strlen(passes[i].name) == length && strncmp(passes[i].name, name, length) == 0) {
      *pass = passes[i];
      if (in_place && pass->writes != OVERWRITES_FIRST)
        pass->writes = WRITES_FIRST;
      return TRUE;
    }
  return FALSE;
}

typedef struct {
  const char *name;
  double bytes;
  gboolean is_float;
} Type;

/* `length` of its name. FALSE: no tensor. */
static gboolean find_type(const char *name, gsize length, Type *type) {
  static const Type types[] = {{"float", 4, TRUE},
                               {"c10::BFloat16", 2, TRUE},
                               {"c10::Half", 2, TRUE},
                               {"double", 8, TRUE},
                               {"c10::Float8_e4m3fn", 1, TRUE},
                               {"c10::Float8_e5m2", 1, TRUE},
                               {"long int", 8, FALSE},
                               {"long", 8, FALSE},
                               {"int", 4, FALSE},
                               {"short", 2, FALSE},
                               {"bool", 1, FALSE},
                               {"unsigned char", 1, FALSE},
                               {"signed char", 1, FALSE}};
  for (gsize i = 0; i < G_N_ELEMENTS(types); i++)
    if (strlen(types[i].name) == length && strncmp(types[i].name, name, length) == 0) {
      *type = types[i];
      return TRUE;
    }
  return FALSE;
}

/* Of lists, whose elements no input tells: "multi_tensor_apply_kernel<…, AdamFunctor<float, 4>, …>",
 * "CatArrayBatchedCopy<OpaqueType<2u>, …>". */
static gboolean find_type_in(const char *kernel, Type *type) {
  static const char opaque[] = "OpaqueType<", *const before[] = {"MathFunctor<", "Functor<", "CatArray"};
  const char *at = strstr(kernel, opaque);
  if (at != NULL) {
    const long bytes = strtol(at + strlen(opaque), NULL, 10);
    *type = (Type){"opaque", (double)bytes, TRUE};
    return bytes >= 1 && bytes <= 16;
  }
  for (gsize i = 0; at == NULL && i < G_N_ELEMENTS(before); i++)
    at = strstr(kernel, before[i]);
  at = at != NULL ? strchr(at, '<') : NULL;
  return at != NULL && find_type(at + 1, strcspn(at + 1, ",>"), type);
}

/* What an operator's inputs say so far. */
typedef struct {
  double read_bytes, first_bytes;
  gint64 sizes[MOST_SIZES]; /* that all broadcast to, the last dimension first */
  double list_elements;     /* of the first list, instead of sizes */
  Type type;                /* that they promote to */
} Tensors;

/* Numbers of tensors of no dimension do not promote. */
static void add_type(Tensors *tensors, const Type *type) {
  const Type *so_far = &tensors->type;
  if (type->is_float != so_far->is_float ? type->is_float : type->bytes > so_far->bytes)
    tensors->type = *type;
}

/* FALSE: its type is not told. */
static gboolean add_input(Tensors *tensors, const OperatorInputs *inputs, const char *kernel, guint i) {
  gboolean is_list;
  const double elements = elements_of(inputs->dims, i, &is_list);
  const char *name = text_at(inputs->types, i);
  Type type;
  if (elements <= 0)
    return TRUE;
  if (is_list ? !find_type_in(kernel, &type) : name == NULL || !find_type(name, strlen(name), &type))
    return FALSE;
  const Sizes sizes = is_list ? (Sizes){.n = 0} : sizes_of(inputs->dims, i);
  for (int d = 0; d < sizes.n; d++)
    tensors->sizes[d] = MAX(tensors->sizes[d], sizes.size[sizes.n - 1 - d]);
  if (is_list && tensors->list_elements == 0)
    tensors->list_elements = elements;
  add_type(tensors, &type);
  tensors->read_bytes += elements * type.bytes;
  if (i == 0)
    tensors->first_bytes = elements * type.bytes;
  return TRUE;
}

static double new_elements(const Tensors *tensors) {
  double elements = 1;
  for (int d = 0; d < MOST_SIZES; d++)
    elements *= (double)MAX(tensors->sizes[d], 1);
  return tensors->list_elements > 0 ? tensors->list_elements : elements;
}

static double written_bytes(const Pass *pass, const Tensors *tensors) {
  const double n = MAX(pass->n_written, 1), elements = new_elements(tensors);
  switch (pass->writes) {
  case WRITES_NEW:
    return n * elements * tensors->type.bytes;
  case WRITES_BOOLS:
    return elements;
  case WRITES_NEW_AND_MASK:
    return elements * (tensors->type.bytes + 1);
  case WRITES_FIRST:
    return n * tensors->first_bytes;
  case WRITES_LITTLE:
  case OVERWRITES_FIRST: /* instead of reading it */
    break;
  }
  return 0;
}

/* Of an old out= variant the tensors are not told, and the result comes first. */
static gboolean lacks_list(const ProfileOperator *op, const OperatorInputs *inputs) {
  gboolean is_list;
  elements_of(inputs->dims, 0, &is_list);
  return !is_list && (g_str_equal(op->name, "aten::cat") || g_str_has_prefix(op->name, "aten::_foreach_") ||
                      g_str_has_prefix(op->name, "aten::_fused_adam"));
}

gboolean pass_read(const ProfileOperator *op, const char *kernel, WorkItem *item) {
  Pass pass;
  if (op->dims == NULL || op->types == NULL || !find_pass(op->name, &pass))
    return FALSE;
  g_auto(OperatorInputs) inputs = operator_inputs_parse(op);
  Tensors tensors = {.type = {NULL, 0, FALSE}};
  if (lacks_list(op, &inputs))
    return FALSE;
  for (guint i = 0; i < pass.n_read; i++)
    if (!add_input(&tensors, &inputs, kernel, i))
      return FALSE;
  *item = (WorkItem){.name = pass.curve != NULL ? pass.curve : memory,
                     .kind = ITEM_MEMORY,
                     .after = -1,
                     .bytes = tensors.read_bytes + written_bytes(&pass, &tensors)};
  static const double most = 1e15; /* as a GPU file's tables take them */
  return item->bytes >= 1 && item->bytes <= most;
}
