/*     local header · .npy │ local header · .npy │ … │ directory: an entry per member │ end of directory
 *
 * Members are put together in memory, with the directory beside them; all numbers are little-endian, as are those of
 * the machines that this runs on (asserted below). */
#include "npz.h"

#include <string.h>
#include <zlib.h>

#include "error.h"

G_STATIC_ASSERT(G_BYTE_ORDER == G_LITTLE_ENDIAN);

struct Npz {
  GByteArray *members, *directory;
  guint n_members;
  gboolean is_too_large;
};

Npz *npz_new(void) {
  Npz *npz = g_new0(Npz, 1);
  npz->members = g_byte_array_new();
  npz->directory = g_byte_array_new();
  return npz;
}

void npz_free(Npz *npz) {
  if (npz == NULL)
    return;
  g_byte_array_unref(npz->members);
  g_byte_array_unref(npz->directory);
  g_free(npz);
}

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

/* The size in bytes of "<i8" or "<U12". */
static gsize item_size(const char *type) {
  const gsize number = (gsize)g_ascii_strtoull(type + 2, NULL, 10);
  return type[1] == 'U' ? 4 * number : number;
}

void npz_add(Npz *npz, const char *name, const char *type, gsize n_rows, gsize n_columns, gconstpointer values) {
  const gsize n_bytes = n_rows * MAX(n_columns, 1) * item_size(type);
  g_autofree char *member = g_strconcat(name, ".npy", NULL);
  g_autoptr(GByteArray) header = npy_header(type, n_rows, n_columns);
  const gsize size = header->len + n_bytes;
  npz->is_too_large |= size > G_MAXINT32 || npz->members->len + size > G_MAXINT32;
  if (npz->is_too_large)
    return;
  gulong checksum = crc32(0, header->data, header->len);
  checksum = n_bytes > 0 ? crc32(checksum, values, (guint)n_bytes) : checksum;

  g_byte_array_append(npz->directory, (const guint8 *)"PK\x01\x02", 4);
  put2(npz->directory, 20);
  put_member(npz->directory, member, checksum, size);
  put2(npz->directory, 0); /* no comment, on this disk, binary, no attributes */
  put2(npz->directory, 0);
  put2(npz->directory, 0);
  put4(npz->directory, 0);
  put4(npz->directory, npz->members->len);
  g_byte_array_append(npz->directory, (const guint8 *)member, (guint)strlen(member));

  g_byte_array_append(npz->members, (const guint8 *)"PK\x03\x04", 4);
  put_member(npz->members, member, checksum, size);
  g_byte_array_append(npz->members, (const guint8 *)member, (guint)strlen(member));
  g_byte_array_append(npz->members, header->data, header->len);
  if (n_bytes > 0)
    g_byte_array_append(npz->members, values, (guint)n_bytes);
  npz->n_members++;
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

GBytes *npz_finish(const Npz *npz, GError **error) {
  if (npz->is_too_large) {
    fail_impossible(error, "the arrays take more than 2 GiB");
    return NULL;
  }
  GByteArray *all = g_byte_array_sized_new(npz->members->len + npz->directory->len + 22);
  g_byte_array_append(all, npz->members->data, npz->members->len);
  g_byte_array_append(all, npz->directory->data, npz->directory->len);
  g_byte_array_append(all, (const guint8 *)"PK\x05\x06", 4);
  put4(all, 0); /* of one disk */
  put2(all, npz->n_members);
  put2(all, npz->n_members);
  put4(all, npz->directory->len);
  put4(all, npz->members->len);
  put2(all, 0);
  return g_byte_array_free_to_bytes(all);
}
