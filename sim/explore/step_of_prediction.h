/* From a Prediction to the StepReport that is printed. */
#pragma once
#include "predict.h"
#include "step_report.h"

/* Borrows everything from `prediction`. `in_flight` [pp] is filled, and borrowed too; if it is NULL, neither it nor
 * the traffic per axis nor the kernels of a layer are reported (rows of a sweep have none of these, and
 * predict_numbers() does not compute them). `bounding` is left to the caller (way −1). */
StepReport step_of_prediction(const Prediction *prediction, int *in_flight);
