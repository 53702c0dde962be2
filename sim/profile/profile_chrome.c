#include "json_values.h"
#include "profile_report.h"

static void append_event(GString *out, const Profile *profile, guint r, const ProfileActivity *activity) {
  const ProfileRank *rank = profile_rank(profile, r);
  const gint64 first_ns = profile_activity(profile_rank(profile, 0), 0)->start_ns; /* so that times stay exact */
  g_string_append(out, ",\n{\"ph\":\"X\",\"cat\":");
  json_append_string(out, profile_kind_name(activity->kind));
  g_string_append(out, ",\"name\":");
  json_append_string(out, activity->name);
  g_string_append_printf(out, ",\"pid\":%u,\"tid\":%" G_GINT64_FORMAT ",\"ts\":", r,
                         g_array_index(rank->streams, gint64, activity->stream));
  json_append_number(out, (double)(activity->start_ns + rank->offset_ns - first_ns) * 1e-3);
  g_string_append(out, ",\"dur\":");
  json_append_number(out, (double)(activity->end_ns - activity->start_ns) * 1e-3);
  g_string_append_c(out, '}');
}

char *profile_chrome(const Profile *profile) {
  GString *out = g_string_new("{\"otherData\":{\"made_by\":\"stepsim trace\"},\"traceEvents\":[\n");
  for (guint r = 0; r < profile->ranks->len; r++) {
    const ProfileRank *rank = profile_rank(profile, r);
    g_string_append_printf(
        out, "%s{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"rank %" G_GINT64_FORMAT "\"}}",
        r > 0 ? ",\n" : "", r, rank->rank);
    for (guint i = 0; i < rank->activities->len; i++)
      append_event(out, profile, r, profile_activity(rank, i));
  }
  g_string_append(out, "\n]}\n");
  return g_string_free(out, FALSE);
}
