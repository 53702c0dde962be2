/* Collectives of a profile beside what the cost model says of them on a cluster.
 *
 * A collective's kernels wait in it for the members that are late. Who comes last waits for nobody, so the shortest of
 * the members' times is that in which all are there; no clocks need to be compared for it. Where not all members were
 * recorded, the last may be missing and waiting is inside: then the least of all calls comes nearest.
 *
 * Which nodes a group lies on follows from its ranks: the first gpus_per_node of the job are the first node's. */
#pragma once
#include "cluster.h"
#include "collective.h"
#include "profile.h"

typedef struct {
  Collective op;
  int gpus, nodes; /* the same number on each node */
  double bytes;    /* of the full buffer, as nccl-tests counts it */
  gint64 n;        /* calls, of all groups of this kind */
  double time_s;   /* the median; the least if waiting is inside */
  gboolean waits;  /* of none of them were all members recorded */
  double modelled_s;
} ProfileRing;

typedef struct {
  GArray *rings;   /* of ProfileRing, by op, GPUs, nodes and bytes; owned */
  gint64 n_untold; /* calls whose group or bytes the file does not tell */
  gint64 n_other;  /* sends, barriers and other operations that the cluster's tables do not have */
  gint64
      n_misplaced; /* of groups that would not be spread evenly over the cluster's nodes, or that it has no links for */
} ProfileRings;

/* `cluster` sound (cluster_check_sound()). */
ProfileRings *profile_rings_new(const Profile *profile, const Cluster *cluster);
void profile_rings_free(ProfileRings *rings);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ProfileRings, profile_rings_free)

void profile_rings_text(GString *out, const ProfileRings *rings, const Cluster *cluster, int n_shown, gboolean colour);
/* A cluster file with the measured times, based on `base`, the name or file of `cluster`; owned by the caller. */
char *profile_rings_yaml(const ProfileRings *rings, const Profile *profile, const Cluster *cluster, const char *base);
