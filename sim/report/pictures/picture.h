/* A picture before it is drawn: a script of plots/, the data it reads, what its variables are. It can be written as a
 * file, shown in a terminal, or handed out as data to draw by hand. */
#pragma once
#include <glib.h>

typedef struct {
  char *script;     /* plots/<script>.gp; owned */
  GString *data;    /* as the script's header says; owned */
  GPtrArray *names; /* of the script's variables; of char * */
  GPtrArray *values;
  GString *notes; /* lines below it in a terminal; may be empty; owned */
  char *text;     /* how a terminal shows it; NULL: as gnuplot draws in letters; owned */
} Picture;

/* Without data yet. `title` may be NULL: the script's own. */
Picture *picture_new(const char *script, const char *title);
void picture_free(Picture *picture);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Picture, picture_free)

/* A variable: any text. Given again, the later value counts. */
void picture_set(Picture *picture, const char *name, const char *value);
void picture_set_number(Picture *picture, const char *name, double value);
const char *picture_get(const Picture *picture, const char *name); /* NULL: not set */

/* Append to the data. Numbers have nine significant digits (NaN stays), texts are quoted; both begin with a blank
 * within a line. */
void picture_add_number(Picture *picture, double value);
void picture_add_text(Picture *picture, const char *text);
void picture_end_row(Picture *picture);
/* A block begins, two empty lines after the one before: its name in quotes. */
void picture_begin_block(Picture *picture, const char *name);
/* The same where `name` is another than `previous` (NULL: none). */
void picture_begin_series(Picture *picture, const char *name, const char *previous);

/* To a .svg, .png or .pdf file. INPUT as gnuplot_run(). */
gboolean picture_write(const Picture *picture, const char *file, GError **error);
/* The same with a picture that is taken over; NULL stands for an error already set. */
gboolean picture_take(Picture *picture, const char *file, GError **error);
/* For a terminal of so many columns. Owned by the caller; NULL with INPUT as gnuplot_text(). */
char *picture_text(const Picture *picture, int columns, GError **error);
/* The data under comment lines that say how to draw it: what `gnuplot` is called with. Owned by the caller. */
char *picture_data(const Picture *picture);
