#include "profile_sums.h"

enum { COMPUTES = 1, COMMUNICATES = 2, COPIES = 4 };

static guint bit_of(ProfileKind kind) {
  return kind == PROFILE_COLLECTIVE ? COMMUNICATES : kind == PROFILE_COPY ? COPIES : COMPUTES;
}

/* An activity begins or ends within the time that is looked at. */
typedef struct {
  gint64 at_ns;
  gint32 change; /* of how many run */
  guint bit;
} Edge;

static gint compare_edges(gconstpointer a, gconstpointer b) {
  const Edge *x = a, *y = b;
  return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

/* Of the activities of one stream, or of all (−1), from begin to end. */
static GArray *edges_of(const ProfileRank *rank, gint32 stream, gint64 begin_ns, gint64 end_ns) {
  GArray *edges = g_array_new(FALSE, FALSE, sizeof(Edge));
  for (guint i = 0; i < rank->activities->len; i++) {
    const ProfileActivity *activity = profile_activity(rank, i);
    const Edge from = {MAX(activity->start_ns, begin_ns), 1, bit_of(activity->kind)},
               to = {MIN(activity->end_ns, end_ns), -1, from.bit};
    if (to.at_ns <= from.at_ns || (stream >= 0 && activity->stream != stream))
      continue;
    g_array_append_val(edges, from);
    g_array_append_val(edges, to);
  }
  g_array_sort(edges, compare_edges);
  return edges;
}

static void add_span(ProfileTimes *times, guint doing, gint64 ns) {
  times->computing_ns += doing & COMPUTES ? ns : 0;
  times->communicating_ns += doing & COMMUNICATES ? ns : 0;
  times->copying_ns += doing & COPIES ? ns : 0;
  times->hidden_ns += (doing & (COMPUTES | COMMUNICATES)) == (COMPUTES | COMMUNICATES) ? ns : 0;
  times->busy_ns += doing != 0 ? ns : 0;
}

static void add_edges(ProfileTimes *times, const GArray *edges, gint64 begin_ns, gint64 end_ns) {
  gint32 n_running[COPIES + 1] = {0};
  gint64 at_ns = begin_ns;
  guint doing = 0;
  for (guint i = 0; i < edges->len; i++) {
    const Edge *edge = &g_array_index(edges, Edge, i);
    add_span(times, doing, edge->at_ns - at_ns);
    at_ns = edge->at_ns;
    n_running[edge->bit] += edge->change;
    doing = n_running[edge->bit] > 0 ? doing | edge->bit : doing & ~edge->bit;
  }
  times->step_ns = end_ns - begin_ns;
  times->idle_ns = times->step_ns - times->busy_ns;
}

/* Idle time before an activity, as far as it had not been issued. */
static gint64 waited_for_host(const ProfileRank *rank, gint64 begin_ns, gint64 end_ns) {
  gint64 free_ns = begin_ns, waited_ns = 0;
  for (guint i = 0; i < rank->activities->len; i++) {
    const ProfileActivity *activity = profile_activity(rank, i);
    const gint64 start_ns = MIN(activity->start_ns, end_ns);
    if (start_ns > free_ns && activity->issued_ns >= 0)
      waited_ns += CLAMP(activity->issued_ns, free_ns, start_ns) - free_ns;
    free_ns = MAX(free_ns, activity->end_ns);
  }
  return waited_ns;
}

static void sum_kinds(const ProfileRank *rank, ProfileRankSums *sums) {
  for (guint i = 0; i < rank->activities->len; i++) {
    const ProfileActivity *activity = profile_activity(rank, i);
    const gint64 ns = MIN(activity->end_ns, sums->end_ns) - MAX(activity->start_ns, sums->begin_ns);
    if (ns <= 0)
      continue;
    sums->kinds[activity->kind].ns += ns;
    sums->kinds[activity->kind].n++;
  }
}

static void sum_rank(const ProfileRank *rank, ProfileRankSums *sums) {
  const ProfileActivity *first = profile_activity(rank, 0);
  const GArray *steps = rank->steps;
  sums->begin_ns = steps->len > 0 ? g_array_index(steps, ProfileStep, 0).begin_ns : first->start_ns;
  sums->end_ns = steps->len > 0 ? g_array_index(steps, ProfileStep, steps->len - 1).end_ns : 0;
  for (guint i = 0; steps->len == 0 && i < rank->activities->len; i++)
    sums->end_ns = MAX(sums->end_ns, profile_activity(rank, i)->end_ns);
  sums->n_steps = MAX(1, steps->len);
  g_autoptr(GArray) edges = edges_of(rank, -1, sums->begin_ns, sums->end_ns);
  add_edges(&sums->times, edges, sums->begin_ns, sums->end_ns);
  sums->times.host_ns = waited_for_host(rank, sums->begin_ns, sums->end_ns);
  sums->streams = g_new0(ProfileTimes, rank->streams->len);
  for (guint stream = 0; stream < rank->streams->len; stream++) {
    g_autoptr(GArray) own = edges_of(rank, (gint32)stream, sums->begin_ns, sums->end_ns);
    add_edges(&sums->streams[stream], own, sums->begin_ns, sums->end_ns);
  }
  sum_kinds(rank, sums);
}

/* --- rows --- */

static gint compare_rows(gconstpointer a, gconstpointer b) {
  const ProfileRow *x = a, *y = b;
  return (x->sum.ns < y->sum.ns) - (x->sum.ns > y->sum.ns);
}

/* One row per key of what lies in the steps; the key is never NULL. */
static GArray *rows_by(const ProfileSums *sums, gpointer (*key_of)(const ProfileActivity *activity)) {
  g_autoptr(GHashTable) places = g_hash_table_new(NULL, NULL);
  GArray *rows = g_array_new(FALSE, FALSE, sizeof(ProfileRow));
  for (guint r = 0; r < sums->profile->ranks->len; r++) {
    const ProfileRank *rank = profile_rank(sums->profile, r);
    for (guint i = 0; i < rank->activities->len; i++) {
      const ProfileActivity *activity = profile_activity(rank, i);
      const gint64 ns = MIN(activity->end_ns, sums->ranks[r].end_ns) - MAX(activity->start_ns, sums->ranks[r].begin_ns);
      gpointer key = ns > 0 ? key_of(activity) : NULL, place;
      if (key == NULL)
        continue;
      if (!g_hash_table_lookup_extended(places, key, NULL, &place)) {
        const ProfileRow row = {.index = (gint32)i, .rank = r};
        place = GUINT_TO_POINTER(rows->len);
        g_hash_table_insert(places, key, place);
        g_array_append_val(rows, row);
      }
      ProfileRow *row = &g_array_index(rows, ProfileRow, GPOINTER_TO_UINT(place));
      row->sum.ns += ns;
      row->sum.n++;
    }
  }
  g_array_sort(rows, compare_rows);
  return rows;
}

static gpointer name_of(const ProfileActivity *activity) {
  return (gpointer)activity->name;
}

static gpointer collective_of(const ProfileActivity *activity) {
  return activity->collective_index >= 0 ? GINT_TO_POINTER(activity->collective_index + 1) : NULL;
}

ProfileSums *profile_sums_new(const Profile *profile) {
  ProfileSums *sums = g_new(ProfileSums, 1);
  *sums = (ProfileSums){.profile = profile, .ranks = g_new0(ProfileRankSums, profile->ranks->len)};
  for (guint i = 0; i < profile->ranks->len; i++)
    sum_rank(profile_rank(profile, i), &sums->ranks[i]);
  sums->kernels = rows_by(sums, name_of);
  sums->collectives = rows_by(sums, collective_of);
  return sums;
}

void profile_sums_free(ProfileSums *sums) {
  if (sums == NULL)
    return;
  for (guint i = 0; i < sums->profile->ranks->len; i++)
    g_free(sums->ranks[i].streams);
  g_free(sums->ranks);
  g_array_unref(sums->kernels);
  g_array_unref(sums->collectives);
  g_free(sums);
}
