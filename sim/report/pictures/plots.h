/* Curves and points over many runs, drawn by the scripts of plots/. Owned by the caller; NULL with INPUT if there
 * are no points. Rows of one series are contiguous, in drawing order. */
#pragma once
#include "picture.h"

typedef struct {
  const char *schedule; /* the series */
  int n_micro_batches;
  double simulated, closed_form; /* bubble fraction, idle / step; NAN = unknown */
} BubblePoint;
/* `joined`: connect the simulated points by lines; otherwise they are expected to lie on the closed forms. */
Picture *plot_bubble(const BubblePoint *points, int n_points, gboolean joined, const char *title, GError **error);

typedef struct {
  const char *series;
  int n_gpus;
  double value;     /* MFU as a share; GB */
  gboolean fits;    /* in memory */
  double low, high; /* between these four of five cases are, drawn as a band; 0: not known */
} GpusPoint;
Picture *plot_mfu(const GpusPoint *points, int n_points, const char *title, GError **error);
/* Memory against GPUs. `capacity_GB`: a line across; 0: none. */
Picture *plot_state(const GpusPoint *points, int n_points, double capacity_GB, const char *title, GError **error);

typedef struct {
  const char *series;
  double bytes, busbw_Bps;
} BusbwPoint;
/* `limit_Bps`: what a ring could reach, drawn as a line; 0: none. With several series, the first is the library's
 * choice among the others. */
Picture *plot_busbw(const BusbwPoint *points, int n_points, double limit_Bps, const char *title, GError **error);

typedef enum { PARETO_FRONT, PARETO_BEATEN, PARETO_DOES_NOT_FIT, N_PARETO } ParetoPlace;
typedef struct {
  const char *label; /* listed beside the picture */
  double x, y;       /* in the units of the axis names; less x and more y is better */
  ParetoPlace place; /* (set by pareto_rank()) */
  double low, high;  /* of y: between these four of five cases are, drawn for the front; 0: not known */
} ParetoPoint;
typedef struct {
  const char *title, *xlabel, *ylabel;
  double capacity; /* position of a vertical line; 0: none */
} ParetoLook;
/* Fill `place`: the front is what fits and is not beaten. A point beats another if its x is no larger and its y no
 * smaller, unless they are equal in both: then both may be on the front. `fits[i]` FALSE: point i is
 * PARETO_DOES_NOT_FIT. Sorts by x, then falling y, then label; `fits` is in input order. */
void pareto_rank(ParetoPoint *points, const gboolean *fits, int n_points);
Picture *plot_pareto(const ParetoPoint *points, int n_points, const ParetoLook *look, GError **error);

typedef struct {
  const char *series;
  double measured_s, predicted_s; /* both above 0 */
} ValidationPoint;
Picture *plot_validation(const ValidationPoint *points, int n_points, const char *title, GError **error);

/* A value over two properties of a configuration: a map of cells. */

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
  const GridCell *cells;    /* [rows × columns] */
  const char *const *texts; /* of the cells, instead of their values, which then only shade; NULL: none */
  const char *const *notes; /* lines below the map, NULL-terminated; NULL: none */
} Grid;

/* Also draws a grid in which nothing fits. Owned by the caller; NULL with INPUT if no cell is possible. */
Picture *grid_picture(const Grid *grid, GError **error);
