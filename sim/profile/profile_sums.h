/* What a rank's GPU did in its steps, in sums. Time in which several streams did something counts once for each kind of
 * doing, so
 *
 *     computing + communicating + copying − beside each other + idle = step
 *
 * and idle time is the host's as far as the next activity was not yet issued. */
#pragma once
#include "profile.h"

typedef struct {
  gint64 ns; /* sum over activities, which may run beside each other */
  gint64 n;
} ProfileSum;

typedef struct {
  gint64 step_ns, computing_ns, communicating_ns, copying_ns;
  gint64 hidden_ns; /* communicating beside computing */
  gint64 busy_ns;   /* in which anything ran */
  gint64 idle_ns;   /* the rest of the step */
  gint64 host_ns;   /* of that: until the next activity was issued */
} ProfileTimes;

typedef struct {
  ProfileSum sum;
  gint32 index; /* of the first activity of its kind: its name, operator, collective */
  guint rank;   /* the place of the rank that activity is of */
} ProfileRow;

typedef struct {
  gint64 begin_ns, end_ns; /* of the steps, or of all that was recorded; the first rank's clock is not applied */
  gint64 n_steps;          /* 1: none were found, and what follows is of all that was recorded */
  ProfileTimes times;      /* sums over the steps */
  ProfileSum kinds[N_PROFILE_KINDS];
  ProfileTimes *streams; /* [streams]: of each alone, idle and host meaningless; owned */
} ProfileRankSums;

typedef struct {
  const Profile *profile;
  ProfileRankSums *ranks; /* [ranks]; owned */
  GArray *kernels;        /* of ProfileRow over all ranks, by time; owned */
  GArray *collectives;    /* of ProfileRow likewise: one per op, group and bytes */
} ProfileSums;

ProfileSums *profile_sums_new(const Profile *profile);
void profile_sums_free(ProfileSums *sums);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ProfileSums, profile_sums_free)
