/* The range of values that a reader accepts, ends included. */
#pragma once
#include <glib.h>

typedef struct {
  gint64 least, most;
} IntegerRange;

typedef struct {
  double least, most;
} RealRange;
