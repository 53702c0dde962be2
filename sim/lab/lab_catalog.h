/* What there is to choose from, for the page: the fields of a plan with their help and ranges, the names of what is
 * shipped, and where to start. */
#pragma once
#include "options.h"

/* As a JSON object; owned by the caller. NULL with INPUT if a file that was typed cannot be read. */
char *lab_catalog(const PlanOptions *at_first, GError **error);
