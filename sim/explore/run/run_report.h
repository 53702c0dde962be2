/* What is told of simulated training runs beside their cost. */
#pragma once
#include "picture.h"
#include "run_setup.h"

/* Lines that begin with `indent`: the interval, where the time went, what interrupted it, what was assumed. `cost`: of
 * run_goodput(). Nothing if the run does not end. */
void run_text(const RunSetup *setup, const RunSummary *summary, const TrainingCost *cost, const char *indent,
              GString *out);
/* As a member "run" of an object. */
void run_json(const RunSetup *setup, const RunSummary *summary, const TrainingCost *cost, JsonBuilder *builder);
/* One run over its days: steps kept, dp, interruptions by kind. Owned by the caller; NULL with IMPOSSIBLE: it does not
 * end. */
Picture *run_picture(const RunSetup *setup, guint64 seed, const char *title, GError **error);
