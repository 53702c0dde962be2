#include "meetings.h"

typedef struct {
  const char *op, *ranks;
  guint back;    /* how many of the group come from here on */
  guint total;   /* of unnamed groups: how many there are on the rank's stream; 0 of named ones */
  gint64 stream; /* of unnamed groups: its number; a communicator has one of its own */
} Key;

static guint hash_key(gconstpointer data) {
  const Key *key = data;
  return g_direct_hash(key->op) ^ 31 * g_direct_hash(key->ranks) ^ 2654435761u * key->back ^ key->total << 20 ^
         (guint)key->stream << 10;
}

static gboolean same_key(gconstpointer a, gconstpointer b) {
  const Key *x = a, *y = b;
  return x->op == y->op && x->ranks == y->ranks && x->back == y->back && x->total == y->total && x->stream == y->stream;
}

static void array_free(gpointer data) {
  g_array_unref(data);
}

static const ProfileCollective *collective_of(const Profile *profile, const ProfileActivity *activity) {
  return activity->collective_index >= 0
             ? &g_array_index(profile->collectives, ProfileCollective, activity->collective_index)
             : NULL;
}

/* Adds the rank's collectives to those who met, by key. */
static void add_rank(const Profile *profile, guint r, GHashTable *met) {
  const ProfileRank *rank = profile_rank(profile, r);
  g_autoptr(GHashTable) counts = g_hash_table_new_full(hash_key, same_key, g_free, NULL);
  for (int pass = 0; pass < 2; pass++) /* counts, then adds */
    for (guint i = rank->activities->len; i-- > 0;) {
      const ProfileCollective *collective = collective_of(profile, profile_activity(rank, i));
      if (collective == NULL)
        continue;
      const gint64 stream =
          collective->ranks == NULL ? g_array_index(rank->streams, gint64, profile_activity(rank, i)->stream) : 0;
      const Key group = {collective->op, collective->ranks, pass == 0 ? 0 : 1, 0, stream};
      const guint n = GPOINTER_TO_UINT(g_hash_table_lookup(counts, &group)) + 1;
      g_hash_table_insert(counts, g_memdup2(&group, sizeof group), GUINT_TO_POINTER(n));
      if (pass == 0)
        continue;
      const Key all = {collective->op, collective->ranks, 0, 0, stream};
      const guint total = GPOINTER_TO_UINT(g_hash_table_lookup(counts, &all));
      const Key key = {collective->op, collective->ranks, n, collective->ranks == NULL ? total : 0, stream};
      GArray *members = g_hash_table_lookup(met, &key);
      if (members == NULL)
        g_hash_table_insert(met, g_memdup2(&key, sizeof key),
                            members = g_array_new(FALSE, FALSE, sizeof(MeetingMember)));
      const MeetingMember member = {r, (gint32)i};
      g_array_append_val(members, member);
    }
}

static gint compare_first(gconstpointer a, gconstpointer b, gpointer data) {
  const Meeting *x = a, *y = b;
  const MeetingMember *of = data;
  if (of[x->first].rank != of[y->first].rank)
    return of[x->first].rank < of[y->first].rank ? -1 : 1;
  return (of[x->first].activity > of[y->first].activity) - (of[x->first].activity < of[y->first].activity);
}

Meetings *meetings_new(const Profile *profile) {
  g_autoptr(GHashTable) met = g_hash_table_new_full(hash_key, same_key, g_free, array_free);
  for (guint r = 0; r < profile->ranks->len; r++)
    add_rank(profile, r, met);
  Meetings *meetings = g_new(Meetings, 1);
  meetings->meetings = g_array_new(FALSE, FALSE, sizeof(Meeting));
  meetings->members = g_array_new(FALSE, FALSE, sizeof(MeetingMember));
  GHashTableIter iter;
  gpointer value;
  g_hash_table_iter_init(&iter, met);
  while (g_hash_table_iter_next(&iter, NULL, &value)) {
    const GArray *members = value;
    const Meeting meeting = {meetings->members->len, members->len};
    if (members->len < 2)
      continue;
    g_array_append_vals(meetings->members, members->data, members->len);
    g_array_append_val(meetings->meetings, meeting);
  }
  g_array_sort_with_data(meetings->meetings, compare_first, meetings->members->data);
  return meetings;
}

void meetings_free(Meetings *meetings) {
  if (meetings == NULL)
    return;
  g_array_unref(meetings->meetings);
  g_array_unref(meetings->members);
  g_free(meetings);
}

static const ProfileActivity *activity_of(const Profile *profile, const MeetingMember *member) {
  return profile_activity(profile_rank(profile, member->rank), (guint)member->activity);
}

/* --- clocks --- */

static gint compare_times(gconstpointer a, gconstpointer b) {
  const gint64 x = *(const gint64 *)a, y = *(const gint64 *)b;
  return (x > y) - (x < y);
}

/* What the rank's clock is behind those that are set; FALSE: it met none of them. */
static gboolean find_offset(const Profile *profile, const Meetings *meetings, const gboolean *is_set, guint rank,
                            gint64 *offset_ns) {
  g_autoptr(GArray) apart = g_array_new(FALSE, FALSE, sizeof(gint64));
  for (guint m = 0; m < meetings->meetings->len; m++) {
    const Meeting *meeting = &g_array_index(meetings->meetings, Meeting, m);
    const MeetingMember *members = &g_array_index(meetings->members, MeetingMember, meeting->first);
    const MeetingMember *own = NULL, *other = NULL;
    for (guint i = 0; i < meeting->n; i++) {
      own = members[i].rank == rank ? &members[i] : own;
      other = other == NULL && is_set[members[i].rank] ? &members[i] : other;
    }
    if (own == NULL || other == NULL)
      continue;
    const gint64 ns = activity_of(profile, other)->end_ns + profile_rank(profile, other->rank)->offset_ns -
                      activity_of(profile, own)->end_ns;
    g_array_append_val(apart, ns);
  }
  g_array_sort(apart, compare_times);
  if (apart->len > 0)
    *offset_ns = g_array_index(apart, gint64, apart->len / 2);
  return apart->len > 0;
}

void meetings_align(Profile *profile) {
  g_autoptr(Meetings) meetings = meetings_new(profile);
  g_autofree gboolean *is_set = g_new0(gboolean, profile->ranks->len);
  is_set[0] = TRUE;
  for (gboolean goes_on = TRUE; goes_on;) {
    goes_on = FALSE;
    for (guint r = 1; r < profile->ranks->len; r++)
      if (!is_set[r] && find_offset(profile, meetings, is_set, r, &profile_rank(profile, r)->offset_ns))
        goes_on = is_set[r] = TRUE;
  }
}

/* --- who comes late --- */

static gint64 arrival_ns(const Profile *profile, const MeetingMember *member) {
  return activity_of(profile, member)->start_ns + profile_rank(profile, member->rank)->offset_ns;
}

/* Whether the rank's stream had nothing to do when the collective was issued. */
static gboolean was_issued_late(const Profile *profile, const MeetingMember *member) {
  const ProfileRank *rank = profile_rank(profile, member->rank);
  const ProfileActivity *own = activity_of(profile, member);
  gint64 free_ns = G_MININT64;
  enum { FAR = 64 };
  for (gint32 i = member->activity - 1; i >= 0 && i > member->activity - FAR; i--)
    free_ns = MAX(free_ns, MIN(profile_activity(rank, (guint)i)->end_ns, own->start_ns));
  return own->issued_ns > free_ns;
}

static gboolean is_in_steps(const ProfileRank *rank, const ProfileActivity *activity) {
  const GArray *steps = rank->steps;
  return steps->len == 0 || (activity->start_ns >= g_array_index(steps, ProfileStep, 0).begin_ns &&
                             activity->start_ns < g_array_index(steps, ProfileStep, steps->len - 1).end_ns);
}

static void add_meeting(const Profile *profile, const MeetingMember *members, guint n, RankLateness *ranks) {
  const MeetingMember *last = &members[0];
  gint64 last_ns = arrival_ns(profile, last), next_ns = G_MININT64;
  for (guint i = 1; i < n; i++) {
    const gint64 ns = arrival_ns(profile, &members[i]);
    if (ns > last_ns) {
      next_ns = last_ns;
      last_ns = ns;
      last = &members[i];
    } else {
      next_ns = MAX(next_ns, ns);
    }
  }
  for (guint i = 0; i < n; i++) {
    ranks[members[i].rank].n_meetings++;
    ranks[members[i].rank].waited_ns += last_ns - arrival_ns(profile, &members[i]);
  }
  RankLateness *late = &ranks[last->rank];
  late->n_last++;
  late->cost_ns += last_ns - next_ns;
  late->worst_ns = MAX(late->worst_ns, last_ns - next_ns);
  late->n_late_by_host += was_issued_late(profile, last);
}

RankLateness *meetings_lateness(const Profile *profile, const Meetings *meetings) {
  RankLateness *ranks = g_new0(RankLateness, profile->ranks->len);
  for (guint m = 0; m < meetings->meetings->len; m++) {
    const Meeting *meeting = &g_array_index(meetings->meetings, Meeting, m);
    const MeetingMember *members = &g_array_index(meetings->members, MeetingMember, meeting->first);
    if (is_in_steps(profile_rank(profile, members->rank), activity_of(profile, members)))
      add_meeting(profile, members, meeting->n, ranks);
  }
  return ranks;
}
