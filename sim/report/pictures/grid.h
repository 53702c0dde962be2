/* A value over two properties of a configuration: a map of cells. */
#pragma once
#include "picture.h"

typedef enum {
  GRID_FITS,
  GRID_DOES_NOT_FIT, /* in memory: has a value, is hatched */
  GRID_CANNOT_BE,    /* no value */
} GridState;

typedef struct {
  double value;
  GridState state;
} GridCell;

typedef struct {
  const char *title, *xlabel, *ylabel;
  const char *zlabel;         /* what the values are, with their unit */
  const char *digits;         /* how they are written, for printf: "%.1f" */
  const char *const *columns; /* names, as many as n_columns */
  const char *const *rows;    /* row 0 lies at the bottom */
  int n_columns, n_rows;
  const GridCell *cells; /* [rows × columns] */
} Grid;

/* Also of a grid in which nothing fits. Owned by the caller; NULL with INPUT when no cell can be. */
Picture *grid_picture(const Grid *grid, GError **error);
