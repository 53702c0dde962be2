/* Which cuts of which models a calibration runs: all combinations of the lists that its options give. */
#pragma once
#include "kernel_times.h"

/* Texts of options; NULL: the usual. */
typedef struct {
  const char *tp, *cp, *cp_comm, *micro_batch, *seq_len; /* lists */
  const char *precision, *attention;
  gboolean is_cuda; /* what is usual is the GPU's */
} CutRequest;

/* Of CutCase, each model's (Model, borrowed) together; owned by the caller. NULL with INPUT naming the option. */
GArray *cut_cases(const CutRequest *request, const GPtrArray *models, GError **error);
