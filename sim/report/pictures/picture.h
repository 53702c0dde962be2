/* A picture before it is drawn: a script of plots/, the data it reads and its variables. It can be written to a
 * file, shown in a terminal, or output as data for drawing by hand. */
#pragma once
#include <glib.h>

typedef struct {
  char *script;       /* plots/<script>.gp; owned */
  GString *data;      /* in the columns of the script's header; owned */
  GString *variables; /* the script's, as gnuplot's code: "title='…'; limit='…'; "; owned */
  GString *notes;     /* lines shown below it in a terminal; may be empty; owned */
  char *text;         /* how a terminal shows it; NULL: gnuplot's text output; owned */
} Picture;

/* Without data yet. `title` NULL: the script's own. */
Picture *picture_new(const char *script, const char *title);
void picture_free(Picture *picture);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Picture, picture_free)

/* Checks that the file name has one of the suffixes .svg, .png and .pdf. INPUT. */
gboolean picture_check_file(const char *file, GError **error);
/* Checks that a time axis from 0 to `end_ns` can be drawn, i.e. that something takes time. INPUT naming `what`. */
gboolean picture_check_span(gint64 end_ns, const char *what, GError **error);

/* Set a variable to any text; gnuplot converts numbers itself. */
void picture_set(Picture *picture, const char *name, const char *value);
void picture_set_number(Picture *picture, const char *name, double value);

/* Append to the data. Numbers have nine significant digits (NaN is kept), texts are quoted; both are preceded by a
 * blank within a line. */
void picture_add_number(Picture *picture, double value);
void picture_add_text(Picture *picture, const char *text);
void picture_end_row(Picture *picture);
/* Start a block, two empty lines after the previous one, with its name in quotes. */
void picture_begin_block(Picture *picture, const char *name);
/* The same, but only if `name` differs from `previous` (NULL: none). */
void picture_begin_series(Picture *picture, const char *name, const char *previous);

/* To a .svg, .png or .pdf file. INPUT: unknown suffix, gnuplot not installed, script not found, an error reported by
 * gnuplot, or a file that cannot be written; no partial file is left behind. */
gboolean picture_write(const Picture *picture, const char *file, GError **error);
/* The same, taking over the picture; NULL stands for an error already set. */
gboolean picture_take(Picture *picture, const char *file, GError **error);
/* As the text of an .svg file, likewise. Owned by the caller. */
char *picture_take_svg(Picture *picture, GError **error);
/* For a terminal of that many columns. Owned by the caller; NULL with INPUT as
 * picture_write(). */
char *picture_text(const Picture *picture, int columns, GError **error);
/* The data, preceded by comment lines with the `gnuplot` call that draws it. Owned by the caller. */
char *picture_data(const Picture *picture);
