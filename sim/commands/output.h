/* Where verbs write. */
#pragma once
#include <glib.h>

/* `file` "-" is standard output. The file appears whole or not at all. INPUT naming the file and the reason. */
gboolean output_text(const char *file, const char *text, GError **error);

/* Columns that drawings on standard output may take: $COLUMNS, the terminal's, or 120; 40 to 10,000. */
int output_columns(void);

/* An option that prints to standard output. */
typedef struct {
  const char *option; /* "--json" */
  gboolean given;
  const char *file;   /* for options that print to a file: they count when it is "-" */
  gboolean in_report; /* adds to the report: these go together, but not with what takes the report's place */
} Printed;

/* A file that an option names; NULL: not given. */
typedef struct {
  const char *option, *file;
} Written;

/* Of `written` (ends with a NULL option) no two are one file, under whatever names: one would be written over the
 * other. Standard output and devices are left alone. INPUT naming both. */
gboolean output_check_apart(const Written *written, GError **error);

/* Of `printed` (ends with a NULL option) at most one takes the place of the report; *replaced says whether one does.
 * INPUT naming two that clash. */
gboolean output_check_printed(const Printed *printed, gboolean *replaced, GError **error);
