/* What limits a collective: the boundaries that its bytes cross. A group is seen as nested enclosures (a GPU, the
 * scale-up domain around it, the fabric tiers around that). Each encloses some members and has some bandwidth out of
 * it, while all groups of the same axis run at once. */
#pragma once
#include "cluster.h"
#include "layout.h"

typedef struct {
  double members;   /* of the group inside one enclosure: the enclosure with the fewest */
  double Bps;       /* out of that enclosure, for all its members together */
  double with_root; /* members inside the enclosure of the root */
  LinkKind link;
} Boundary;

enum { MAX_BOUNDARIES = 2 + CLUSTER_MAX_LEVELS };

/* Fills `out` from the innermost enclosure to the outermost and returns their number (0 for n = 1). is_direct: each
 * member sends to all others rather than to the next, which makes a difference on a mesh or PCIe tree. */
int enclosures_find(const Cluster *cluster, const GroupShape *shape, gboolean is_direct, Boundary out[MAX_BOUNDARIES]);

LinkKind scale_up_link(const Cluster *cluster);
/* Usable bandwidth per GPU and direction, while nothing inside the node is shared. */
double scale_up_Bps(const Cluster *cluster);
/* The same, as the node's wiring leaves it to the members of a group, or to a send between two GPUs of a domain. */
double group_scale_up_Bps(const Cluster *cluster, const GroupShape *shape, gboolean is_direct);
double send_scale_up_Bps(const Cluster *cluster, int from, int to);
/* Usable bandwidth of one NIC. The cluster must have some. */
double nic_Bps(const Cluster *cluster);
/* A GPU's part of all its node's NICs, while every GPU of the node uses them. */
double nic_share_Bps(const Cluster *cluster);
/* Shares of bandwidth that faults and wiring leave; 1 where everything is sound and carries what is stated.
 * domain_health: of what `members` GPUs, `gap` apart (< 1: unevenly), carry out of a domain in equal parts, after
 * faults. domain_share: the same after faults and the nodes' wiring. level_health: of what leaves the spans below a
 * level, after faults. */
double domain_health(const Cluster *cluster, int members, int gap);
double domain_share(const Cluster *cluster, int members, int gap);
double level_health(const Cluster *cluster, int level);
/* The least bandwidth between domains; +∞ for a group inside one. */
double least_net_Bps(const Cluster *cluster, const GroupShape *shape);

/* The least of the bandwidths out of a group's enclosures: what a ring through all of them gets. */
double collective_bus_Bps(const Cluster *cluster, const GroupShape *shape, LinkKind *slowest);
