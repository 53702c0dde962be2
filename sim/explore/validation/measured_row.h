/* A row of measured_rows.h. */
#pragma once
#include "csv_table.h"
#include "model.h"
#include "plan.h"

typedef struct {
  const CsvTable *table;  /* borrowed, as are the texts below */
  guint index;            /* index of the row in it */
  const char *id;         /* "" if unknown */
  const char *cluster;    /* as for cluster_read() */
  const char *read_as;    /* the framework file that describes how it ran, by name; "": none */
  gboolean is_by_release; /* that file comes from a rule in published_releases.h, not from the row */
  double step_time_s;     /* NAN: ran out of memory */
  double memory_bytes;    /* NAN: unknown */
  Model *model;           /* owned; NULL with a problem */
  Plan *plan;             /* owned, not completed; NULL with a problem */
  gint64 unused_vocab;    /* vocabulary the row states, if the model it is named for has another and replaces it;
                             0: none */
  char *problem;          /* owned; why the row cannot be read or modelled, else NULL */
} MeasuredRow;

/* The row's cell in the column of that name; "" if its table has no such column. Borrowed. */
const char *measured_row_cell(const MeasuredRow *row, const char *column);
/* "measured.csv:12". Owned by the caller. */
char *measured_row_place(const MeasuredRow *row);
