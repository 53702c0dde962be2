#include "profile.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "error.h"
#include "kineto_read.h"
#include "meetings.h"
#include "nsight_read.h"
#include "own_read.h"
#include "steps.h"

static guint hash_operator(gconstpointer key) {
  const ProfileOperator *op = key;
  return g_direct_hash(op->name) ^ 31 * g_direct_hash(op->dims) ^ 127 * g_direct_hash(op->types) ^
         8191 * g_direct_hash(op->strides);
}

static gboolean same_operator(gconstpointer a, gconstpointer b) {
  return memcmp(a, b, sizeof(ProfileOperator)) == 0;
}

static guint hash_collective(gconstpointer key) {
  const ProfileCollective *collective = key;
  return g_direct_hash(collective->op) ^ 31 * g_direct_hash(collective->ranks) ^ g_double_hash(&collective->bytes);
}

static gboolean same_collective(gconstpointer a, gconstpointer b) {
  return memcmp(a, b, sizeof(ProfileCollective)) == 0;
}

static void rank_free(gpointer data) {
  ProfileRank *rank = data;
  g_array_unref(rank->activities);
  g_array_unref(rank->streams);
  g_array_unref(rank->marks);
  g_array_unref(rank->steps);
  g_free(rank);
}

Profile *profile_new(void) {
  Profile *profile = g_new(Profile, 1);
  *profile = (Profile){.ranks = g_ptr_array_new_with_free_func(rank_free),
                       .operators = g_array_new(FALSE, FALSE, sizeof(ProfileOperator)),
                       .collectives = g_array_new(FALSE, FALSE, sizeof(ProfileCollective)),
                       .op_numbers = g_hash_table_new_full(hash_operator, same_operator, g_free, NULL),
                       .collective_numbers = g_hash_table_new_full(hash_collective, same_collective, g_free, NULL),
                       .texts = g_string_chunk_new(1 << 16)};
  return profile;
}

void profile_free(Profile *profile) {
  if (profile == NULL)
    return;
  g_ptr_array_unref(profile->ranks);
  g_array_unref(profile->operators);
  g_array_unref(profile->collectives);
  g_hash_table_unref(profile->op_numbers);
  g_hash_table_unref(profile->collective_numbers);
  g_string_chunk_free(profile->texts);
  g_free(profile);
}

ProfileRank *profile_add_rank(Profile *profile, const char *file, gint64 number) {
  ProfileRank *rank = g_new(ProfileRank, 1);
  *rank = (ProfileRank){.file = profile_intern(profile, file),
                        .rank = number,
                        .activities = g_array_new(FALSE, FALSE, sizeof(ProfileActivity)),
                        .streams = g_array_new(FALSE, FALSE, sizeof(gint64)),
                        .marks = g_array_new(FALSE, FALSE, sizeof(ProfileStep)),
                        .steps = g_array_new(FALSE, FALSE, sizeof(ProfileStep))};
  g_ptr_array_add(profile->ranks, rank);
  return rank;
}

const char *profile_intern(Profile *profile, const char *text) {
  return text != NULL ? g_string_chunk_insert_const(profile->texts, text) : NULL;
}

/* Adds what is not there yet. */
static gint32 number_of(GHashTable *numbers, GArray *all, gconstpointer key, gsize size) {
  gpointer found;
  if (g_hash_table_lookup_extended(numbers, key, NULL, &found))
    return GPOINTER_TO_INT(found);
  g_array_append_vals(all, key, 1);
  g_hash_table_insert(numbers, g_memdup2(key, size), GINT_TO_POINTER((gint)all->len - 1));
  return (gint32)all->len - 1;
}

gint32 profile_operator(Profile *profile, ProfileOperator call) {
  ProfileOperator key;
  memset(&key, 0, sizeof key);
  key.name = profile_intern(profile, call.name);
  key.dims = profile_intern(profile, call.dims);
  key.types = profile_intern(profile, call.types);
  key.strides = profile_intern(profile, call.strides);
  key.values = profile_intern(profile, call.values);
  return number_of(profile->op_numbers, profile->operators, &key, sizeof key);
}

gint32 profile_collective(Profile *profile, const char *op, const char *ranks, gint64 group_size, double bytes) {
  ProfileCollective key;
  memset(&key, 0, sizeof key);
  key.op = op;
  key.ranks = profile_intern(profile, ranks);
  key.group_size = group_size;
  key.bytes = bytes;
  return number_of(profile->collective_numbers, profile->collectives, &key, sizeof key);
}

gint32 profile_stream(ProfileRank *rank, gint64 number) {
  for (guint i = 0; i < rank->streams->len; i++)
    if (g_array_index(rank->streams, gint64, i) == number)
      return (gint32)i;
  g_array_append_val(rank->streams, number);
  return (gint32)rank->streams->len - 1;
}

/* --- files --- */

/* The first bytes, of what gzip compressed too; owned by the caller. NULL with INPUT. */
static char *peek(const char *file, GError **error) {
  enum { FEW = 4096 };
  char *bytes = g_malloc0(FEW + 1);
  gzFile stream = gzopen(file, "re");
  const int n = stream != NULL ? gzread(stream, bytes, FEW) : -1;
  if (stream != NULL)
    gzclose(stream);
  if (n >= 0)
    return bytes;
  fail_input(error, "cannot read %.200s: %s", file, stream == NULL ? g_strerror(errno) : "not whole, or damaged");
  g_free(bytes);
  return NULL;
}

gboolean profile_read(Profile *profile, const char *file, GError **error) {
  g_autofree char *bytes = peek(file, error);
  if (bytes == NULL)
    return FALSE;
  const gboolean is_nsight = g_str_has_prefix(bytes, "SQLite format 3"),
                 is_own = strstr(bytes, "\"producer\":\"stepsim ") != NULL;
  const char *source = is_nsight ? "Nsight Systems" : is_own ? "stepsim's or stepreal's trace" : "PyTorch profiler";
  if (profile->source != NULL && profile->source != source)
    return fail_input(error, "%s: found a file of %s, expected one of %s as the others", file, source, profile->source);
  profile->source = source;
  return is_nsight ? nsight_read(profile, file, error)
         : is_own  ? own_read(profile, file, error)
                   : kineto_read(profile, file, error);
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
    if (before != NULL && before->rank == rank->rank && rank->rank >= 0)
      return fail_input(error, "%s: found rank %" G_GINT64_FORMAT " as in %s, expected each rank once", rank->file,
                        rank->rank, before->file);
  }
  return TRUE;
}

gboolean profile_complete(Profile *profile, GError **error) {
  g_ptr_array_sort(profile->ranks, compare_ranks); /* is stable: those without a number stay in order */
  if (profile->ranks->len == 0)
    return fail_input(error, "found no GPU in the files, expected what a profiler recorded of one");
  if (!check_ranks(profile, error))
    return FALSE;
  for (guint i = 0; i < profile->ranks->len; i++) {
    g_array_sort(profile_rank(profile, i)->activities, compare_starts);
    steps_find(profile_rank(profile, i));
  }
  meetings_align(profile);
  return TRUE;
}
