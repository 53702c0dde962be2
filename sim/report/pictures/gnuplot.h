/* Pictures through gnuplot: a script of plots/ run on data. */
#pragma once
#include <glib.h>

/* A variable the script reads; an array of them ends with a NULL name. */
typedef struct {
  const char *name;  /* as in the script */
  const char *value; /* any text; gnuplot reads numbers out of text by itself */
} GnuplotVariable;

/* Whether a picture can be named so: a suffix as below. INPUT. */
gboolean gnuplot_check_file(const char *file, GError **error);
/* Whether a time axis from 0 to `end_ns` can be drawn: no picture shows what takes no time. INPUT naming the file. */
gboolean gnuplot_check_span(gint64 end_ns, const char *file, GError **error);
/* Run plots/<script>.gp on `data` (the script's header says the columns) and write the picture to `file`, whose suffix
 * says the format: .svg, .png or .pdf. `variables` may be NULL. INPUT: unknown suffix, gnuplot not installed, script
 * not found, what gnuplot complained about, or a file that cannot be written; no part of a file is left then. */
gboolean gnuplot_run(const char *script, const char *data, const GnuplotVariable *variables, const char *file,
                     GError **error);
/* The same drawn in letters, for a terminal of so many columns and rows; no escape sequences. Owned by the caller; NULL
 * with an error as gnuplot_run(). */
char *gnuplot_text(const char *script, const char *data, const GnuplotVariable *variables, int columns, int rows,
                   GError **error);
/* The variables as gnuplot's code: "title='…'; limit='…'; ". Owned by the caller. */
char *gnuplot_assignments(const GnuplotVariable *variables);
