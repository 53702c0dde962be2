/* A lane per rank: what it computes, below it what it communicates and copies. All on the first rank's clock. */
#include "profile_report.h"
#include "timeline.h"

enum { MOST_LANES = 16 };

static int kind_of(ProfileKind kind) {
  return kind == PROFILE_COLLECTIVE ? TIMELINE_DP : kind == PROFILE_COPY ? TIMELINE_COPY_IN : TIMELINE_F;
}

static void add_lane(TimelineBoxes *boxes, const ProfileRank *rank, gint64 begin_ns, gint64 span_ns) {
  timeline_boxes_begin(boxes, span_ns);
  for (guint i = 0; i < rank->activities->len; i++) {
    const ProfileActivity *activity = profile_activity(rank, i);
    const gint64 start_ns = activity->start_ns + rank->offset_ns - begin_ns,
                 end_ns = activity->end_ns + rank->offset_ns - begin_ns;
    const TimelineBox box = {.start_ns = MAX(start_ns, 0),
                             .end_ns = MIN(end_ns, span_ns),
                             .kind = kind_of(activity->kind),
                             .micro_batch = -1};
    if (box.end_ns > box.start_ns && !timeline_boxes_join(boxes, &box))
      timeline_boxes_add(boxes, &box);
  }
  timeline_boxes_end(boxes);
}

/* The last whole step of the first rank, or all that was recorded. */
Picture *profile_picture(const ProfileSums *sums, GError **error) {
  const Profile *profile = sums->profile;
  const ProfileRank *first = profile_rank(profile, 0);
  const ProfileStep *last =
      first->steps->len > 0 ? &g_array_index(first->steps, ProfileStep, first->steps->len - 1) : NULL;
  const gint64 begin_ns = last != NULL ? last->begin_ns : sums->ranks[0].begin_ns,
               span_ns = (last != NULL ? last->end_ns : sums->ranks[0].end_ns) - begin_ns;
  if (!picture_check_span(span_ns, "the timeline", error))
    return NULL;
  const TimeUnit unit = time_unit_for(span_ns);
  Picture *picture = picture_new("timeline", "");
  g_autofree char *xlabel = g_strdup_printf("time (%s)", unit.name);
  g_autoptr(GString) lanes = g_string_new(NULL);
  TimelineBoxes boxes = {.data = picture->data,
                         .unit_ns = unit.ns,
                         .join_ns = span_ns / TIMELINE_SPANS_PER_LANE,
                         .side = TIMELINE_ONE_SIDE};
  for (guint r = 0; r < MIN(profile->ranks->len, MOST_LANES); r++) {
    const ProfileRank *rank = profile_rank(profile, r);
    g_string_append_printf(lanes, "%s%" INT64, r > 0 ? " " : "", MAX(rank->rank, 0));
    boxes.lane = (int)r;
    add_lane(&boxes, rank, begin_ns, span_ns);
  }
  picture_set(picture, "xlabel", xlabel);
  picture_set(picture, "ylabel", "rank");
  picture_set(picture, "lanes", lanes->str);
  picture_set(picture, "recorded", "1");
  return picture;
}
