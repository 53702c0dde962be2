/* Points of measured curves, as calls in a profile gave them. */
#pragma once
#include <glib.h>

#include "curve_point.h"

typedef struct {
  const char *curve; /* its name, interned: points of one curve have the same pointer */
  CurvePoint point;
  gint64 n;  /* calls that it stands for */
  guint row; /* place of what it was made of, for the caller */
} CurveRow;

/* By curve, then size. */
gint curve_rows_compare(gconstpointer a, gconstpointer b);
/* Sorts by curve and size. Of two points of a curve of which the larger takes no longer, the one with fewer calls
 * goes: caches, waiting and chance do that, and between and beyond its points a curve has to grow. */
void curve_rows_keep_growing(GArray *rows);
