/*     local header · .npy │ local header · .npy │ … │ directory: an entry per member │ end of directory
 *
 * All numbers are little-endian, as are those of the machines that this runs on (asserted below). */
#include "npz.h"

#include <string.h>
#include <zlib.h>

#include "error.h"

G_STATIC_ASSERT(G_BYTE_ORDER == G_LITTLE_ENDIAN);

struct Npz {
  GArray *arrays; /* of NpzArray, whose contents are owned */
};

static void clear_array(gpointer data) {
  NpzArray *array = data;
  g_free((gpointer)array->name);
  g_free((gpointer)array->type);
  g_free((gpointer)array->values);
}

Npz *npz_new(void) {
  Npz *npz = g_new0(Npz, 1);
  npz->arrays = g_array_new(FALSE, FALSE, sizeof(NpzArray));
  g_array_set_clear_func(npz->arrays, clear_array);
  return npz;
}

void npz_free(Npz *npz) {
  if (npz == NULL)
    return;
  g_array_unref(npz->arrays);
  g_free(npz);
}

gsize npz_n_arrays(const Npz *npz) {
  return npz->arrays->len;
}

const NpzArray *npz_array(const Npz *npz, gsize i) {
  return &g_array_index(npz->arrays, NpzArray, i);
}

/* The size in bytes of "<i8" or "<U12". */
static gsize item_size(const char *type) {
  const gsize number = (gsize)g_ascii_strtoull(type + 2, NULL, 10);
  return type[1] == 'U' ? 4 * number : number;
}

static gsize n_bytes_of(const NpzArray *array) {
  return array->n_rows * MAX(array->n_columns, 1) * item_size(array->type);
}

void npz_add(Npz *npz, const char *name, const char *type, gsize n_rows, gsize n_columns, gconstpointer values) {
  NpzArray array = {g_strdup(name), g_strdup(type), n_rows, n_columns, NULL};
  array.values = g_memdup2(values, n_bytes_of(&array));
  g_array_append_val(npz->arrays, array);
}

void npz_add_texts(Npz *npz, const char *name, gsize n, const char *const *texts) {
  glong longest = 1; /* numpy has no strings of length 0 */
  for (gsize i = 0; i < n; i++)
    longest = MAX(longest, g_utf8_strlen(texts[i], -1));
  g_autofree gunichar *characters = g_new0(gunichar, n * (gsize)longest + 1);
  for (gsize i = 0; i < n; i++) {
    gunichar *at = characters + i * (gsize)longest;
    for (const char *text = texts[i]; *text != '\0'; text = g_utf8_next_char(text))
      *at++ = g_utf8_get_char(text);
  }
  g_autofree char *type = g_strdup_printf("<U%ld", longest);
  npz_add(npz, name, type, n, 0, characters);
}

/* --- the archive --- */

static void put2(GByteArray *out, guint value) {
  const guint16 number = (guint16)value;
  g_byte_array_append(out, (const guint8 *)&number, sizeof number);
}

static void put4(GByteArray *out, guint64 value) {
  const guint32 number = (guint32)value;
  g_byte_array_append(out, (const guint8 *)&number, sizeof number);
}

/* What a member's local header and its entry of the directory have in common: version 2.0, stored, 1 January 1980. */
static void put_member(GByteArray *out, const char *name, gulong checksum, gsize size) {
  put2(out, 20);
  put2(out, 0);
  put2(out, 0);
  put2(out, 0);
  put2(out, 1 << 5 | 1);
  put4(out, checksum);
  put4(out, size);
  put4(out, size);
  put2(out, (guint)strlen(name));
  put2(out, 0);
}

/* Its length is a multiple of 64, as numpy pads it. Owned by the caller. */
static GByteArray *npy_header(const char *type, gsize n_rows, gsize n_columns) {
  GString *text = g_string_new(NULL);
  g_string_append_printf(text, "{'descr': '%s', 'fortran_order': False, 'shape': (%" G_GSIZE_FORMAT ",", type, n_rows);
  if (n_columns > 0)
    g_string_append_printf(text, " %" G_GSIZE_FORMAT, n_columns);
  g_string_append(text, "), }");
  while ((10 + text->len + 1) % 64 != 0)
    g_string_append_c(text, ' ');
  g_string_append_c(text, '\n');
  GByteArray *header = g_byte_array_new();
  g_byte_array_append(header, (const guint8 *)"\x93NUMPY\x01\x00", 8);
  put2(header, (guint)text->len);
  g_byte_array_append(header, (const guint8 *)text->str, (guint)text->len);
  g_string_free(text, TRUE);
  return header;
}

/* A member, and its entry of the directory. FALSE: there is no room. */
static gboolean put_array(const NpzArray *array, GByteArray *members, GByteArray *directory) {
  const gsize n_bytes = n_bytes_of(array);
  g_autofree char *member = g_strconcat(array->name, ".npy", NULL);
  g_autoptr(GByteArray) header = npy_header(array->type, array->n_rows, array->n_columns);
  const gsize size = header->len + n_bytes;
  if (members->len + size > G_MAXINT32)
    return FALSE;
  gulong checksum = crc32(0, header->data, header->len);
  checksum = n_bytes > 0 ? crc32(checksum, array->values, (guint)n_bytes) : checksum;

  g_byte_array_append(directory, (const guint8 *)"PK\x01\x02", 4);
  put2(directory, 20);
  put_member(directory, member, checksum, size);
  put2(directory, 0); /* no comment, on this disk, binary, no attributes */
  put2(directory, 0);
  put2(directory, 0);
  put4(directory, 0);
  put4(directory, members->len);
  g_byte_array_append(directory, (const guint8 *)member, (guint)strlen(member));

  g_byte_array_append(members, (const guint8 *)"PK\x03\x04", 4);
  put_member(members, member, checksum, size);
  g_byte_array_append(members, (const guint8 *)member, (guint)strlen(member));
  g_byte_array_append(members, header->data, header->len);
  if (n_bytes > 0)
    g_byte_array_append(members, array->values, (guint)n_bytes);
  return TRUE;
}

static void put_end(guint n_members, gsize directory_from, gsize directory_bytes, GByteArray *all) {
  g_byte_array_append(all, (const guint8 *)"PK\x05\x06", 4);
  put4(all, 0); /* of one disk */
  put2(all, n_members);
  put2(all, n_members);
  put4(all, directory_bytes);
  put4(all, directory_from);
  put2(all, 0);
}

GBytes *npz_finish(const Npz *npz, GError **error) {
  g_autoptr(GByteArray) all = g_byte_array_new(), directory = g_byte_array_new();
  for (gsize i = 0; i < npz_n_arrays(npz); i++)
    if (!put_array(npz_array(npz, i), all, directory)) {
      fail_impossible(error, "the arrays take more than 2 GiB");
      return NULL;
    }
  const gsize directory_from = all->len;
  g_byte_array_append(all, directory->data, directory->len);
  put_end((guint)npz_n_arrays(npz), directory_from, directory->len, all);
  return g_byte_array_free_to_bytes(g_steal_pointer(&all));
}
