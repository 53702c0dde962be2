#include <string.h>

#include "meetings.h"
#include "profile_report.h"
#include "text_report.h"
#include "units.h"

enum { MOST_RANKS_IN_TABLE = 8, MOST_LATE = 8, MOST_STREAMS = 16, NAME_COLUMNS = 72 };

static void append_time(GString *out, double ns) {
  g_autofree char *text = ns != 0 ? units_format(ns * 1e-9, UNIT_SECONDS) : g_strdup("0");
  g_string_append_printf(out, " %11s", text);
}

static char *rank_name(const ProfileRank *rank) {
  return rank->rank >= 0 ? g_strdup_printf("rank %" INT64, rank->rank) : g_strdup("the rank");
}

/* --- what was read --- */

static void append_steps(GString *out, const ProfileRank *rank) {
  const guint n = rank->steps->len;
  if (n == 0) {
    g_string_append(out, "no steps: nothing marks or repeats them, so all that was recorded counts as one\n");
    return;
  }
  const gint64 first = g_array_index(rank->steps, ProfileStep, 0).number,
               last = g_array_index(rank->steps, ProfileStep, n - 1).number;
  units_append_count(out, n, "step", "steps");
  if (first >= 0)
    g_string_append_printf(out, n == 1 ? " (%" INT64 ")" : " (%" INT64 " to %" INT64 ")", first, last);
  g_string_append_printf(out, ", %s\n", rank->steps_from);
}

static void append_files(GString *out, const Profile *profile) {
  const ProfileRank *first = profile_rank(profile, 0);
  g_string_append_printf(out, "%s: ", profile->source);
  units_append_count(out, profile->ranks->len, "rank", "ranks");
  if (first->world_size > profile->ranks->len)
    g_string_append_printf(out, " of the job's %" INT64, first->world_size);
  g_string_append_printf(out, ", %s\n  ", first->gpu != NULL ? first->gpu : "a GPU that the file does not name");
  append_steps(out, first);
}

/* --- a rank's step --- */

typedef struct {
  const char *name;
  gsize at; /* in ProfileTimes */
} TimeRow;

static const TimeRow time_rows[] = {
    {"step", G_STRUCT_OFFSET(ProfileTimes, step_ns)},
    {"computing", G_STRUCT_OFFSET(ProfileTimes, computing_ns)},
    {"communicating", G_STRUCT_OFFSET(ProfileTimes, communicating_ns)},
    {"  beside computing", G_STRUCT_OFFSET(ProfileTimes, hidden_ns)},
    {"copying", G_STRUCT_OFFSET(ProfileTimes, copying_ns)},
    {"idle", G_STRUCT_OFFSET(ProfileTimes, idle_ns)},
    {"  waiting for host", G_STRUCT_OFFSET(ProfileTimes, host_ns)},
};

static gint64 time_at(const ProfileTimes *times, gsize at) {
  return *(const gint64 *)(const void *)((const char *)times + at);
}

static guint n_shown(const ProfileSums *sums) {
  return MIN(sums->profile->ranks->len, MOST_RANKS_IN_TABLE);
}

static void append_rank_names(GString *out, const ProfileSums *sums) {
  g_string_append_printf(out, "  %-20s", "");
  for (guint r = 0; r < n_shown(sums); r++) {
    g_autofree char *name = rank_name(profile_rank(sums->profile, r));
    g_string_append_printf(out, " %11s", name);
  }
  g_string_append_c(out, '\n');
}

static void append_times(GString *out, const ProfileSums *sums, gboolean colour) {
  text_report_heading(out, "A step of the GPU", colour);
  append_rank_names(out, sums);
  for (gsize row = 0; row < G_N_ELEMENTS(time_rows); row++) {
    g_string_append_printf(out, "  %-20s", time_rows[row].name);
    for (guint r = 0; r < n_shown(sums); r++)
      append_time(out, (double)time_at(&sums->ranks[r].times, time_rows[row].at) / (double)sums->ranks[r].n_steps);
    g_string_append_c(out, '\n');
  }
  if (sums->profile->ranks->len > n_shown(sums))
    g_string_append_printf(out, "  and %u more ranks (--json lists all)\n", sums->profile->ranks->len - n_shown(sums));
}

static void append_kinds(GString *out, const ProfileSums *sums, gboolean colour) {
  text_report_heading(out, "By kind, per step; what runs beside each other counts twice", colour);
  append_rank_names(out, sums);
  for (int kind = 0; kind < N_PROFILE_KINDS; kind++) {
    gint64 n = 0;
    for (guint r = 0; r < sums->profile->ranks->len; r++)
      n += sums->ranks[r].kinds[kind].n;
    if (n == 0)
      continue;
    g_string_append_printf(out, "  %-20s", profile_kind_name((ProfileKind)kind));
    for (guint r = 0; r < n_shown(sums); r++)
      append_time(out, (double)sums->ranks[r].kinds[kind].ns / (double)sums->ranks[r].n_steps);
    g_string_append_c(out, '\n');
  }
}

static void append_streams(GString *out, const ProfileSums *sums, gboolean colour) {
  const ProfileRank *rank = profile_rank(sums->profile, 0);
  const ProfileRankSums *own = &sums->ranks[0];
  g_autofree char *name = rank_name(rank), *heading = g_strdup_printf("Streams of %s, per step", name);
  text_report_heading(out, heading, colour);
  g_string_append_printf(out, "  %-20s %11s %11s %11s\n", "", "computing", "communic.", "copying");
  guint n_shown_streams = 0;
  for (guint s = 0; s < rank->streams->len; s++) {
    const ProfileTimes *times = &own->streams[s];
    if (times->busy_ns == 0)
      continue;
    if (++n_shown_streams > MOST_STREAMS) {
      g_string_append(out, "  and more (--json lists all)\n");
      return;
    }
    g_string_append_printf(out, "  %-20" INT64, g_array_index(rank->streams, gint64, s));
    append_time(out, (double)times->computing_ns / (double)own->n_steps);
    append_time(out, (double)times->communicating_ns / (double)own->n_steps);
    append_time(out, (double)times->copying_ns / (double)own->n_steps);
    g_string_append_c(out, '\n');
  }
}

/* --- rows --- */

static double all_steps(const ProfileSums *sums) {
  double n = 0;
  for (guint r = 0; r < sums->profile->ranks->len; r++)
    n += (double)sums->ranks[r].n_steps;
  return n;
}

static void append_row(GString *out, const ProfileSums *sums, const ProfileSum *sum) {
  g_string_append_printf(out, "  %9.1f", (double)sum->n / all_steps(sums));
  append_time(out, (double)sum->ns / all_steps(sums));
  append_time(out, (double)sum->ns / (double)sum->n);
}

/* The name without its arguments, cut to the table's width; owned by the caller. */
static char *short_name(const char *name) {
  g_autofree char *plain = g_strdup(g_str_has_prefix(name, "void ") ? name + strlen("void ") : name);
  if (g_utf8_strlen(plain, -1) <= NAME_COLUMNS)
    return g_steal_pointer(&plain);
  g_autofree char *cut = g_utf8_substring(plain, 0, NAME_COLUMNS - 1);
  return g_strconcat(cut, "…", NULL);
}

static void append_kernels(GString *out, const ProfileSums *sums, int n_kernels, gboolean colour) {
  text_report_heading(out, "Kernels, by time: how many in a step of a rank, their time, that of one", colour);
  for (guint i = 0; i < sums->kernels->len && (int)i < n_kernels; i++) {
    const ProfileRow *row = &g_array_index(sums->kernels, ProfileRow, i);
    g_autofree char *name =
        short_name(profile_activity(profile_rank(sums->profile, row->rank), (guint)row->index)->name);
    append_row(out, sums, &row->sum);
    g_string_append_printf(out, "  %s\n", name);
  }
  if ((int)sums->kernels->len > n_kernels)
    g_string_append_printf(out, "  and %d more (--kernels N)\n", (int)sums->kernels->len - n_kernels);
}

static void append_collectives(GString *out, const ProfileSums *sums, gboolean colour) {
  if (sums->collectives->len == 0)
    return;
  text_report_heading(out, "Collectives, likewise; what a rank waits for the others is in their time", colour);
  for (guint i = 0; i < sums->collectives->len; i++) {
    const ProfileRow *row = &g_array_index(sums->collectives, ProfileRow, i);
    const ProfileActivity *activity = profile_activity(profile_rank(sums->profile, row->rank), (guint)row->index);
    const ProfileCollective *collective =
        &g_array_index(sums->profile->collectives, ProfileCollective, activity->collective_index);
    g_autofree char *bytes = collective->bytes > 0 ? units_format(collective->bytes, UNIT_BYTES) : NULL,
                    *ranks = collective->ranks != NULL ? short_name(collective->ranks) : NULL;
    append_row(out, sums, &row->sum);
    g_string_append_printf(out, "  %s", collective->op);
    if (bytes != NULL)
      g_string_append_printf(out, " of %s", bytes);
    if (collective->group_size > 0)
      g_string_append_printf(out, " over %" INT64, collective->group_size);
    g_string_append_printf(out, ranks != NULL ? " %s\n" : "\n", ranks);
  }
}

/* --- who comes late --- */

static void append_rank_lateness(GString *out, const ProfileRank *rank, const RankLateness *late) {
  g_autofree char *name = rank_name(rank), *cost = units_format((double)late->cost_ns * 1e-9, UNIT_SECONDS),
                  *worst = units_format((double)late->worst_ns * 1e-9, UNIT_SECONDS);
  g_string_append_printf(out,
                         "  %s was last at %" INT64 " of %" INT64 ", by %s in all and %s at most; %" INT64
                         " times its host had not issued it before the GPU was free\n",
                         name, late->n_last, late->n_meetings, cost, worst, late->n_late_by_host);
}

static gint compare_costs(gconstpointer a, gconstpointer b, gpointer data) {
  const RankLateness *late = data;
  const gint64 x = late[*(const guint *)a].cost_ns, y = late[*(const guint *)b].cost_ns;
  return (x < y) - (x > y);
}

static void append_lateness(GString *out, const ProfileSums *sums, gboolean colour) {
  const Profile *profile = sums->profile;
  if (profile->ranks->len < 2)
    return;
  g_autoptr(Meetings) meetings = meetings_new(profile);
  text_report_heading(out, "Who comes late to collectives", colour);
  if (meetings->meetings->len == 0) {
    g_string_append(out, "  these ranks have no collective in common, so neither are their clocks set\n");
    return;
  }
  g_autofree RankLateness *late = meetings_lateness(profile, meetings);
  g_autofree guint *order = g_new(guint, profile->ranks->len);
  for (guint r = 0; r < profile->ranks->len; r++)
    order[r] = r;
  g_qsort_with_data(order, (gint)profile->ranks->len, sizeof *order, compare_costs, late);
  for (guint i = 0; i < MIN(profile->ranks->len, MOST_LATE) && late[order[i]].n_last > 0; i++)
    append_rank_lateness(out, profile_rank(profile, order[i]), &late[order[i]]);
  if (late[order[0]].n_last == 0)
    g_string_append(out, "  nobody\n");
  if (meetings->n_unfit > 0)
    g_string_append_printf(out,
                           "  %" INT64 " collectives that might be the same ended at other times and were left out\n",
                           meetings->n_unfit);
  for (guint r = 0; r < profile->ranks->len; r++)
    if (!profile_rank(profile, r)->has_clock)
      g_string_append_printf(out, "  %s: no collective sets its clock\n", profile_rank(profile, r)->file);
  g_string_append(out, "  Clocks are set by the ends of collectives, which their members leave together.\n");
}

void profile_text(GString *out, const ProfileSums *sums, int n_kernels, gboolean colour) {
  append_files(out, sums->profile);
  append_times(out, sums, colour);
  append_kinds(out, sums, colour);
  append_streams(out, sums, colour);
  append_kernels(out, sums, n_kernels, colour);
  append_collectives(out, sums, colour);
  append_lateness(out, sums, colour);
}
