/* Long lists of mappings with the same keys: tables of measured values. */
#pragma once
#include "yaml_node.h"

/* The type of a row: a struct that begins with the YamlNode it was read from, and its fields. */
typedef struct {
  guint size; /* of the struct */
  const YamlField *fields;
  int n_fields;
  gconstpointer blank;  /* the struct before its fields are read: defaults */
  GDestroyNotify clear; /* frees what a row owns; NULL: nothing */
  GCompareFunc compare; /* by key */
} YamlRowType;

/* All rows of `list`, sorted by key; NULL with the error set, also for a duplicate key. Rows own their texts. */
GArray *yaml_rows_read(YamlNode list, const YamlRowType *type, GError **error);

/* Three-way order of two keys of `n` ≥ 1 numbers, most significant first. */
int yaml_rows_compare(const gint64 *a, const gint64 *b, int n);
