/* The unknowns of a fit: what a cluster's file says of a machine without having measured it there. Each is a number of
 * the cluster, of its links or of as_run.h, and has a prior: log-normal about what the file says, or about a small
 * value where it says nothing, and as wide as machines like it differ. */
#pragma once
#include "cluster.h"

typedef struct {
  const char *key;     /* in the cluster's file: "as_run.rate", "node.nic.step" */
  const char *what;    /* in words */
  int unit;            /* UnitKind; −1: a share or factor */
  double spread;       /* of the prior: the standard deviation of the logarithm */
  gboolean of_network; /* nothing to a run inside a scale-up domain */
} Unknown;

enum { UNKNOWN_RATE }; /* as_run.rate is the first */
int unknowns_count(void);
const Unknown *unknown_at(int i);
/* Whether a cluster has that number at all: one without NICs has no step to another node. */
gboolean unknown_applies(const Cluster *cluster, int i);
/* What the file says of it. */
double unknown_value(const Cluster *cluster, int i);
/* The median of its prior, on a cluster whose file says that. */
double unknown_median(const Cluster *cluster, int i);
/* The nearest value that its key may have. */
double unknown_within(int i, double value);
/* Sets it in a copy of a cluster, which shares all else with it, to the nearest value within its range, which is
 * returned. */
double unknown_set(Cluster *copy, int i, double value);
/* "12.00 ms", "0.9312": as the cluster's file has it, to four digits. Owned by the caller. */
char *unknown_text(int i, double value);
