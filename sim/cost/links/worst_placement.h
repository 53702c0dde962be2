/* Where the transfers of a folded run, which stand for those of all ranks of a stage, are placed worst. */
#pragma once
#include "layout.h"
#include "program.h"

/* The ranks (of int) of pipeline rank 0 that stand for all of it; bounded by the domain, not by dp, but where spans of
 * the fabric may lie anywhere. Owned by the caller. */
GArray *worst_placement_ranks(const Layout *layout, const Cluster *cluster);
/* [groups of the program]: the shape of each, where it is worst; `ranks` as above. Owned by the caller. */
GroupShape *worst_placement_shapes(const Layout *layout, const Cluster *cluster, const GArray *ranks,
                                   const Program *program);
