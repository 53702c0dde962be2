#include "meetings.h"

/* Of a rank, in the order of time. */
typedef struct {
  guint rank;
  GArray *activities; /* of gint32; owned */
} RankList;

typedef struct {
  const char *op, *ranks;
  gint64 stream; /* of unnamed groups: its number; a communicator has one of its own */
} Key;

static guint hash_key(gconstpointer data) {
  const Key *key = data;
  return g_direct_hash(key->op) ^ 31 * g_direct_hash(key->ranks) ^ (guint)key->stream << 10;
}

static gboolean same_key(gconstpointer a, gconstpointer b) {
  const Key *x = a, *y = b;
  return x->op == y->op && x->ranks == y->ranks && x->stream == y->stream;
}

static void rank_list_clear(gpointer data) {
  g_array_unref(((RankList *)data)->activities);
}

static void array_free(gpointer data) {
  g_array_unref(data);
}

static const ProfileCollective *collective_of(const Profile *profile, const ProfileActivity *activity) {
  return activity->collective_index >= 0
             ? &g_array_index(profile->collectives, ProfileCollective, activity->collective_index)
             : NULL;
}

/* Key → GArray of RankList. */
static GHashTable *list_groups(const Profile *profile) {
  GHashTable *groups = g_hash_table_new_full(hash_key, same_key, g_free, array_free);
  for (guint r = 0; r < profile->ranks->len; r++) {
    const ProfileRank *rank = profile_rank(profile, r);
    for (guint i = 0; i < rank->activities->len; i++) {
      const ProfileActivity *activity = profile_activity(rank, i);
      const ProfileCollective *collective = collective_of(profile, activity);
      if (collective == NULL)
        continue;
      const Key key = {collective->op, collective->ranks,
                       collective->ranks == NULL ? g_array_index(rank->streams, gint64, activity->stream) : 0};
      GArray *lists = g_hash_table_lookup(groups, &key);
      if (lists == NULL) {
        lists = g_array_new(FALSE, FALSE, sizeof(RankList));
        g_array_set_clear_func(lists, rank_list_clear);
        g_hash_table_insert(groups, g_memdup2(&key, sizeof key), lists);
      }
      if (lists->len == 0 || g_array_index(lists, RankList, lists->len - 1).rank != r) {
        const RankList list = {r, g_array_new(FALSE, FALSE, sizeof(gint32))};
        g_array_append_val(lists, list);
      }
      const gint32 at = (gint32)i;
      g_array_append_val(g_array_index(lists, RankList, lists->len - 1).activities, at);
    }
  }
  return groups;
}

/* --- which of one rank is which of another --- */

static gint compare_times(gconstpointer a, gconstpointer b) {
  const gint64 x = *(const gint64 *)a, y = *(const gint64 *)b;
  return (x > y) - (x < y);
}

/* Sorts. */
static gint64 median_of(GArray *times) {
  g_array_sort(times, compare_times);
  return g_array_index(times, gint64, times->len / 2);
}

static gint64 end_ns(const Profile *profile, const RankList *list, gint64 i) {
  return profile_activity(profile_rank(profile, list->rank), (guint)g_array_index(list->activities, gint32, i))->end_ns;
}

/* How far two ranks' clocks are apart if the i-th of `x` is the (i + shift)-th of `y`, and how well that fits: the
 * median of what single ends are off. FALSE: too few would be the same. */
static gboolean try_shift(const Profile *profile, const RankList *x, const RankList *y, gint64 shift, gint64 *apart_ns,
                          gint64 *off_ns) {
  enum { ENOUGH = 1000 };
  const gint64 n_x = x->activities->len, n_y = y->activities->len, begin = MAX(0, -shift), end = MIN(n_x, n_y - shift);
  if (end <= begin || 2 * (end - begin) < MIN(n_x, n_y))
    return FALSE;
  g_autoptr(GArray) times = g_array_new(FALSE, FALSE, sizeof(gint64));
  for (gint64 i = begin; i < MIN(end, begin + ENOUGH); i++) {
    const gint64 ns = end_ns(profile, x, i) - end_ns(profile, y, i + shift);
    g_array_append_val(times, ns);
  }
  *apart_ns = median_of(times);
  for (guint i = 0; i < times->len; i++)
    g_array_index(times, gint64, i) = ABS(g_array_index(times, gint64, i) - *apart_ns);
  *off_ns = median_of(times);
  return TRUE;
}

/* Recordings begin and end at different times: the shift that fits best, that of equal last ones unless another fits
 * far better. */
static gint64 find_shift(const Profile *profile, const RankList *x, const RankList *y, gint64 *apart_ns,
                         gint64 *off_ns) {
  enum { FARTHEST = 64, FAR_BETTER = 4, FEW = 3 };
  const gint64 last = (gint64)y->activities->len - x->activities->len;
  gint64 best = last, least_ns = G_MAXINT64, ns, off;
  if (try_shift(profile, x, y, last, apart_ns, off_ns))
    least_ns = *off_ns / FAR_BETTER;
  for (gint64 shift = last - FARTHEST; shift <= last + FARTHEST; shift++)
    if (MIN(x->activities->len, y->activities->len) > FEW && try_shift(profile, x, y, shift, &ns, &off) &&
        off < least_ns) {
      best = shift;
      least_ns = off;
      *apart_ns = ns;
      *off_ns = off;
    }
  return best;
}

/* Adds to members[i], for the i-th of the first list, those of the others that are the same. */
static void match_lists(const Profile *profile, const GArray *lists, GPtrArray *members, gint64 *n_unfit) {
  static const gint64 most_off_ns = 1000000;
  const RankList *first = &g_array_index(lists, RankList, 0);
  for (guint l = 1; l < lists->len; l++) {
    const RankList *list = &g_array_index(lists, RankList, l);
    gint64 apart_ns = 0, off_ns = G_MAXINT64;
    const gint64 shift = find_shift(profile, first, list, &apart_ns, &off_ns);
    for (gint64 i = MAX(0, -shift); i < MIN((gint64)first->activities->len, (gint64)list->activities->len - shift);
         i++) {
      const gint64 ns = end_ns(profile, first, i) - end_ns(profile, list, i + shift);
      if (off_ns > most_off_ns || ABS(ns - apart_ns) > most_off_ns) {
        ++*n_unfit;
        continue;
      }
      const MeetingMember member = {list->rank, g_array_index(list->activities, gint32, i + shift)};
      g_array_append_val((GArray *)members->pdata[i], member);
    }
  }
}

static void add_group(const Profile *profile, const GArray *lists, Meetings *meetings) {
  const RankList *first = &g_array_index(lists, RankList, 0);
  g_autoptr(GPtrArray) members = g_ptr_array_new_with_free_func(array_free);
  for (guint i = 0; i < first->activities->len; i++) {
    GArray *own = g_array_new(FALSE, FALSE, sizeof(MeetingMember));
    const MeetingMember member = {first->rank, g_array_index(first->activities, gint32, i)};
    g_array_append_val(own, member);
    g_ptr_array_add(members, own);
  }
  match_lists(profile, lists, members, &meetings->n_unfit);
  for (guint i = 0; i < members->len; i++) {
    const GArray *own = members->pdata[i];
    const Meeting meeting = {meetings->members->len, own->len};
    if (own->len < 2)
      continue;
    g_array_append_vals(meetings->members, own->data, own->len);
    g_array_append_val(meetings->meetings, meeting);
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
  g_autoptr(GHashTable) groups = list_groups(profile);
  Meetings *meetings = g_new0(Meetings, 1);
  meetings->meetings = g_array_new(FALSE, FALSE, sizeof(Meeting));
  meetings->members = g_array_new(FALSE, FALSE, sizeof(MeetingMember));
  GHashTableIter iter;
  gpointer value;
  g_hash_table_iter_init(&iter, groups);
  while (g_hash_table_iter_next(&iter, NULL, &value))
    add_group(profile, value, meetings);
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
  if (apart->len > 0)
    *offset_ns = median_of(apart);
  return apart->len > 0;
}

void meetings_align(Profile *profile) {
  g_autoptr(Meetings) meetings = meetings_new(profile);
  g_autofree gboolean *is_set = g_new0(gboolean, profile->ranks->len);
  is_set[0] = profile_rank(profile, 0)->has_clock = TRUE;
  for (gboolean goes_on = TRUE; goes_on;) {
    goes_on = FALSE;
    for (guint r = 1; r < profile->ranks->len; r++)
      if (!is_set[r] && find_offset(profile, meetings, is_set, r, &profile_rank(profile, r)->offset_ns))
        goes_on = is_set[r] = profile_rank(profile, r)->has_clock = TRUE;
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
  return own->issued_ns >= 0 && own->issued_ns > free_ns;
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
  if (last_ns == next_ns)
    return;
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
