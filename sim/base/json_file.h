/* A JSON file that remembers the line of each member, so that an error about a value's meaning can say file:line as a
 * syntax error does. */
#pragma once
#include "units.h"
#include <json-glib/json-glib.h>

typedef struct {
  char *file;        /* owned */
  JsonNode *node;    /* the root; owned */
  JsonObject *root;  /* the same; borrowed */
  GHashTable *lines; /* of (object, key) → line; owned; NULL: all are of `line` */
  guint line;
} JsonFile;

/* INPUT with file:line for anything but a single JSON object: syntax, encoding, comments, nesting deeper than any
 * config's, duplicate keys. */
JsonFile *json_file_read(const char *path, GError **error);
/* The same of what was read from there. */
JsonFile *json_file_parse(const char *path, const char *text, gsize length, GError **error);
/* The same for a file with one long list, the root's member `list`, all of whose elements are objects. They are not
 * kept but shown to `visit`, each with the line on which it starts; of a key that an element has twice the later value
 * counts. Elements before a mistake may have been visited. The file may be compressed with gzip. Up to
 * JSON_FILE_MOST_MIB MiB of JSON. */
enum { JSON_FILE_MOST_MIB = 8192 };
typedef void (*JsonFileVisit)(const JsonFile *element, gpointer data);
/* NULL, or whether an element with this text is of interest: those found not to be are read on but not shown. */
typedef gboolean (*JsonFileWants)(const char *key, const char *text);
JsonFile *json_file_stream(const char *path, const char *list, JsonFileWants wants, JsonFileVisit visit, gpointer data,
                           GError **error);
void json_file_free(JsonFile *json);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(JsonFile, json_file_free)

/* Line on which the value of `key` begins; 1 when `object` has no such key. */
guint json_file_line(const JsonFile *json, JsonObject *object, const char *key);
/* A null means the default, as if the key were absent. */
gboolean json_file_has(JsonObject *object, const char *key);
/* The text of a member; NULL: there is none, or it is no text (`object` may be NULL). Borrowed. */
const char *json_member_text(JsonObject *object, const char *key);

/* Whether the value is an integer of the range, which may be written 4096.0; then sets *value. */
gboolean json_node_integer(JsonNode *node, IntegerRange range, gint64 *value);
/* "4.5", "\"text\"", "an object": for messages. Owned by the caller. */
char *json_node_words(JsonNode *node);

/* INPUT with file:line, key, found (none: no such key) and expected. */
gboolean json_file_fail(const JsonFile *json, JsonObject *object, const char *key, const char *expected,
                        GError **error);

/* Typed access. If the key is absent, returns TRUE and leaves the default in `*value`. INPUT with file:line, key,
 * found and expected if the value has another type or is out of range. */
gboolean json_file_integer(const JsonFile *json, JsonObject *object, const char *key, IntegerRange range, gint64 *value,
                           GError **error);
gboolean json_file_number(const JsonFile *json, JsonObject *object, const char *key, RealRange range, double *value,
                          GError **error);
gboolean json_file_flag(const JsonFile *json, JsonObject *object, const char *key, gboolean *value, GError **error);
/* `*value` is borrowed from the file. */
gboolean json_file_text(const JsonFile *json, JsonObject *object, const char *key, const char **value, GError **error);
gboolean json_file_object(const JsonFile *json, JsonObject *object, const char *key, JsonObject **value,
                          GError **error);
