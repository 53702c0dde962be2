/* A predicted step beside a recorded one, by the parts of a step and by kinds of kernel: means over ranks and steps.
 * The two need not be of one Program. */
#pragma once
#include <json-glib/json-glib.h>

#include "profile_sums.h"

typedef struct {
  const char *name; /* static */
  double predicted_s, measured_s;
} ProfileDifference;

typedef struct {
  const Profile *predicted, *measured;
  GArray *parts; /* of ProfileDifference, the step first; owned, as are the kinds */
  GArray *kinds; /* what differs most first */
} ProfileCompare;

ProfileCompare *profile_compare_new(const Profile *predicted, const Profile *measured);
void profile_compare_free(ProfileCompare *compare);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ProfileCompare, profile_compare_free)

void profile_compare_text(GString *out, const ProfileCompare *compare, gboolean colour);
/* The members `parts` and `kinds` of an object. */
void profile_compare_add(JsonBuilder *json, const ProfileCompare *compare);
/* Owned by the caller. */
char *profile_compare_json(const ProfileCompare *compare);
