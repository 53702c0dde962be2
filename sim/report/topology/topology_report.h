/* A cluster's topology for people and scripts: text, picture and JSON of the same graph. Bandwidths are per direction,
 * as specified, unless a column says otherwise; GB = 1e9 bytes. */
#pragma once
#include "route.h"
#include "topology_check.h"

typedef struct RankGrid RankGrid; /* rank_grid.h */

/* Fabric and node as trees, who shares what, how costs treat the wiring, nodes that differ, totals, findings. */
void topology_text(GString *out, const Topology *topology, const GArray *findings);
/* A path hop by hop; the narrowest one is marked. */
void topology_text_route(GString *out, const Topology *topology, const Route *route);

/* {name, file, gpus, nodes, gpus_per_node, domain_gpus, totals{…_Bps}, vertices[]{name, kind, node}, links[]{a, b,
 * kind, parallel, bandwidth_Bps, efficiency, factor, left_Bps, latency_s}, wiring{what, ring_Bps[],
 * all_to_all_Bps[], net_Bps}, findings[]{severity, what, advice}, route, grid{order, ranks[]{rank,
 * gpu, tp, cp, ep, dp, pp}, groups[]{kind, size, slowest, sharing, rate_Bps, groups[]{ranks[], over[], links[]}}}}.
 * Bandwidths that are not stated are null.
 * `wiring` follows wiring.h, null if the node carries everything that is stated: what a GPU reaches, without faults,
 * in a ring and in an all-to-all exchange among 2, 3, … neighbouring GPUs, and over its NICs while all GPUs send;
 * for a node whose GPUs are not all joined, only `what`. `route` and `grid` may be NULL. Owned by the caller. */
char *topology_json(const Topology *topology, const GArray *findings, const Route *route, const RankGrid *grid);

/* A picture as a complete SVG document: the first node, and one block of every level of the fabric above it. Link
 * kinds differ in dashes and width, not only in colour. Owned by the caller. */
char *topology_svg(const Topology *topology);

/* Totals of a whole cluster, per direction. */
typedef struct {
  double node_scale_up_Bps; /* of all GPUs of a node together */
  double node_net_Bps;      /* of all NICs of a node */
  double gpu_net_Bps;       /* a GPU's share of that */
  double bisection_Bps;     /* between two halves of the topology's nodes, limited by the narrowest level; 0: one
                               node */
} TopologyTotals;
TopologyTotals topology_totals(const Topology *topology);
