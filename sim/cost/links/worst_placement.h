/* The worst placement of the transfers of a folded run, each of which stands for those of all ranks of a stage. */
#pragma once
#include "layout.h"
#include "program.h"

/* The ranks (of int) of pipeline rank 0 that represent all of it. Their number is bounded by the domain, not by dp,
 * except where spans of the fabric may lie anywhere. Owned by the caller. */
GArray *worst_placement_ranks(const Layout *layout, const Cluster *cluster);
/* The worst shape of a group of the program; `ranks` as above. */
GroupShape worst_placement_shape(const Layout *layout, const Cluster *cluster, const int *ranks, int n_ranks,
                                 const Group *group);
