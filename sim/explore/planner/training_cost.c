#include "training_cost.h"

TrainingCost training_cost_of(double tokens, double tokens_per_s, int gpus, double dollars_per_gpu_hour) {
  double hours = tokens / tokens_per_s / 3600;
  return (TrainingCost){.tokens = tokens,
                        .days = hours / 24,
                        .gpu_hours = hours * gpus,
                        .dollars_per_gpu_hour = dollars_per_gpu_hour,
                        .dollars = hours * gpus * dollars_per_gpu_hour};
}
