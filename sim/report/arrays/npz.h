/* Arrays of numbers and of names in one file, as numpy.load() reads it: a ZIP archive whose members are .npy files,
 * stored without compression. Source: numpy.lib.format, version 1.0; PKWARE APPNOTE.TXT 6.3. The same arrays give the
 * same bytes. */
#pragma once
#include <glib.h>

typedef struct Npz Npz;

Npz *npz_new(void);
void npz_free(Npz *npz);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Npz, npz_free)

/* Append `values`, [n_rows], or [n_rows][n_columns] if n_columns > 0. `type` is numpy's: "<i8", "<i4", "<i2", "|u1",
 * "<f8", "<f4". The bytes are copied. */
void npz_add(Npz *npz, const char *name, const char *type, gsize n_rows, gsize n_columns, gconstpointer values);
/* The same of texts, in UTF-8, as an array of fixed-width strings ("<U"). */
void npz_add_texts(Npz *npz, const char *name, gsize n, const char *const *texts);

/* As added; of texts the type is "<U12", and each character takes four bytes. */
typedef struct {
  const char *name, *type;
  gsize n_rows, n_columns; /* columns 0: of one dimension */
  gconstpointer values;
} NpzArray;
/* In the order added. Borrowed, until more are added. */
gsize npz_n_arrays(const Npz *npz);
const NpzArray *npz_array(const Npz *npz, gsize i);

/* The archive. Owned by the caller; NULL with IMPOSSIBLE for arrays of 2 GiB or more. */
GBytes *npz_finish(const Npz *npz, GError **error);
