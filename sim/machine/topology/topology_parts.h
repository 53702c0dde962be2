/* Names of vertices and the limit on links, shared by the topology's own files. */
#pragma once
#include "topology.h"

enum { TOPOLOGY_MOST_LINKS = 1 << 24 };

/* Whether a vertex of that name exists when the cluster has as many GPUs as it can. */
gboolean topology_name_is_valid(const Cluster *cluster, const char *name);
/* "expected …; did you mean …?" Owned by the caller. */
char *topology_name_advice(const Topology *topology, const char *name);
