/* How framework names of measured rows were resolved if a row does not name a release. */
#pragma once
#include "measured_rows.h"

typedef struct {
  char *framework;     /* owned; the name in the rows, spelled like a file's name */
  const char *read_as; /* borrowed from the rows */
  guint n_rows;
} ReadAs;

/* Frameworks that topologies/published/releases.yaml reads as another file, under both names, in the order in which
 * rows mention them: GArray of ReadAs, owned by the caller. */
GArray *read_as_count(const MeasuredRows *rows);
