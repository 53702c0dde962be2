/* A YAML file as nodes that know their file and line, and mappings read by a table of their keys.
 *
 * The subset of YAML that descriptions need: one document of mappings, lists and texts. Anchors, aliases, tags, merge
 * keys and further documents are refused, as are files over 16 MiB, 65,536 nodes or 32 levels: a reader can then walk
 * any node that it was given, in time proportional to the file. All errors are INPUT, "file:line: …". */
#pragma once
#include "units.h"

typedef struct YamlFile YamlFile;

/* Borrowed from its YamlFile. A zeroed one stands for a key that is not there. */
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
  FIELD_NODE,     /* YamlNode, for what the caller reads further */
} FieldType;

/* One key of a mapping and where its value goes. */
typedef struct {
  const char *key;
  FieldType type;
  gboolean required; /* FALSE: the target keeps its value when the key is absent */
  size_t offset;     /* of the target in the struct that yaml_map_read() fills */
  double min, max;   /* inclusive, in base units */
  UnitKind unit;
  const char *const *names; /* FIELD_CHOICE: NULL-terminated */
  const char *what;         /* told when a required key is missing; NULL: its name says it */
} YamlField;

YamlFile *yaml_file_read(const char *path, GError **error);
/* The same of a text in memory, which errors call `name`. */
YamlFile *yaml_file_parse(const char *name, const char *text, gsize length, GError **error);
void yaml_file_free(YamlFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(YamlFile, yaml_file_free)
YamlNode yaml_file_root(const YamlFile *file);

gboolean yaml_is_present(YamlNode node);
gboolean yaml_is_map(YamlNode node); /* of one that is present */
gboolean yaml_is_list(YamlNode node);

/* Fill `target` from the mapping `map`. Unknown keys (with the nearest valid one), duplicate keys, missing keys, values
 * of the wrong form or out of range fail; texts stored until then stay the target's. */
gboolean yaml_map_read(YamlNode map, const YamlField *fields, int n_fields, void *target, GError **error);

/* The first value in the mapping whose key is that; zeroed: none. */
YamlNode yaml_map_value(YamlNode map, const char *key);

/* Items of a list of at most `max`; −1 with the error set when it is no list, empty or longer. */
int yaml_list_length(YamlNode list, int max, GError **error);
YamlNode yaml_list_item(YamlNode list, int i);
/* The item after `item` in its list; zeroed after the last. Walks long lists, where yaml_list_item() counts from the
 * start each time. */
YamlNode yaml_list_next(YamlNode item);
const char *yaml_path(YamlNode node); /* of the file that it is from; borrowed */
int yaml_line(YamlNode node);         /* of that file, from 1 */

/* The text of a leaf, borrowed; NULL with the error set when it is a list, a mapping or empty. */
const char *yaml_text(YamlNode node, GError **error);

/* "file:line: key: <message>". Always returns FALSE. */
gboolean yaml_fail(YamlNode node, GError **error, const char *format, ...) G_GNUC_PRINTF(3, 4);
/* The same prefix before a message that another reader has already set. Always returns FALSE. */
gboolean yaml_prefix(YamlNode node, GError **error);
