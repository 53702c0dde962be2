/* What `stepsim collective` is asked for: options turned into a cluster, an operation, its members and the sizes. */
#pragma once
#include "collective_cost.h"
#include "picture.h"

enum { NOT_GIVEN = G_MININT };

typedef struct {
  char *cluster, *op, *ranks, *rank_map, *bytes, *algorithm, *plot, *steps_of, *output; /* NULL: not given */
  char **logs;     /* --fit's logs; NULL: not given */
  gint gpus, root; /* or NOT_GIVEN */
  gboolean json, curves;
} CollectiveOptions;

typedef struct {
  Cluster *cluster; /* owned */
  Collective op;
  int algorithm; /* −1: the fastest */
  GroupShape shape;
  int root;      /* its index among the ranks, as in nccl-tests */
  GArray *sizes; /* of double, in bytes; owned */
} Request;

/* INPUT, or IMPOSSIBLE if the cluster has no such ranks or algorithm. The caller clears `request` in either case. */
gboolean collective_request_read(const CollectiveOptions *o, Request *request, GError **error);
void collective_request_clear(Request *request);

/* Busbw against size, one curve per algorithm. `title` NULL: a default that describes the picture. Owned by the
 * caller. */
Picture *collective_picture(const Request *request, const char *title, GError **error);

/* Parse a name as --op takes it. */
gboolean collective_op_parse(const char *text, Collective *op, GError **error);

/* `--fit`: read the logs, fit, print or write the rows for a cluster file. */
gboolean collective_fit(const CollectiveOptions *o, GError **error);
/* The same section of a cluster file, owned by the caller; what was fitted is appended to `report`, as YAML comments. */
char *collective_fit_section(const CollectiveOptions *o, GString *report, GError **error);
