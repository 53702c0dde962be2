/* What bounds a step, and what to try: sentences with the numbers they follow from. */
#pragma once
#include "step_report.h"

/* Most pressing first: memory that does not fit, then the parts of the step by their share. Never empty. Strings owned
 * by the array. */
GPtrArray *advice_new(const StepReport *report);
