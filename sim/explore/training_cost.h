/* What a training run costs at a predicted rate, without interruptions and, if the cluster states its failure rate,
 * with them. */
#pragma once
#include "goodput.h"

typedef struct {
  double tokens;               /* of the run */
  double days, gpu_hours;      /* without failures and restarts */
  double dollars_per_gpu_hour; /* 0: not known */
  double dollars;              /* 0: not known */
  double gpu_energy_Wh;        /* at the GPUs' maximum power, without failures; 0: not known */
  gboolean has_goodput;        /* the fields below are known */
  Goodput goodput;
  double expected_days, expected_gpu_hours, expected_dollars; /* including failures and restarts; infinite: it
                                                                 never ends */
} TrainingCost;

/* `dollars_per_gpu_hour` and `gpu_power_W` 0: not known; `goodput` NULL: the failure rate is not known. */
TrainingCost training_cost_of(double tokens, double tokens_per_s, int gpus, double dollars_per_gpu_hour,
                              double gpu_power_W, const Goodput *goodput);
/* Two lines, or one if the failure rate is not known; they begin with `label` and `failures_label`. */
void training_cost_text(const TrainingCost *cost, const char *label, const char *failures_label, GString *out);
