/* Whether a Program of the caller's (edited text, say) can be run as this model under this plan. */
#pragma once
#include "program.h"
#include "workload.h"

/* INPUT when it cannot. */
gboolean program_belongs(const Program *program, const Workload *workload, GError **error);
