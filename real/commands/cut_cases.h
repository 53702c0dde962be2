/* The cases of a calibration (a model and a sharding each): all combinations of the lists given as options. */
#pragma once
#include "kernel_times.h"

/* Option arguments; NULL: the default. */
typedef struct {
  const char *tp, *cp, *cp_comm, *micro_batch, *seq_len; /* lists */
  const char *precision, *attention;
  gboolean is_cuda; /* defaults for a GPU */
} CutRequest;

/* An array of CutCase, grouped by model (Model, borrowed); owned by the caller. NULL with INPUT naming the option. */
GArray *cut_cases(const CutRequest *request, const GPtrArray *models, GError **error);
