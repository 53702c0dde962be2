/* What measured rows are read with where they do not say it themselves. */
#pragma once
#include "measured_rows.h"

typedef struct {
  char *framework;     /* owned; as rows name it, spelled as a file's name is */
  const char *read_as; /* borrowed from the rows */
  guint n_rows;
} ReadAs;

/* Frameworks that topologies/published/releases.yaml reads as another file, by both names, in the order in which rows
 * bring them up: GArray of ReadAs, owned by the caller. */
GArray *read_as_count(const MeasuredRows *rows);
