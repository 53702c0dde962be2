/* What `stepsim collective` is asked: options to a cluster, an operation, the members and the sizes. */
#pragma once
#include "collective_cost.h"
#include "picture.h"

enum { NOT_GIVEN = G_MININT };

typedef struct {
  char *cluster, *op, *ranks, *rank_map, *bytes, *algorithm, *plot, *steps_of, *output; /* NULL: not given */
  char **logs;                                                                          /* of --fit; NULL: not given */
  gint gpus, root;                                                                      /* NOT_GIVEN */
  gboolean json, curves;
} CollectiveOptions;

typedef struct {
  Cluster *cluster; /* owned */
  Collective op;
  int algorithm; /* −1: the fastest */
  GroupShape shape;
  int root;      /* its place among the ranks, as nccl-tests counts it */
  GArray *sizes; /* of double: bytes; owned */
} Request;

/* INPUT, or IMPOSSIBLE where the cluster has no such ranks or algorithm. Cleared by the caller in any case. */
gboolean collective_request_read(const CollectiveOptions *o, Request *request, GError **error);
void collective_request_clear(Request *request);

/* Busbw against size, a curve per algorithm. `title` NULL: says what is drawn. Owned by the caller. */
Picture *collective_picture(const Request *request, const char *title, GError **error);

/* A name as --op takes it. */
gboolean collective_op_parse(const char *text, Collective *op, GError **error);

/* `--fit`: read the logs, fit, print or write the rows for a cluster file. */
gboolean collective_fit(const CollectiveOptions *o, GError **error);
