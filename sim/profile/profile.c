#include "profile.h"

#include <string.h>

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
                        .day_ns = -1,
                        .activities = g_array_new(FALSE, FALSE, sizeof(ProfileActivity)),
                        .streams = g_array_new(FALSE, FALSE, sizeof(gint64)),
                        .marks = g_array_new(FALSE, FALSE, sizeof(ProfileStep)),
                        .steps = g_array_new(FALSE, FALSE, sizeof(ProfileStep))};
  g_ptr_array_add(profile->ranks, rank);
  return rank;
}

static gboolean is_plain(const char *text) {
  for (const char *c = text; *c != '\0'; c++)
    if (g_ascii_iscntrl(*c))
      return FALSE;
  return g_utf8_validate(text, -1, NULL);
}

const char *profile_intern(Profile *profile, const char *text) {
  if (text == NULL || is_plain(text))
    return text != NULL ? g_string_chunk_insert_const(profile->texts, text) : NULL;
  g_autofree char *valid = g_utf8_make_valid(text, -1);
  for (char *c = valid; *c != '\0'; c++)
    *c = g_ascii_iscntrl(*c) ? '?' : *c;
  return g_string_chunk_insert_const(profile->texts, valid);
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

gint32 profile_copy(Profile *profile, const char *name, double bytes) {
  static const char *const known[] = {"Memcpy DtoD", "Memset"};
  for (gsize i = 0; bytes >= 1 && bytes < 1e15 && i < G_N_ELEMENTS(known); i++)
    if (g_str_has_prefix(name, known[i])) {
      g_autofree char *dims = g_strdup_printf("[[%.0f]]", bytes);
      return profile_operator(profile, (ProfileOperator){known[i], dims, "[\"unsigned char\"]", NULL, NULL});
    }
  return -1;
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
