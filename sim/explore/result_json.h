/* A prediction as `simulate --json` prints it: what was predicted and its price, then its numbers. */
#pragma once
#include "json_report.h"
#include "predict.h"

/* As it was asked for. */
typedef struct {
  const Model *model;
  const Cluster *cluster;
  const Plan *plan;            /* not completed */
  double dollars_per_gpu_hour; /* < 0: the cluster's */
} ResultOf;

/* The object is left open for more members. */
JsonBuilder *result_json_begin(const Prediction *prediction, const StepReport *report, const ResultOf *of);
