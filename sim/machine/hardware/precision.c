/* Two tables. A block-scaled format carries its scales along: MXFP8 one 8-bit scale per 32 elements (OCP Microscaling
 * Formats v1.0, 2023), NVFP4 one 8-bit scale per 16 elements (NVIDIA Blackwell, 2024). Per-tensor scales are too few to
 * count. Whatever the linear layers multiply in, attention and activations stay in the element format. */
#include "precision.h"

#include "error.h"
#include "suggest.h"

const char *const number_names[N_NUMBERS + 1] = {"fp32", "tf32", "fp16", "bf16", "fp8", "fp4"};
static const double bytes_of_numbers[N_NUMBERS] = {4, 4, 2, 2, 1, 0.5};

static const PrecisionInfo precisions[N_PRECISIONS] = {
    [PRECISION_FP32] = {"fp32", NUMBER_FP32, NUMBER_FP32, 4, 4},
    [PRECISION_FP16] = {"fp16", NUMBER_FP16, NUMBER_FP16, 2, 2},
    [PRECISION_BF16] = {"bf16", NUMBER_BF16, NUMBER_BF16, 2, 2},
    [PRECISION_FP8] = {"fp8", NUMBER_FP8, NUMBER_BF16, 1, 2},
    [PRECISION_MXFP8] = {"mxfp8", NUMBER_FP8, NUMBER_BF16, 1 + 1.0 / 32, 2},
    [PRECISION_NVFP4] = {"nvfp4", NUMBER_FP4, NUMBER_BF16, 0.5 + 1.0 / 16, 2},
};

const char *number_name(Number number) {
  g_assert(number < N_NUMBERS);
  return number_names[number];
}

double number_bytes(Number number) {
  g_assert(number < N_NUMBERS);
  return bytes_of_numbers[number];
}

const PrecisionInfo *precision_info(Precision precision) {
  g_assert(precision < N_PRECISIONS);
  return &precisions[precision];
}

const char *const *precision_names(void) {
  static const char *const names[N_PRECISIONS + 1] = {
      [PRECISION_FP32] = "fp32", [PRECISION_FP16] = "fp16",   [PRECISION_BF16] = "bf16",
      [PRECISION_FP8] = "fp8",   [PRECISION_MXFP8] = "mxfp8", [PRECISION_NVFP4] = "nvfp4",
  };
  return names;
}

gboolean precision_parse(const char *text, Precision *precision, GError **error) {
  const int index = suggest_same(text, precision_names());
  if (index >= 0) {
    *precision = (Precision)index;
    return TRUE;
  }
  g_autofree char *message = suggest_message(text, precision_names());
  return fail_input(error, "precision: found \"%.80s\", %s", text == NULL ? "" : text, message);
}
