/* Output of verbs: files, standard output, and a check that one of them has standard output. */
#pragma once
#include "plan_file.h"

/* Write `text` to `file`, completely or not at all; "-" is standard output. INPUT with the file and the reason. */
gboolean output_text(const char *file, const char *text, GError **error);

/* Write a plan's file to its path. */
gboolean output_plan(const PlanFile *file, GError **error);

/* Width in columns for drawings on standard output: $COLUMNS, the terminal's width, or 120; within 40 to 10,000. */
int output_columns(void);

/* An option that prints to standard output. */
typedef struct {
  const char *option; /* "--json" */
  gboolean given;
  const char *file;   /* for options that print to a file: counts only if it is "-" */
  gboolean in_report; /* adds to the report; such options combine with each other, but not with one that replaces the
                         report */
} Printed;

/* Check that at most one of `printed` (ends with a NULL option) replaces the report, and set *replaced if one does.
 * INPUT naming two that clash. */
gboolean output_check_printed(const Printed *printed, gboolean *replaced, GError **error);
