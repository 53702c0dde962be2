/* json-glib parses. Two things it does not do are done around it:
 *
 *   before   It accepts more than JSON (comments, hexadecimals, a second root that it drops, integers that wrap),
 *            recurses as deep as the file nests, until the stack overflows, and takes half a minute for millions of
 *            values. A pass over the bytes refuses those, with the line.
 *   during   Its `object-member` signal comes right after each value, while the scanner's line is that of the value.
 *            The line is noted per (object, key), which also reveals duplicate keys. */
#include "json_file.h"

#include <math.h>
#include <string.h>

#include "data_path.h"
#include "error.h"
#include "units.h"

enum { DEEPEST = 64, MOST_DIGITS = 18, MOST_COMMAS = 200000 };

typedef struct {
  gconstpointer object; /* identity only */
  const char *key;      /* owned */
  guint line;
} Member;

typedef struct {
  JsonFile *json;
  char *duplicate; /* first duplicate key; owned */
  guint duplicate_line;
} Collector;

static guint member_hash(gconstpointer data) {
  const Member *member = data;
  return g_direct_hash(member->object) ^ g_str_hash(member->key);
}

static gboolean member_equal(gconstpointer a, gconstpointer b) {
  const Member *x = a, *y = b;
  return x->object == y->object && strcmp(x->key, y->key) == 0;
}

static void member_free(gpointer data) {
  Member *member = data;
  g_free((char *)member->key);
  g_free(member);
}

static void note_member(JsonParser *parser, JsonObject *object, const char *key, gpointer data) {
  Collector *collector = data;
  Member *member = g_new(Member, 1);
  *member = (Member){object, g_strdup(key), json_parser_get_current_line(parser)};
  guint line = member->line;
  if (!g_hash_table_add(collector->json->lines, member) && collector->duplicate == NULL) {
    collector->duplicate = g_strdup(key);
    collector->duplicate_line = line;
  }
}

/* State of the pass over the bytes. */
typedef struct {
  guint line;
  int depth;
  int n_commas;
  gboolean in_string, escaped, root_seen;
  int n_digits; /* of the integer being read; −1 after a decimal point */
} Guard;

static void guard_string_byte(Guard *guard, char c) {
  if (guard->escaped)
    guard->escaped = FALSE;
  else if (c == '\\')
    guard->escaped = TRUE;
  else if (c == '"')
    guard->in_string = FALSE;
}

static void count_digits(Guard *guard, char c) {
  if (c == '.')
    guard->n_digits = -1;
  else if (!g_ascii_isdigit(c))
    guard->n_digits = 0;
  else if (guard->n_digits >= 0)
    guard->n_digits++;
}

/* What is wrong with a byte outside strings; NULL: nothing. */
static const char *guard_byte(Guard *guard, char c) {
  if (strchr(" \t\r\n{}[]:,\"+-.0123456789truefalsnE", c) == NULL)
    return "no JSON value starts or goes on with it";
  count_digits(guard, c);
  if (guard->n_digits > MOST_DIGITS)
    return "a number of more than 18 digits";
  if (c == ',' && ++guard->n_commas > MOST_COMMAS)
    return "more than 200,000 values";
  if (c == '"')
    guard->in_string = TRUE;
  if (c == '{' || c == '[') {
    if (guard->depth == 0 && guard->root_seen)
      return "a second value behind the first";
    guard->root_seen = TRUE;
    if (++guard->depth > DEEPEST)
      return "nested deeper than 64 levels";
  }
  if (c == '}' || c == ']')
    guard->depth--;
  return NULL;
}

static gboolean check_encoding(const char *file, const char *text, gsize length, GError **error) {
  const char *end;
  if (g_utf8_validate_len(text, length, &end))
    return TRUE;
  guint line = 1;
  for (const char *c = text; c < end; c++)
    line += *c == '\n';
  return fail_input(error, "%s:%u: found byte 0x%02x, expected UTF-8 text", file, line, (guint)(guchar)*end);
}

static gboolean check_bytes(const char *file, const char *text, gsize length, GError **error) {
  if (!check_encoding(file, text, length, error))
    return FALSE;
  Guard guard = {.line = 1};
  for (gsize i = g_str_has_prefix(text, "\xef\xbb\xbf") ? 3 : 0; i < length; i++) {
    const char *wrong = NULL;
    if (guard.in_string)
      guard_string_byte(&guard, text[i]);
    else
      wrong = guard_byte(&guard, text[i]);
    if (wrong != NULL)
      return fail_input(error, "%s:%u: found \"%c\" (%s), expected JSON", file, guard.line, text[i], wrong);
    guard.line += text[i] == '\n';
  }
  return TRUE;
}

/* json-glib's own message says "<data>:line:column: …". */
static gboolean fail_syntax(const char *file, const GError *cause, GError **error) {
  const char *colon = g_str_has_prefix(cause->message, "<data>:") ? strchr(cause->message, ':') : NULL;
  if (colon != NULL)
    return fail_input(error, "%s%s", file, colon);
  return fail_input(error, "%s:1: %s", file, cause->message);
}

static gboolean parse(JsonFile *json, const char *text, gsize length, GError **error) {
  Collector collector = {.json = json};
  gulong handler = g_signal_connect(json->parser, "object-member", G_CALLBACK(note_member), &collector);
  g_autoptr(GError) cause = NULL;
  gboolean parsed = json_parser_load_from_data(json->parser, text, (gssize)length, &cause);
  g_signal_handler_disconnect(json->parser, handler);
  g_autofree char *duplicate = collector.duplicate;
  if (!parsed)
    return fail_syntax(json->file, cause, error);
  if (duplicate != NULL)
    return fail_input(error, "%s:%u: found key \"%.80s\" a second time, expected each once", json->file,
                      collector.duplicate_line, duplicate);
  JsonNode *root = json_parser_get_root(json->parser);
  if (root == NULL || !JSON_NODE_HOLDS_OBJECT(root))
    return fail_input(error, "%s:1: found %s, expected a JSON object", json->file,
                      root == NULL ? "an empty file" : json_node_type_name(root));
  json->root = json_node_get_object(root);
  return TRUE;
}

JsonFile *json_file_read(const char *path, GError **error) {
  gsize length;
  g_autofree char *text = data_file_read(path, &length, error);
  if (text == NULL || !check_bytes(path, text, length, error))
    return NULL;
  g_autoptr(JsonFile) json = g_new0(JsonFile, 1);
  json->file = g_strdup(path);
  json->parser = json_parser_new();
  json->lines = g_hash_table_new_full(member_hash, member_equal, member_free, NULL);
  return parse(json, text, length, error) ? g_steal_pointer(&json) : NULL;
}

void json_file_free(JsonFile *json) {
  if (json == NULL)
    return;
  g_clear_pointer(&json->lines, g_hash_table_unref);
  g_clear_object(&json->parser);
  g_free(json->file);
  g_free(json);
}

guint json_file_line(const JsonFile *json, JsonObject *object, const char *key) {
  Member wanted = {object, key, 0};
  const Member *found = g_hash_table_lookup(json->lines, &wanted);
  return found == NULL ? 1 : found->line;
}

gboolean json_file_has(JsonObject *object, const char *key) {
  return json_object_has_member(object, key) && !json_object_get_null_member(object, key);
}

/* Not one of an integer: as in the file. */
static char *number_words(double value) {
  g_autoptr(GString) text = g_string_new(NULL);
  units_append_exact(text, value);
  if (isfinite(value) && strpbrk(text->str, ".e") == NULL)
    g_string_append(text, ".0");
  return g_strdup(text->str);
}

char *json_node_words(JsonNode *node) {
  if (JSON_NODE_HOLDS_OBJECT(node))
    return g_strdup("an object");
  if (JSON_NODE_HOLDS_ARRAY(node))
    return g_strdup("a list");
  if (json_node_get_value_type(node) == G_TYPE_STRING)
    return g_strdup_printf("\"%.80s\"", json_node_get_string(node));
  if (json_node_get_value_type(node) == G_TYPE_DOUBLE)
    return number_words(json_node_get_double(node));
  if (json_node_get_value_type(node) == G_TYPE_INT64)
    return g_strdup_printf("%" G_GINT64_FORMAT, json_node_get_int(node));
  if (JSON_NODE_HOLDS_NULL(node))
    return g_strdup("null");
  return g_strdup(json_node_get_boolean(node) ? "true" : "false");
}

static gboolean fail_value(const JsonFile *json, JsonObject *object, const char *key, const char *expected,
                           GError **error) {
  g_autofree char *found = json_node_words(json_object_get_member(object, key));
  return fail_input(error, "%s:%u: %s: found %s, expected %s", json->file, json_file_line(json, object, key), key,
                    found, expected);
}

static gboolean holds(JsonObject *object, const char *key, GType type) {
  JsonNode *node = json_object_get_member(object, key);
  return JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == type;
}

gboolean json_node_integer(JsonNode *node, IntegerRange range, gint64 *value) {
  const GType type = JSON_NODE_HOLDS_VALUE(node) ? json_node_get_value_type(node) : G_TYPE_INVALID;
  if (type == G_TYPE_DOUBLE)
    return range_has_integer(range, json_node_get_double(node), value);
  if (type != G_TYPE_INT64 || json_node_get_int(node) < range.least || json_node_get_int(node) > range.most)
    return FALSE;
  *value = json_node_get_int(node);
  return TRUE;
}

gboolean json_file_integer(const JsonFile *json, JsonObject *object, const char *key, IntegerRange range, gint64 *value,
                           GError **error) {
  if (!json_file_has(object, key))
    return TRUE;
  if (json_node_integer(json_object_get_member(object, key), range, value))
    return TRUE;
  g_autofree char *expected =
      g_strdup_printf("an integer from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, range.least, range.most);
  return fail_value(json, object, key, expected, error);
}

gboolean json_file_number(const JsonFile *json, JsonObject *object, const char *key, RealRange range, double *value,
                          GError **error) {
  if (!json_file_has(object, key))
    return TRUE;
  gboolean is_number = holds(object, key, G_TYPE_INT64) || holds(object, key, G_TYPE_DOUBLE);
  double found = is_number ? json_object_get_double_member(object, key) : NAN;
  if (!(found >= range.least && found <= range.most)) {
    g_autofree char *expected = g_strdup_printf("a number from %g to %g", range.least, range.most);
    return fail_value(json, object, key, expected, error);
  }
  *value = found;
  return TRUE;
}

gboolean json_file_flag(const JsonFile *json, JsonObject *object, const char *key, gboolean *value, GError **error) {
  if (!json_file_has(object, key))
    return TRUE;
  if (!holds(object, key, G_TYPE_BOOLEAN))
    return fail_value(json, object, key, "true or false", error);
  *value = json_object_get_boolean_member(object, key);
  return TRUE;
}

gboolean json_file_text(const JsonFile *json, JsonObject *object, const char *key, const char **value, GError **error) {
  if (!json_file_has(object, key))
    return TRUE;
  if (!holds(object, key, G_TYPE_STRING))
    return fail_value(json, object, key, "a text in quotes", error);
  *value = json_object_get_string_member(object, key);
  return TRUE;
}

gboolean json_file_object(const JsonFile *json, JsonObject *object, const char *key, JsonObject **value,
                          GError **error) {
  if (!json_file_has(object, key))
    return TRUE;
  if (!JSON_NODE_HOLDS_OBJECT(json_object_get_member(object, key)))
    return fail_value(json, object, key, "an object in braces", error);
  *value = json_object_get_object_member(object, key);
  return TRUE;
}
