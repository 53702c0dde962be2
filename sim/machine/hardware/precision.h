/* Number formats and precision recipes. One property table; no switch lists the members again. */
#pragma once
#include <glib.h>

/* Formats that a GPU's matrix units multiply; indexes Gpu.peak_flops. */
typedef enum { NUMBER_FP32, NUMBER_TF32, NUMBER_FP16, NUMBER_BF16, NUMBER_FP8, NUMBER_FP4, N_NUMBERS } Number;

/* `--precision`: the format of linear layers; everything else is `element`. */
typedef enum {
  PRECISION_FP32,
  PRECISION_FP16,
  PRECISION_BF16,
  PRECISION_FP8,   /* per-tensor scaled */
  PRECISION_MXFP8, /* block-scaled, 32 elements a scale */
  PRECISION_NVFP4, /* block-scaled, 16 elements a scale */
  N_PRECISIONS
} Precision;

typedef struct {
  const char *name;
  Number linear;        /* format the linear layers multiply in */
  Number element;       /* format of attention, activations, communication of activations */
  double linear_bytes;  /* bytes per element of a linear layer's operand, block scales included */
  double element_bytes; /* bytes per element of any other activation */
} PrecisionInfo;

extern const char *const number_names[N_NUMBERS + 1]; /* NULL-terminated */
const char *number_name(Number number);
/* Of one element, without block scales. */
double number_bytes(Number number);
const PrecisionInfo *precision_info(Precision precision);
/* NULL-terminated, in enum order. */
const char *const *precision_names(void);
gboolean precision_parse(const char *text, Precision *precision, GError **error);
