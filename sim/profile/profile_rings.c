#include "profile_rings.h"

#include <math.h>
#include <string.h>

#include "collective_cost.h"
#include "curve_rows.h"
#include "measured_links_cost.h"
#include "meetings.h"
#include "sort_doubles.h"
#include "text_report.h"
#include "units.h"

/* --- where a group lies --- */

static GArray *even_ranks(gint64 first, gint64 stride, gint64 n) {
  GArray *ranks = g_array_new(FALSE, FALSE, sizeof(gint64));
  for (gint64 i = 0; i < n; i++) {
    const gint64 rank = first + i * stride;
    g_array_append_val(ranks, rank);
  }
  return ranks;
}

/* What stands for the ranks in between is taken for equal strides. NULL: there are none. */
static GArray *fill_ranks(const GArray *listed, gint64 size) {
  enum { ENOUGH = 3 };
  const gint64 *ranks = (const gint64 *)(const void *)listed->data;
  if (listed->len < ENOUGH || listed->len > size ||
      ranks[0] + (size - 1) * (ranks[1] - ranks[0]) != ranks[listed->len - 1])
    return NULL;
  for (guint i = 0; i + 1 < listed->len; i++)
    if (ranks[i] != ranks[0] + i * (ranks[1] - ranks[0]))
      return NULL;
  return even_ranks(ranks[0], ranks[1] - ranks[0], size);
}

/* Ranks as PyTorch lists them, "[0, 8, 16]"; of more than 30 the first 29, "..." and the last. NULL: not those of a
 * group of `size`. Owned by the caller. */
static GArray *ranks_of(const char *text, gint64 size) {
  g_autoptr(GArray) ranks = g_array_new(FALSE, FALSE, sizeof(gint64));
  gboolean is_cut = FALSE;
  if (text == NULL || *text != '[')
    return NULL;
  for (const char *at = text + 1; *at != ']';) {
    char *end;
    const gint64 rank = g_ascii_strtoll(at, &end, 10);
    if (g_str_has_prefix(at, "...")) {
      is_cut = TRUE;
      end = (char *)at + strlen("...");
    } else if (end == at || rank < 0 || rank >= G_MAXINT32) {
      return NULL;
    } else {
      g_array_append_val(ranks, rank);
    }
    at = end + strspn(end, ", ");
  }
  if (is_cut)
    return fill_ranks(ranks, size);
  return ranks->len == size ? g_steal_pointer(&ranks) : NULL;
}

/* Of which each has as many of the ranks; 0: they are spread unevenly. */
static int nodes_of(const GArray *ranks, int gpus_per_node) {
  g_autoptr(GHashTable) members = g_hash_table_new(NULL, NULL); /* node → number */
  guint most = 0;
  for (guint i = 0; i < ranks->len; i++) {
    const gpointer node = GINT_TO_POINTER((gint)(g_array_index(ranks, gint64, i) / gpus_per_node));
    const guint n = GPOINTER_TO_UINT(g_hash_table_lookup(members, node)) + 1;
    g_hash_table_insert(members, node, GUINT_TO_POINTER(n));
    most = MAX(most, n);
  }
  const guint n_nodes = g_hash_table_size(members);
  return most * n_nodes == ranks->len ? (int)n_nodes : 0;
}

/* --- calls --- */

typedef struct {
  ProfileRing ring;
  GArray *times_s; /* of double: of calls with all members; owned */
  double least_s;  /* of the others */
  gint64 n_others;
} Calls;

static guint hash_ring(gconstpointer data) {
  const ProfileRing *ring = data;
  return (guint)ring->op ^ 31 * (guint)ring->gpus ^ 8191 * (guint)ring->nodes ^ g_double_hash(&ring->bytes);
}

static gboolean same_ring(gconstpointer a, gconstpointer b) {
  const ProfileRing *x = a, *y = b;
  return x->op == y->op && x->gpus == y->gpus && x->nodes == y->nodes && x->bytes == y->bytes;
}

static void calls_free(gpointer data) {
  Calls *calls = data;
  g_array_unref(calls->times_s);
  g_free(calls);
}

typedef enum { RING_IS_KNOWN, RING_IS_UNTOLD, RING_IS_OTHER, RING_IS_MISPLACED } RingPlace;

static gboolean op_of(const char *name, Collective *op) {
  for (int i = 0; i < N_COLLECTIVES; i++)
    if (i != COLLECTIVE_SEND_RECV && g_str_equal(collective_name((Collective)i), name)) {
      *op = (Collective)i;
      return TRUE;
    }
  return FALSE;
}

/* `ring`: but for the times. */
static RingPlace ring_of(const ProfileCollective *collective, gint64 world_size, const Cluster *cluster,
                         ProfileRing *ring) {
  static const double most_bytes = 1e15;
  enum { MOST_GPUS = 1000000 }; /* both as a cluster file takes them */
  const gint64 n = collective->group_size;
  if (!op_of(collective->op, &ring->op))
    return RING_IS_OTHER;
  if (n < 2 || n > MOST_GPUS || !(collective->bytes >= 1) || collective->bytes > most_bytes)
    return RING_IS_UNTOLD;
  g_autoptr(GArray) told = ranks_of(collective->ranks, n);
  g_autoptr(GArray) ranks = told != NULL ? g_array_ref(told) : n == world_size ? even_ranks(0, 1, n) : NULL;
  if (ranks == NULL)
    return RING_IS_UNTOLD;
  ring->gpus = (int)ranks->len;
  ring->nodes = nodes_of(ranks, cluster->gpus_per_node);
  ring->bytes = collective->bytes;
  const gboolean is_reached = (gint64)ring->nodes * cluster->gpus_per_node <= cluster->domain_gpus ||
                              ring->nodes == 1 || cluster->nics_per_node > 0;
  return ring->nodes > 0 && is_reached ? RING_IS_KNOWN : RING_IS_MISPLACED;
}

static Calls *calls_of(GHashTable *all, const ProfileRing *ring) {
  Calls *calls = g_hash_table_lookup(all, ring);
  if (calls == NULL) {
    calls = g_new(Calls, 1);
    *calls = (Calls){*ring, g_array_new(FALSE, FALSE, sizeof(double)), INFINITY, 0};
    g_hash_table_insert(all, &calls->ring, calls);
  }
  return calls;
}

typedef struct {
  const Profile *profile;
  const Cluster *cluster;
  ProfileRings *rings;
  GHashTable *all; /* ProfileRing → Calls, which it is a part of */
} Reader;

/* A call that took `time_s` on the member that came last of the `n_members` recorded ones. */
static void add_call(Reader *reader, const ProfileRank *rank, gint32 index, guint n_members, double time_s) {
  const ProfileCollective *collective = &g_array_index(reader->profile->collectives, ProfileCollective, index);
  ProfileRing ring = {.n = 0};
  switch (ring_of(collective, rank->world_size, reader->cluster, &ring)) {
  case RING_IS_OTHER:
    reader->rings->n_other++;
    return;
  case RING_IS_UNTOLD:
    reader->rings->n_untold++;
    return;
  case RING_IS_MISPLACED:
    reader->rings->n_misplaced++;
    return;
  case RING_IS_KNOWN:
    break;
  }
  Calls *calls = calls_of(reader->all, &ring);
  if ((gint64)n_members == collective->group_size) {
    g_array_append_val(calls->times_s, time_s);
    return;
  }
  calls->n_others++;
  calls->least_s = MIN(calls->least_s, time_s);
}

static double time_of(const ProfileActivity *activity) {
  return (double)(activity->end_ns - activity->start_ns) * 1e-9;
}

/* Of a meeting, in which `is_met` [ranks][activities] is set. */
static void add_meeting(Reader *reader, const MeetingMember *members, guint n, gboolean **is_met) {
  const ProfileRank *first = profile_rank(reader->profile, members->rank);
  double least_s = INFINITY;
  for (guint i = 0; i < n; i++) {
    const ProfileRank *rank = profile_rank(reader->profile, members[i].rank);
    least_s = MIN(least_s, time_of(profile_activity(rank, (guint)members[i].activity)));
    is_met[members[i].rank][members[i].activity] = TRUE;
  }
  add_call(reader, first, profile_activity(first, (guint)members->activity)->collective_index, n, least_s);
}

static void add_calls(Reader *reader) {
  const Profile *profile = reader->profile;
  g_autoptr(Meetings) meetings = meetings_new(profile);
  g_autofree gboolean **is_met = g_new(gboolean *, profile->ranks->len);
  for (guint r = 0; r < profile->ranks->len; r++)
    is_met[r] = g_new0(gboolean, MAX(profile_rank(profile, r)->activities->len, 1));
  for (guint m = 0; m < meetings->meetings->len; m++) {
    const Meeting *meeting = &g_array_index(meetings->meetings, Meeting, m);
    add_meeting(reader, &g_array_index(meetings->members, MeetingMember, meeting->first), meeting->n, is_met);
  }
  for (guint r = 0; r < profile->ranks->len; r++) {
    const ProfileRank *rank = profile_rank(profile, r);
    for (guint i = 0; i < rank->activities->len; i++) {
      const ProfileActivity *activity = profile_activity(rank, i);
      if (activity->collective_index >= 0 && !is_met[r][i])
        add_call(reader, rank, activity->collective_index, 1, time_of(activity));
    }
    g_free(is_met[r]);
  }
}

static gint compare_rings(gconstpointer a, gconstpointer b) {
  const ProfileRing *x = a, *y = b;
  if (x->op != y->op)
    return x->op < y->op ? -1 : 1;
  if (x->gpus != y->gpus)
    return x->gpus < y->gpus ? -1 : 1;
  if (x->nodes != y->nodes)
    return x->nodes < y->nodes ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

ProfileRings *profile_rings_new(const Profile *profile, const Cluster *cluster) {
  ProfileRings *rings = g_new0(ProfileRings, 1);
  rings->rings = g_array_new(FALSE, FALSE, sizeof(ProfileRing));
  g_autoptr(GHashTable) all = g_hash_table_new_full(hash_ring, same_ring, NULL, calls_free);
  Reader reader = {profile, cluster, rings, all};
  add_calls(&reader);
  GHashTableIter iter;
  gpointer value;
  g_hash_table_iter_init(&iter, all);
  while (g_hash_table_iter_next(&iter, NULL, &value)) {
    Calls *calls = value;
    ProfileRing ring = calls->ring;
    const GroupShape shape = measured_group_shape(cluster, ring.gpus, ring.nodes);
    g_array_sort(calls->times_s, sort_doubles_compare);
    ring.waits = calls->times_s->len == 0;
    ring.n = ring.waits ? calls->n_others : calls->times_s->len;
    ring.time_s = ring.waits ? calls->least_s : g_array_index(calls->times_s, double, calls->times_s->len / 2);
    ring.modelled_s = collective_cost(cluster, ring.op, &shape, ring.bytes, -1).time_s;
    if (ring.time_s > 0)
      g_array_append_val(rings->rings, ring);
  }
  g_array_sort(rings->rings, compare_rings);
  return rings;
}

void profile_rings_free(ProfileRings *rings) {
  if (rings == NULL)
    return;
  g_array_unref(rings->rings);
  g_free(rings);
}

/* --- what is printed --- */

static void append_counted(GString *out, gint64 n, const char *what) {
  if (n > 0)
    g_string_append_printf(out, "  %" INT64 " calls more %s\n", n, what);
}

static gboolean any_waits(const ProfileRings *rings) {
  for (guint i = 0; i < rings->rings->len; i++)
    if (g_array_index(rings->rings, ProfileRing, i).waits)
      return TRUE;
  return FALSE;
}

void profile_rings_text(GString *out, const ProfileRings *rings, const Cluster *cluster, int n_shown, gboolean colour) {
  g_autofree char *heading =
      g_strdup_printf("Collectives beside the model of %s, while all members are there", cluster->name);
  text_report_heading(out, heading, colour);
  g_string_append_printf(out, "  %7s %12s %11s %11s %8s\n", "calls", "time", "busbw", "model", "");
  for (guint i = 0; i < rings->rings->len && (int)i < n_shown; i++) {
    const ProfileRing *ring = &g_array_index(rings->rings, ProfileRing, i);
    const double busbw_Bps = ring->bytes / ring->time_s * collective_bus_factor(ring->op, ring->gpus);
    g_autofree char *time = units_format(ring->time_s, UNIT_SECONDS), *bytes = units_format(ring->bytes, UNIT_BYTES),
                    *busbw = units_format(busbw_Bps, UNIT_BYTES_PER_SECOND),
                    *modelled = units_format(ring->modelled_s, UNIT_SECONDS);
    g_string_append_printf(out, "  %7" INT64 " %s%11s %11s %11s %+7.1f%%  %s of %s over %d GPUs", ring->n,
                           ring->waits ? "<" : " ", time, busbw, modelled, 100 * (ring->modelled_s / ring->time_s - 1),
                           collective_name(ring->op), bytes, ring->gpus);
    g_string_append_printf(out, ring->nodes > 1 ? " on %d nodes\n" : " of a node\n", ring->nodes);
  }
  if ((int)rings->rings->len > n_shown)
    g_string_append_printf(out, "  and %d more (--kernels N)\n", (int)rings->rings->len - n_shown);
  if (rings->rings->len == 0)
    g_string_append(out, "  none has its group and bytes in the trace (PyTorch tells them since 2.3)\n");
  if (any_waits(rings))
    g_string_append(out, "  < waiting for members that are not in the files is inside: the least of the calls\n");
  append_counted(out, rings->n_untold, "have no group or bytes in the trace");
  append_counted(out, rings->n_other, "are sends, barriers or others that a cluster's tables do not have");
  append_counted(out, rings->n_misplaced,
                 "are of groups that are spread unevenly over the cluster's nodes, or that it "
                 "has no links for");
}

/* --- a cluster file --- */

char *profile_rings_yaml(const ProfileRings *rings, const Profile *profile, const Cluster *cluster, const char *base) {
  g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(CurveRow));
  g_autoptr(GStringChunk) names = g_string_chunk_new(1 << 10);
  for (guint i = 0; i < rings->rings->len; i++) {
    const ProfileRing *ring = &g_array_index(rings->rings, ProfileRing, i);
    g_autofree char *name = g_strdup_printf("%s %d %d", collective_name(ring->op), ring->gpus, ring->nodes);
    const CurveRow row = {g_string_chunk_insert_const(names, name), {ring->bytes, ring->time_s}, ring->n, i};
    g_array_append_val(rows, row);
  }
  curve_rows_keep_growing(rows);
  GString *out = g_string_new("# Written by stepsim trace. Collectives as the trace has them.\n");
  g_string_append_printf(out, "name: %s-measured\nbase: %s\nmeasured:\n  source: >-\n    %s, %s: ", cluster->name, base,
                         profile->source, profile_rank(profile, 0)->file);
  units_append_count(out, profile->ranks->len, "rank", "ranks");
  g_string_append(out, any_waits(rings)
                           ? ". Waiting is inside where not all members of a group were recorded: the\n    least of "
                             "the calls. Otherwise medians of the time in which all were there.\n"
                           : ", medians of the time in which all members were there.\n");
  g_string_append(out, "  collectives:\n");
  for (guint i = 0; i < rows->len; i++) {
    const ProfileRing *ring = &g_array_index(rings->rings, ProfileRing, g_array_index(rows, CurveRow, i).row);
    measured_links_append(out, collective_name(ring->op), ring->gpus, ring->nodes, ring->bytes, ring->time_s);
  }
  return g_string_free(out, FALSE);
}
