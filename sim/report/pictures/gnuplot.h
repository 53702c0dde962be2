/* Pictures through gnuplot: a script of plots/ run on data. */
#pragma once
#include <glib.h>

/* A variable the script reads; an entry with a NULL name ends an array of them. */
typedef struct {
  const char *name;  /* as in the script */
  const char *value; /* any text; gnuplot converts numbers itself */
} GnuplotVariable;

/* Checks that the file name has one of the suffixes below. INPUT. */
gboolean gnuplot_check_file(const char *file, GError **error);
/* Checks that a time axis from 0 to `end_ns` can be drawn, i.e. that something takes time. INPUT naming the file. */
gboolean gnuplot_check_span(gint64 end_ns, const char *file, GError **error);
/* Run plots/<script>.gp on `data` (columns: see the script's header) and write the picture to `file`, in the format
 * of its suffix: .svg, .png or .pdf. `variables` may be NULL. INPUT: unknown suffix, gnuplot not installed, script
 * not found, an error reported by gnuplot, or a file that cannot be written; no partial file is left behind. */
gboolean gnuplot_run(const char *script, const char *data, const GnuplotVariable *variables, const char *file,
                     GError **error);
/* The same as text, for a terminal of that many columns and rows; no escape sequences. Owned by the caller; NULL
 * with an error as gnuplot_run(). */
char *gnuplot_text(const char *script, const char *data, const GnuplotVariable *variables, int columns, int rows,
                   GError **error);
/* The variables as gnuplot's code: "title='…'; limit='…'; ". Owned by the caller. */
char *gnuplot_assignments(const GnuplotVariable *variables);
