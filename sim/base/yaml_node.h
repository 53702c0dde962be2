/* A YAML file as nodes that know their file and line, and table-driven reading of mappings.
 *
 * This is the subset of YAML that descriptions need: one document of mappings, lists and texts. Anchors, aliases,
 * tags, merge keys and further documents are refused, as are files over 16 MiB, 65,536 nodes or 32 levels, so any
 * node can be walked in time proportional to the file. All errors are INPUT, "file:line: …". */
#pragma once
#include "units.h"

typedef struct YamlFile YamlFile;

/* Borrowed from its YamlFile. Zeroed: an absent key. */
typedef struct {
  const YamlFile *file;
  int index;
} YamlNode;

typedef enum {
  FIELD_TEXT,     /* char *, owned; not empty */
  FIELD_QUANTITY, /* double, a number with a unit of kind `unit` */
  FIELD_BYTES,    /* gint64, the same in bytes, rounded */
  FIELD_NUMBER,   /* double, no unit */
  FIELD_INT,      /* int, no unit */
  FIELD_INT64,    /* gint64, no unit */
  FIELD_CHOICE,   /* an enum (stored as int): index into `names` */
  FIELD_MAP,      /* a mapping: `fields` of the struct at the target */
  FIELD_EACH,     /* a mapping from `names`: each value as fields[0] says, `stride` bytes apart, without its key */
  FIELD_NODE,     /* YamlNode, which the caller reads further */
} FieldType;

/* One key of a mapping and where its value goes. */
typedef struct YamlField {
  const char *key;
  FieldType type;
  gboolean required; /* FALSE: the target keeps its value when the key is absent */
  size_t offset;     /* of the target in the struct that yaml_map_read() fills */
  double min, max;   /* inclusive, in base units */
  UnitKind unit;
  const char *const *names;       /* FIELD_CHOICE, FIELD_EACH: NULL-terminated */
  const struct YamlField *fields; /* FIELD_MAP, FIELD_EACH */
  int n_fields;
  size_t stride;
  const char *what; /* shown when a required key is missing; NULL: the key's name says enough */
} YamlField;

/* The last members of a FIELD_MAP. */
#define YAML_FIELDS(table) .fields = table, .n_fields = G_N_ELEMENTS(table)

YamlFile *yaml_file_read(const char *path, GError **error);
/* The same for text in memory, which errors call `name`. */
YamlFile *yaml_file_parse(const char *name, const char *text, gsize length, GError **error);
void yaml_file_free(YamlFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(YamlFile, yaml_file_free)
YamlNode yaml_file_root(const YamlFile *file);

gboolean yaml_is_present(YamlNode node);
gboolean yaml_is_map(YamlNode node); /* of a node that is present */
gboolean yaml_is_list(YamlNode node);

/* Fill `target` from the mapping `map`. Fails for unknown keys (suggesting the nearest), duplicate keys, missing
 * keys, and values of the wrong form or out of range; texts stored before the failure still belong to the target. */
gboolean yaml_map_read(YamlNode map, const YamlField *fields, int n_fields, void *target, GError **error);

/* The first value with that key in the mapping; zeroed: none. */
YamlNode yaml_map_value(YamlNode map, const char *key);

/* Number of items of a list; −1 with the error set if it is not a list, is empty or has more than `max` items. */
int yaml_list_length(YamlNode list, int max, GError **error);
YamlNode yaml_list_item(YamlNode list, int i);
/* The item after `item` in its list; zeroed after the last. For walking long lists: yaml_list_item() counts from the
 * start each time. */
YamlNode yaml_list_next(YamlNode item);
const char *yaml_path(YamlNode node); /* of the file it comes from; borrowed */
int yaml_line(YamlNode node);         /* in that file, from 1 */

/* The text of a leaf, borrowed; NULL with the error set if it is a list, a mapping or empty. */
const char *yaml_text(YamlNode node, GError **error);

/* "file:line: key: <message>". Always returns FALSE. */
gboolean yaml_fail(YamlNode node, GError **error, const char *format, ...) G_GNUC_PRINTF(3, 4);
/* Put the same prefix before a message that another reader has set. Always returns FALSE. */
gboolean yaml_prefix(YamlNode node, GError **error);

/* Long lists of mappings with the same keys: tables of measured values. */

/* The type of a row: a struct that begins with the YamlNode it was read from, and its fields. */
typedef struct {
  guint size; /* of the struct */
  const YamlField *fields;
  int n_fields;
  gconstpointer blank;  /* the struct before its fields are read: defaults */
  GDestroyNotify clear; /* frees what a row owns; NULL: nothing */
  GCompareFunc compare; /* by key */
} YamlRowType;

/* All rows of `list`, sorted by key; none if it is absent. NULL with the error set, also for a duplicate key. Rows own
 * their texts. */
GArray *yaml_rows_read(YamlNode list, const YamlRowType *type, GError **error);

/* Three-way order of two keys of `n` ≥ 1 numbers, most significant first. */
int yaml_rows_compare(const gint64 *a, const gint64 *b, int n);
