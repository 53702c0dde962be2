/* The figures of `stepsim plot`: from options and files to a Picture. */
#pragma once
#include "picture.h"
#include "plot_options.h"

typedef struct {
  const char *name;
  const char *summary; /* for --help */
  guint heeds;         /* set of Heed */
  int most_files;      /* arguments after the figure's name */
  /* `files` ends with NULL. Owned by the caller; NULL with INPUT or IMPOSSIBLE. */
  Picture *(*make)(PlotOptions *o, char **files, GError **error);
} Figure;

/* Ends with a NULL name. */
const Figure *figures(void);
