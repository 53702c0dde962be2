/* From a Prediction to what is printed of it. */
#pragma once
#include "predict.h"
#include "step_report.h"

/* Borrows everything from `prediction`. `in_flight` [pp] is filled, and borrowed too; with NULL neither it nor the
 * traffic per axis nor a layer's kernels are reported (a row of a sweep has none of them, and predict_numbers() does
 * not work them out). `bounding` is left to the caller (way −1). */
StepReport step_of_prediction(const Prediction *prediction, int *in_flight);
