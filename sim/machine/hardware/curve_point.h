/* Measured time against size: the points of kernel and link tables. */
#pragma once

typedef struct {
  double size_bytes, time_s;
} CurvePoint;

/* A curve is a run of points in the array of its table, ascending in size, without duplicates. */
typedef struct {
  int first_point, n_points; /* 0 points: there is no curve */
} CurveSpan;
