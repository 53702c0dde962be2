/* Time against size, as measured: what tables of kernels and of links are made of. */
#pragma once

typedef struct {
  double size_bytes, time_s;
} CurvePoint;

/* A curve is a run of points, ascending in size, no size twice, in an array of all points of its table. */
typedef struct {
  int first_point, n_points; /* 0 points: there is no such curve */
} CurveSpan;
