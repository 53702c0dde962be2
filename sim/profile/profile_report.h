/* What a profile shows, as text, JSON, a Chrome trace and a picture. */
#pragma once
#include "picture.h"
#include "profile_rings.h"
#include "profile_shapes.h"
#include "profile_sums.h"

/* Kernels in the table: so many that take the most time. */
void profile_text(GString *out, const ProfileSums *sums, int n_kernels, gboolean colour);
/* `shapes`, `rings` NULL: not asked for. Owned by the caller. */
char *profile_json(const ProfileSums *sums, const ProfileShapes *shapes, const ProfileRings *rings, int n_kernels);
/* As Chrome trace events on the first rank's clock, a process per rank and a thread per stream; owned by the caller. */
char *profile_chrome(const Profile *profile);
/* The timeline of a step, of the first ranks. INPUT if nothing takes any time. */
Picture *profile_picture(const ProfileSums *sums, GError **error);
