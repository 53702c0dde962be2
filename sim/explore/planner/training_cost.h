/* What a training run costs at a predicted rate. Pure arithmetic; failures and restarts are not in it. */
#pragma once
#include <glib.h>

typedef struct {
  double tokens;               /* of the run */
  double days, gpu_hours;      /* without failures and restarts */
  double dollars_per_gpu_hour; /* 0: not known */
  double dollars;              /* 0: not known */
} TrainingCost;

TrainingCost training_cost_of(double tokens, double tokens_per_s, int gpus, double dollars_per_gpu_hour);
