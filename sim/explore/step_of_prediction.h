/* From a Prediction to what is printed of it. */
#pragma once
#include "predict.h"
#include "step_report.h"

/* Borrows everything from `prediction`; `in_flight` (pp entries) is filled and borrowed. NULL leaves out it and the
 * traffic per axis, which no row of a table has, and which predict_numbers() does not know. `bounding` is left to the
 * caller (way −1). */
StepReport step_of_prediction(const Prediction *prediction, int *in_flight);
