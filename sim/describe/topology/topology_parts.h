/* Names of vertices, for topology.c alone. */
#pragma once
#include "topology.h"

/* Whether a cluster of any size could have a vertex of that name. */
gboolean topology_name_is_valid(const Cluster *cluster, const char *name);
/* "expected …; did you mean …?" Owned by the caller. */
char *topology_name_advice(const Topology *topology, const char *name);
