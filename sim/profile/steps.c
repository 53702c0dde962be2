/* A mark of the host becomes a step of the GPU: from the first kernel that was issued in it until the first of the next
 * step, on the stream that computes most. Of the last one nothing tells when the next would have begun: it lasts until
 * its kernels have ended. Other streams count with the step but do not begin or end one, as batches are fetched ahead.
 * What was issued before the recording began belongs to no step.
 *
 * Without marks: the sequence of kernels' names is compared with itself, shifted by as many kernels as lie between two
 * occurrences of one that is rare. The shortest shift that fits as well as any is the step. */
#include "steps.h"

static const double least_fit = 0.95, as_good = 0.002;

/* --- marks --- */

static gboolean tells_issues(const ProfileRank *rank) {
  for (guint i = 0; i < rank->activities->len; i++)
    if (profile_activity(rank, i)->issued_ns >= 0)
      return TRUE;
  return FALSE;
}

static gboolean computes(const ProfileActivity *activity) {
  return activity->kind != PROFILE_COPY && activity->kind != PROFILE_COLLECTIVE;
}

/* The stream that computes most. */
static gint32 main_stream(const ProfileRank *rank) {
  g_autofree gint64 *busy_ns = g_new0(gint64, rank->streams->len + 1);
  gint32 most = 0;
  for (guint i = 0; i < rank->activities->len; i++) {
    const ProfileActivity *activity = profile_activity(rank, i);
    if (!computes(activity))
      continue;
    busy_ns[activity->stream] += activity->end_ns - activity->start_ns;
    most = busy_ns[activity->stream] > busy_ns[most] ? activity->stream : most;
  }
  return most;
}

/* Of the kernels issued in the mark; FALSE: there are none. */
static gboolean span_of(const ProfileRank *rank, gint32 stream, gboolean by_issue, const ProfileStep *mark,
                        ProfileStep *span) {
  *span = (ProfileStep){.begin_ns = G_MAXINT64, .end_ns = -1, .number = mark->number};
  for (guint i = 0; i < rank->activities->len; i++) {
    const ProfileActivity *activity = profile_activity(rank, i);
    const gint64 at_ns = by_issue ? activity->issued_ns : activity->start_ns;
    if (at_ns < mark->begin_ns || at_ns >= mark->end_ns || !computes(activity) || activity->stream != stream)
      continue;
    span->begin_ns = MIN(span->begin_ns, activity->start_ns);
    span->end_ns = MAX(span->end_ns, activity->end_ns);
  }
  return span->end_ns >= 0;
}

/* A mark in another is a part of its step. */
static gboolean is_inside(const ProfileStep *mark, const ProfileStep *outer) {
  return outer != NULL && mark->end_ns <= outer->end_ns;
}

static void use_marks(ProfileRank *rank) {
  const gboolean by_issue = tells_issues(rank);
  const gint32 stream = main_stream(rank);
  const ProfileStep *outer = NULL;
  for (guint i = 0; i < rank->marks->len; i++) {
    const ProfileStep *mark = &g_array_index(rank->marks, ProfileStep, i);
    ProfileStep span;
    if (is_inside(mark, outer) || !span_of(rank, stream, by_issue, mark, &span))
      continue;
    outer = mark;
    ProfileStep *before = rank->steps->len > 0 ? &g_array_index(rank->steps, ProfileStep, rank->steps->len - 1) : NULL;
    if (before != NULL && span.begin_ns > before->begin_ns)
      before->end_ns = span.begin_ns;
    g_array_append_val(rank->steps, span);
  }
  rank->steps_from = "marked by the host";
}

/* Each lasts from the end of the one before. */
static void take_marks(ProfileRank *rank) {
  gint64 begin_ns = 0;
  for (guint i = 0; i < rank->marks->len; i++) {
    ProfileStep step = g_array_index(rank->marks, ProfileStep, i);
    step.begin_ns = begin_ns;
    begin_ns = step.end_ns = MAX(step.end_ns, begin_ns + 1);
    g_array_append_val(rank->steps, step);
  }
  rank->steps_from = "as its Program says";
}

/* --- repetition --- */

/* [kernels] of the rank, as places among its activities; owned by the caller. */
static GArray *kernels_of(const ProfileRank *rank) {
  GArray *kernels = g_array_new(FALSE, FALSE, sizeof(guint));
  for (guint i = 0; i < rank->activities->len; i++)
    if (profile_activity(rank, i)->kind != PROFILE_COPY)
      g_array_append_val(kernels, i);
  return kernels;
}

static const char *name_at(const ProfileRank *rank, const GArray *kernels, guint i) {
  return profile_activity(rank, g_array_index(kernels, guint, i))->name;
}

/* Share of the kernels that are followed by their like so much later. */
static double fit_of(const ProfileRank *rank, const GArray *kernels, guint shift) {
  guint n = 0;
  for (guint i = 0; i + shift < kernels->len; i++)
    n += name_at(rank, kernels, i) == name_at(rank, kernels, i + shift);
  return (double)n / (kernels->len - shift);
}

typedef struct {
  guint n, first, last, shift; /* shift: between its last two */
} Occurrence;

/* Where an optimizer ran, a step is no shorter than from one of its runs to the next: layers repeat each other too. */
static gboolean has_optimizer(const ProfileRank *rank) {
  for (guint i = 0; i < rank->activities->len; i++)
    if (profile_activity(rank, i)->kind == PROFILE_OPTIMIZER)
      return TRUE;
  return FALSE;
}

/* The shifts worth trying; set of guint. Owned by the caller. */
static GHashTable *shifts_of(const ProfileRank *rank, const GArray *kernels) {
  enum { MOST_OCCURRENCES = 64, MOST_SHIFTS = 200 };
  const gboolean by_optimizer = has_optimizer(rank);
  g_autoptr(GHashTable) names = g_hash_table_new_full(NULL, NULL, NULL, g_free);
  for (guint i = 0; i < kernels->len; i++) {
    const char *name = name_at(rank, kernels, i);
    if (by_optimizer && profile_activity(rank, g_array_index(kernels, guint, i))->kind != PROFILE_OPTIMIZER)
      continue;
    Occurrence *seen = g_hash_table_lookup(names, name);
    if (seen == NULL)
      g_hash_table_insert(names, (gpointer)name, seen = g_new0(Occurrence, 1));
    seen->shift = seen->n++ > 0 ? i - seen->last : 0;
    seen->last = i;
  }
  GHashTable *shifts = g_hash_table_new(NULL, NULL);
  GHashTableIter iter;
  gpointer value;
  g_hash_table_iter_init(&iter, names);
  while (g_hash_table_iter_next(&iter, NULL, &value) && g_hash_table_size(shifts) < MOST_SHIFTS) {
    const Occurrence *seen = value;
    if (seen->n > 1 && seen->n <= MOST_OCCURRENCES && 2 * seen->shift <= kernels->len)
      g_hash_table_add(shifts, GUINT_TO_POINTER(seen->shift));
  }
  return shifts;
}

/* 0: nothing is repeated. */
static guint period_of(const ProfileRank *rank, const GArray *kernels) {
  g_autoptr(GHashTable) shifts = shifts_of(rank, kernels);
  double best = least_fit;
  guint period = 0;
  GHashTableIter iter;
  gpointer key;
  g_hash_table_iter_init(&iter, shifts);
  while (g_hash_table_iter_next(&iter, &key, NULL)) {
    const guint shift = GPOINTER_TO_UINT(key);
    const double fit = fit_of(rank, kernels, shift);
    if (fit > best + as_good || (fit >= best - as_good && (period == 0 || shift < period)))
      period = shift;
    best = MAX(best, fit);
  }
  return period;
}

static void use_repetition(ProfileRank *rank) {
  g_autoptr(GArray) kernels = kernels_of(rank);
  const guint period = period_of(rank, kernels);
  if (period == 0)
    return;
  for (guint i = kernels->len % period; i + period <= kernels->len; i += period) {
    const guint first = g_array_index(kernels, guint, i);
    ProfileStep step = {.begin_ns = profile_activity(rank, first)->start_ns, .number = -1};
    if (i + period < kernels->len) {
      step.end_ns = profile_activity(rank, g_array_index(kernels, guint, i + period))->start_ns;
    } else {
      for (guint a = first; a < rank->activities->len; a++)
        step.end_ns = MAX(step.end_ns, profile_activity(rank, a)->end_ns);
    }
    g_array_append_val(rank->steps, step);
  }
  rank->steps_from = "found by what the GPU repeats";
}

void steps_find(ProfileRank *rank) {
  if (rank->marks_are_steps)
    take_marks(rank);
  else if (rank->marks->len > 0)
    use_marks(rank);
  if (rank->steps->len == 0)
    use_repetition(rank);
}
