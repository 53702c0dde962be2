/* What a time axis counts in. */
#pragma once
#include <glib.h>

typedef struct {
  const char *name; /* "ms"; "units" where times are relative */
  double ns;        /* nanoseconds in one */
} TimeUnit;

/* The largest of ns, us, ms and s that is not longer than `span_ns`. */
TimeUnit time_unit_for(gint64 span_ns);
