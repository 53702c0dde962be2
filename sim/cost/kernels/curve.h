/* Time read off measured points (bytes, time): between two neighbours a straight line in bytes, as latency plus bytes
 * over bandwidth is one. Points spaced evenly in log(bytes) then cost nothing of the line's truth. What lies outside of
 * the points is up to the caller, as kernels and links differ there. */
#pragma once
#include "curve_point.h"

/* first ≤ size_bytes ≤ last of the n ≥ 1 points. */
double curve_between_s(const CurvePoint *points, int n, double size_bytes);
