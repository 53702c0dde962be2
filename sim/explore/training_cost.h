/* What a training run costs at a predicted rate, without interruptions and, where a cluster says how often it fails,
 * with them. */
#pragma once
#include "goodput.h"

typedef struct {
  double tokens;               /* of the run */
  double days, gpu_hours;      /* without failures and restarts */
  double dollars_per_gpu_hour; /* 0: not known */
  double dollars;              /* 0: not known */
  double gpu_energy_Wh;        /* at the most that GPUs may draw, without failures; 0: not known */
  gboolean has_goodput;        /* the rest is known */
  Goodput goodput;
  double expected_days, expected_gpu_hours, expected_dollars; /* with failures and restarts; infinite: it never ends */
} TrainingCost;

/* `dollars_per_gpu_hour` and `gpu_power_W` 0: not known; `goodput` NULL: nothing is known of failures. */
TrainingCost training_cost_of(double tokens, double tokens_per_s, int gpus, double dollars_per_gpu_hour,
                              double gpu_power_W, const Goodput *goodput);
/* Two lines, or one where nothing is known of failures; `label` and `failures_label` begin them. */
void training_cost_text(const TrainingCost *cost, const char *label, const char *failures_label, GString *out);
