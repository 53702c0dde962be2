/* The unit of a time axis. */
#pragma once
#include <glib.h>

typedef struct {
  const char *name; /* "ms"; "units" for relative times */
  double ns;        /* nanoseconds per unit */
} TimeUnit;

/* The largest of ns, us, ms and s that is no longer than `span_ns`. */
TimeUnit time_unit_for(gint64 span_ns);
