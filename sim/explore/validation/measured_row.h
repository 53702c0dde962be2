/* A row of measured_rows.h. */
#pragma once
#include "csv_table.h"
#include "model.h"
#include "plan.h"

typedef struct {
  const CsvTable *table;  /* borrowed, as are the texts below */
  guint index;            /* of the row in it */
  const char *id;         /* "" when unknown */
  const char *cluster;    /* as for cluster_read() */
  const char *read_as;    /* the framework whose file says how it ran, by that file's name; "": none does */
  gboolean is_by_release; /* that is not what the row says but a rule's of published_releases.h */
  double step_time_s;     /* NAN: ran out of memory */
  double memory_bytes;    /* NAN: unknown */
  Model *model;           /* owned; NULL with a problem */
  Plan *plan;             /* owned, not completed; NULL with a problem */
  gint64 unused_vocab;    /* what it prints, where the model it is named for has another in its place; 0: none */
  char *problem;          /* owned; why this cannot be read or modelled, else NULL */
} MeasuredRow;

/* The row's cell in the column of that name; "" where its table has no such column. Borrowed. */
const char *measured_row_cell(const MeasuredRow *row, const char *column);
/* "measured.csv:12". Owned by the caller. */
char *measured_row_place(const MeasuredRow *row);
