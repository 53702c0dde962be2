/* What bounds a step and what to try: sentences, each with the numbers it rests on. */
#pragma once
#include "step_report.h"

/* Most pressing first: memory that does not fit, then the parts of the step by their share. Never empty. The array
 * owns the strings. */
GPtrArray *advice_new(const StepReport *report);
