#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "error.h"
#include "kineto_read.h"
#include "meetings.h"
#include "nsight_read.h"
#include "own_read.h"
#include "steps.h"

/* The first bytes, of what gzip compressed too; owned by the caller. NULL with INPUT. */
static char *peek(const char *file, GError **error) {
  enum { FEW = 4096 };
  char *bytes = g_malloc0(FEW + 1);
  gzFile stream = gzopen(file, "re");
  const int n = stream != NULL ? gzread(stream, bytes, FEW) : -1;
  int status = Z_ERRNO;
  const char *reason = stream != NULL && n < 0 ? gzerror(stream, &status) : NULL;
  if (n < 0)
    fail_input(error, "cannot read %.200s: %s", file, status == Z_ERRNO ? g_strerror(errno) : reason);
  if (stream != NULL)
    gzclose(stream);
  if (n >= 0)
    return bytes;
  g_free(bytes);
  return NULL;
}

gboolean profile_source(const char *file, ProfileSource *source, GError **error) {
  *source = PROFILE_PYTORCH;
  if (g_file_test(file, G_FILE_TEST_EXISTS) && !g_file_test(file, G_FILE_TEST_IS_REGULAR | G_FILE_TEST_IS_DIR))
    return TRUE; /* what is read from a pipe is gone */
  static const char *const reports[] = {".nsys-rep", ".qdrep", ".qdstrm"};
  for (gsize i = 0; i < G_N_ELEMENTS(reports); i++)
    if (g_str_has_suffix(file, reports[i]))
      return fail_input(
          error, "%s: found a report of Nsight Systems, expected its export: nsys export --type sqlite %s", file, file);
  g_autofree char *bytes = peek(file, error);
  if (bytes == NULL)
    return FALSE;
  *source = g_str_has_prefix(bytes, "SQLite format 3")         ? PROFILE_NSIGHT
            : strstr(bytes, "\"producer\":\"stepsim ") != NULL ? PROFILE_OWN
                                                               : PROFILE_PYTORCH;
  return TRUE;
}

gboolean profile_read(Profile *profile, const char *file, GError **error) {
  static const struct {
    const char *name;
    gboolean (*read)(Profile *profile, const char *file, GError **error);
  } sources[N_PROFILE_SOURCES] = {[PROFILE_PYTORCH] = {"PyTorch profiler", kineto_read},
                                  [PROFILE_NSIGHT] = {"Nsight Systems", nsight_read},
                                  [PROFILE_OWN] = {"stepsim's or stepreal's trace", own_read}};
  ProfileSource source;
  if (!profile_source(file, &source, error))
    return FALSE;
  if (profile->source != NULL && profile->source != sources[source].name)
    return fail_input(error, "%s: found a file of %s, expected one of %s as the others", file, sources[source].name,
                      profile->source);
  const char *name = profile_intern(profile, file);
  for (guint i = 0; i < profile->ranks->len; i++)
    if (profile_rank(profile, i)->file == name)
      return fail_input(error, "%s: found twice, expected each file once", name);
  profile->source = sources[source].name;
  return sources[source].read(profile, file, error);
}

static gint compare_starts(gconstpointer a, gconstpointer b) {
  const ProfileActivity *x = a, *y = b;
  if (x->start_ns != y->start_ns)
    return x->start_ns < y->start_ns ? -1 : 1;
  return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

static gint compare_ranks(gconstpointer a, gconstpointer b) {
  const ProfileRank *x = *(ProfileRank *const *)a, *y = *(ProfileRank *const *)b;
  return (x->rank > y->rank) - (x->rank < y->rank);
}

static gboolean check_ranks(const Profile *profile, GError **error) {
  for (guint i = 0; i < profile->ranks->len; i++) {
    const ProfileRank *rank = profile_rank(profile, i), *before = i > 0 ? profile_rank(profile, i - 1) : NULL;
    if (rank->activities->len == 0)
      return fail_input(error, "%s: found nothing that a GPU did, expected kernels (record with CUDA activities)",
                        rank->file);
    if (before != NULL && before->world_size > 0 && rank->world_size > 0 && before->world_size != rank->world_size)
      return fail_input(error,
                        "%s: found a job of %" G_GINT64_FORMAT " ranks, expected one of %" G_GINT64_FORMAT " as in %s",
                        rank->file, rank->world_size, before->world_size, before->file);
    if (before != NULL && before->rank == rank->rank && rank->rank >= 0)
      return fail_input(error, "%s: found rank %" G_GINT64_FORMAT " as in %s, expected each rank once", rank->file,
                        rank->rank, before->file);
  }
  return TRUE;
}

static gint64 begin_ns(const ProfileRank *rank) {
  return rank->day_ns + profile_activity(rank, 0)->start_ns;
}

static gint64 end_ns(const ProfileRank *rank) {
  gint64 end_ns = 0;
  for (guint i = 0; i < rank->activities->len; i++)
    end_ns = MAX(end_ns, profile_activity(rank, i)->end_ns);
  return rank->day_ns + end_ns;
}

/* Between their recordings; hosts' clocks are seldom a minute apart. */
static gint64 gap_ns(const ProfileRank *a, const ProfileRank *b) {
  return a->day_ns < 0 || b->day_ns < 0 ? 0 : MAX(begin_ns(a) - end_ns(b), begin_ns(b) - end_ns(a));
}

/* What met in no collective may be of another job: on another GPU, or at another time. */
static gboolean check_jobs(const Profile *profile, GError **error) {
  static const gint64 minute_ns = G_GINT64_CONSTANT(60000000000);
  const ProfileRank *first = profile_rank(profile, 0);
  for (guint i = 1; i < profile->ranks->len; i++) {
    const ProfileRank *rank = profile_rank(profile, i);
    if (rank->has_clock)
      continue;
    if (rank->gpu != NULL && first->gpu != NULL && rank->gpu != first->gpu)
      return fail_input(error, "%s: found a %s and no collective in common with %s, a %s, expected ranks of one job",
                        rank->file, rank->gpu, first->file, first->gpu);
    if (gap_ns(rank, first) > minute_ns)
      return fail_input(error,
                        "%s: found a recording %" G_GINT64_FORMAT " minutes apart from %s and no collective in common, "
                        "expected ranks of one run",
                        rank->file, gap_ns(rank, first) / minute_ns, first->file);
  }
  return TRUE;
}

/* A step of a Program has ended when it has on all ranks. */
static void share_marks(const Profile *profile) {
  for (guint i = 0; i < profile->ranks->len; i++)
    for (guint m = 0; m < profile_rank(profile, i)->marks->len; m++) {
      gint64 end_ns = 0;
      for (guint k = 0; k < profile->ranks->len; k++) {
        const ProfileRank *rank = profile_rank(profile, k);
        end_ns = rank->marks_are_steps && m < rank->marks->len
                     ? MAX(end_ns, g_array_index(rank->marks, ProfileStep, m).end_ns)
                     : end_ns;
      }
      if (profile_rank(profile, i)->marks_are_steps)
        g_array_index(profile_rank(profile, i)->marks, ProfileStep, m).end_ns = end_ns;
    }
}

gboolean profile_complete(Profile *profile, GError **error) {
  g_ptr_array_sort(profile->ranks, compare_ranks); /* is stable: those without a number stay in order */
  if (profile->ranks->len == 0)
    return fail_input(error, "found no GPU in the files, expected what a profiler recorded of one");
  if (!check_ranks(profile, error))
    return FALSE;
  share_marks(profile);
  for (guint i = 0; i < profile->ranks->len; i++) {
    g_array_sort(profile_rank(profile, i)->activities, compare_starts);
    steps_find(profile_rank(profile, i));
  }
  meetings_align(profile);
  return check_jobs(profile, error);
}
