/* Time read off measured points (bytes, time): linear in bytes between neighbours, as latency plus bytes over
 * bandwidth is. With points spaced evenly in log(bytes) this stays exact for such a line. Extrapolation is up to the
 * caller, as kernels and links differ there. */
#pragma once
#include "curve_point.h"

/* Needs points[0].size_bytes ≤ size_bytes ≤ points[n − 1].size_bytes, n ≥ 1. */
double curve_between_s(const CurvePoint *points, int n, double size_bytes);
