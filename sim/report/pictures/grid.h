/* A value over two properties of a configuration: a map of cells. */
#pragma once
#include "picture.h"

typedef enum {
  GRID_FITS,
  GRID_DOES_NOT_FIT, /* in memory; has a value, drawn hatched */
  GRID_CANNOT_BE,    /* no value */
} GridState;

typedef struct {
  double value;
  GridState state;
} GridCell;

typedef struct {
  const char *title, *xlabel, *ylabel;
  const char *zlabel;         /* what the values are, with the unit */
  const char *digits;         /* printf format of the values: "%.1f" */
  const char *const *columns; /* names, as many as n_columns */
  const char *const *rows;    /* row 0 is at the bottom */
  int n_columns, n_rows;
  const GridCell *cells; /* [rows × columns] */
} Grid;

/* Also draws a grid in which nothing fits. Owned by the caller; NULL with INPUT if no cell is possible. */
Picture *grid_picture(const Grid *grid, GError **error);
