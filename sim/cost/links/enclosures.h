/* What limits a collective: the boundaries that its bytes cross. A group is seen as nested enclosures (a GPU, the
 * scale-up domain around it, the fabric tiers around that), each with so many members in it and so much bandwidth out
 * of it, while all groups of the same axis run at once. */
#pragma once
#include "cluster.h"
#include "layout.h"

typedef struct {
  double members;   /* of the group inside one enclosure: the one with the fewest */
  double Bps;       /* out of that enclosure, for all of them together */
  double with_root; /* members inside the enclosure of the root */
  LinkKind link;
} Boundary;

enum { MAX_BOUNDARIES = 2 + CLUSTER_MAX_LEVELS };

/* From the innermost enclosure to the outermost; returns how many there are (none for n = 1). is_direct: each member
 * sends to all others rather than to the next, which a mesh and a PCIe tree carry otherwise. */
int enclosures_find(const Cluster *cluster, const GroupShape *shape, gboolean is_direct, Boundary out[MAX_BOUNDARIES]);

LinkKind scale_up_link(const Cluster *cluster);
/* Usable, per GPU and direction, while nothing inside the node is shared. */
double scale_up_Bps(const Cluster *cluster);
/* The same as the node's wiring leaves it to the members of a group, and to a send between two GPUs of a domain. */
double group_scale_up_Bps(const Cluster *cluster, const GroupShape *shape, gboolean is_direct);
double send_scale_up_Bps(const Cluster *cluster, int from, int to);
/* Usable, of one NIC. The cluster must have some. */
double nic_Bps(const Cluster *cluster);
/* A GPU's part of all its node's NICs, while every GPU of the node uses them. */
double nic_share_Bps(const Cluster *cluster);
/* Share that faults leave of what so many members, `gap` apart (< 1: unevenly), carry out of a domain in equal parts;
 * what the wiring of nodes leaves, too; and what faults leave of what comes out of the spans below a level. 1 where all
 * is sound and carries what is stated. */
double domain_health(const Cluster *cluster, int members, int gap);
double domain_share(const Cluster *cluster, int members, int gap);
double level_health(const Cluster *cluster, int level);
/* Of what lies between domains; +∞ for a group inside one. */
double least_net_Bps(const Cluster *cluster, const GroupShape *shape);

/* The least of the bandwidths out of a group's enclosures: what a ring through all of them has. */
double collective_bus_Bps(const Cluster *cluster, const GroupShape *shape, LinkKind *slowest);
