/* yajl hands over one value after the other, and they become json-glib's nodes. What cannot be a description is refused
 * on the way, before it takes memory or the stack: nesting, integers that wrap, millions of values.
 *
 *     {"otherData":{…},"traceEvents":[{…},{…},{…}]}
 *      └──────── kept ─────────────┘  └─ visited ┘      of json_file_stream()
 *
 * The line of every (object, key) is noted, which also reveals duplicate keys. */
#include "json_file.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <yajl/yajl_parse.h>
#include <zlib.h>

#include "data_path.h"
#include "error.h"
#include "units.h"

enum { DEEPEST = 64, MOST_DIGITS = 18, MOST_VALUES = 200000, MOST_ELEMENT_BYTES = 1 << 16 };
/* Of a stream: beside the list; of one value, which yajl reads again with every block. */
enum { MOST_BESIDE_BYTES = 1 << 20, MOST_TOKEN_BYTES = 1 << 20 };

typedef struct {
  gconstpointer object; /* identity only */
  const char *key;      /* owned */
  guint line;
} Member;

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

/* --- reading ----------------------------------------------------------------------------------------------------- */

/* State between two values. */
typedef struct {
  JsonFile *json;
  yajl_handle parser;
  const char *block; /* being parsed */
  guint64 n_before;  /* bytes of the blocks before it */
  gsize n_counted;   /* bytes of it whose lines are in `line` */
  guint line;
  guint64 seen_at;         /* where the last value was seen */
  JsonNode *open[DEEPEST]; /* objects and lists, outermost first; borrowed */
  int depth, n_values;
  char *key;     /* of the next value; owned */
  GError *error; /* of a value that was refused */

  const char *list; /* whose elements are visited; NULL: all are kept */
  JsonFileVisit visit;
  JsonFileWants wants; /* NULL: all elements are visited */
  gboolean skips;      /* the element is not wanted: nothing more of it is kept */
  gpointer data;
  int list_depth;                 /* 0: outside the list */
  guint64 list_begin, list_bytes; /* of the list now; of all before */
  JsonNode *element;              /* being read; owned */
  guint64 element_begin;
  guint element_line;
} Reader;

/* How many bytes were read, up to a value. */
static guint64 count_lines(Reader *reader) {
  const gsize n = yajl_get_bytes_consumed(reader->parser);
  for (; reader->n_counted < n; reader->n_counted++)
    reader->line += reader->block[reader->n_counted] == '\n';
  return reader->seen_at = reader->n_before + n;
}

/* Returns what makes yajl stop. */
G_GNUC_PRINTF(2, 3)
static int refuse(Reader *reader, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  fail_input(&reader->error, "%s:%u: %s", reader->json->file, reader->line, message);
  return FALSE;
}

static gboolean note_member(Reader *reader, JsonObject *object) {
  Member *member = g_new(Member, 1);
  *member = (Member){object, g_strdup(reader->key), reader->line};
  return g_hash_table_add(reader->json->lines, member) ||
         refuse(reader, "found key \"%.80s\" a second time, expected each once", reader->key);
}

/* The root and elements of the list stand alone; takes over the node. */
static int add_alone(Reader *reader, JsonNode *node, guint64 at) {
  if (!JSON_NODE_HOLDS_OBJECT(node)) {
    g_autofree char *found = json_node_words(node);
    json_node_unref(node);
    return refuse(reader, "found %s, expected %s", found, reader->depth == 0 ? "a JSON object" : "an object in braces");
  }
  if (reader->depth == 0) {
    reader->json->node = node;
    reader->json->root = json_node_get_object(node);
    return TRUE;
  }
  reader->element = node;
  reader->element_begin = at;
  reader->element_line = reader->line;
  return TRUE;
}

/* Whether what the element is now known to be leaves it of interest. */
static gboolean is_wanted(const Reader *reader, JsonNode *node) {
  return reader->wants == NULL || reader->element == NULL || reader->depth != reader->list_depth + 1 ||
         json_node_get_value_type(node) != G_TYPE_STRING || reader->wants(reader->key, json_node_get_string(node));
}

static int add_value(Reader *reader, JsonNode *node) {
  const guint64 at = count_lines(reader);
  if (reader->depth == reader->list_depth)
    return add_alone(reader, node, at);
  if (reader->list != NULL && reader->list_depth == 0 && at - reader->list_bytes > MOST_BESIDE_BYTES) {
    json_node_unref(node);
    return refuse(reader, "found more than 1 MiB beside %s, expected less", reader->list);
  }
  JsonNode *parent = reader->open[reader->depth - 1];
  reader->skips = !is_wanted(reader, node);
  if (JSON_NODE_HOLDS_ARRAY(parent)) {
    json_array_add_element(json_node_get_array(parent), node);
  } else {
    json_object_set_member(json_node_get_object(parent), reader->key, node);
    if (reader->element == NULL && !note_member(reader, json_node_get_object(parent)))
      return FALSE;
  }
  if (reader->element != NULL && at - reader->element_begin > MOST_ELEMENT_BYTES)
    return refuse(reader, "found an element of %s of more than 64 KiB, expected smaller ones", reader->list);
  return reader->element != NULL || ++reader->n_values <= MOST_VALUES ||
         refuse(reader, "found more than 200,000 values, expected fewer");
}

static int open_node(Reader *reader, JsonNode *node) {
  const gboolean is_list = reader->list != NULL && reader->depth == 1 && JSON_NODE_HOLDS_ARRAY(node) &&
                           strcmp(reader->key, reader->list) == 0;
  if (!add_value(reader, node))
    return FALSE;
  if (reader->depth == DEEPEST)
    return refuse(reader, "found values nested deeper than 64 levels, expected fewer");
  reader->open[reader->depth++] = node;
  if (is_list) {
    reader->list_depth = reader->depth;
    reader->list_begin = reader->seen_at;
  }
  return TRUE;
}

/* Of an element that is not wanted only the depth counts. */
static int skip_open(Reader *reader) {
  return ++reader->depth <= DEEPEST || refuse(reader, "found values nested deeper than 64 levels, expected fewer");
}

static int see_object(void *data) {
  if (((Reader *)data)->skips)
    return skip_open(data);
  JsonNode *node = json_node_new(JSON_NODE_OBJECT);
  json_node_take_object(node, json_object_new());
  return open_node(data, node);
}

static int see_list(void *data) {
  if (((Reader *)data)->skips)
    return skip_open(data);
  JsonNode *node = json_node_new(JSON_NODE_ARRAY);
  json_node_take_array(node, json_array_new());
  return open_node(data, node);
}

static int see_end(void *data) {
  Reader *reader = data;
  if (--reader->depth < reader->list_depth) {
    reader->list_depth = 0;
    reader->list_bytes += count_lines(reader) - reader->list_begin;
  }
  if (reader->element == NULL || reader->depth > reader->list_depth)
    return TRUE;
  if (reader->skips) {
    reader->skips = FALSE;
    g_clear_pointer(&reader->element, json_node_unref);
    return TRUE;
  }
  const JsonFile element = {
      .file = reader->json->file, .root = json_node_get_object(reader->element), .line = reader->element_line};
  reader->visit(&element, reader->data);
  g_clear_pointer(&reader->element, json_node_unref);
  return TRUE;
}

static int see_key(void *data, const unsigned char *text, size_t length) {
  Reader *reader = data;
  if (reader->skips)
    return TRUE;
  g_free(reader->key);
  reader->key = g_utf8_make_valid((const char *)text, (gssize)length); /* half a surrogate pair is not */
  return TRUE;
}

static int see_text(void *data, const unsigned char *text, size_t length) {
  if (((Reader *)data)->skips)
    return TRUE;
  g_autofree char *valid = g_utf8_make_valid((const char *)text, (gssize)length);
  return add_value(data, json_node_init_string(json_node_alloc(), valid));
}

static int see_number(void *data, const char *text, size_t length) {
  if (((Reader *)data)->skips)
    return TRUE;
  g_autofree char *number = g_strndup(text, length);
  const char *digits = number + (*number == '-');
  const gboolean is_integer = strpbrk(digits, ".eE") == NULL;
  gint64 integer = 0;
  const gboolean fits = is_integer && g_ascii_string_to_signed(number, 10, G_MININT64, G_MAXINT64, &integer, NULL);
  if (((Reader *)data)->element != NULL && is_integer && !fits) /* of a stream: perhaps of no interest */
    return add_value(data, json_node_init_double(json_node_alloc(), g_ascii_strtod(number, NULL)));
  if (is_integer ? !fits : strspn(digits, "0123456789") > MOST_DIGITS) {
    count_lines(data);
    return refuse(data, "found %.40s, expected a number of at most 18 digits", number);
  }
  JsonNode *node = json_node_alloc();
  return add_value(data, is_integer ? json_node_init_int(node, integer)
                                    : json_node_init_double(node, g_ascii_strtod(number, NULL)));
}

static int see_flag(void *data, int flag) {
  return ((Reader *)data)->skips || add_value(data, json_node_init_boolean(json_node_alloc(), flag));
}

static int see_null(void *data) {
  return ((Reader *)data)->skips || add_value(data, json_node_init_null(json_node_alloc()));
}

static const yajl_callbacks callbacks = {.yajl_null = see_null,
                                         .yajl_boolean = see_flag,
                                         .yajl_number = see_number,
                                         .yajl_string = see_text,
                                         .yajl_start_map = see_object,
                                         .yajl_map_key = see_key,
                                         .yajl_end_map = see_end,
                                         .yajl_start_array = see_list,
                                         .yajl_end_array = see_end};

/* Its own reason, or yajl's with the byte that it stopped at. */
static gboolean fail_syntax(Reader *reader, GError **error) {
  if (reader->error != NULL) {
    g_propagate_error(error, g_steal_pointer(&reader->error));
    return FALSE;
  }
  count_lines(reader);
  unsigned char *text = yajl_get_error(reader->parser, FALSE, NULL, 0);
  g_autofree char *reason = g_strchomp(g_strdup((const char *)text));
  yajl_free_error(reader->parser, text);
  const gsize at = yajl_get_bytes_consumed(reader->parser);
  const guchar byte = at > 0 ? (guchar)reader->block[at - 1] : '\0';
  if (g_str_has_suffix(reason, "premature EOF"))
    return fail_input(
        error, "%s:%u: found the end of the file behind %" G_GUINT64_FORMAT " bytes, expected the rest of its JSON",
        reader->json->file, reader->line, reader->n_before);
  if (!g_str_has_suffix(reason, "invalid char in json text."))
    return fail_input(error, "%s:%u: found what is no JSON (%s), expected JSON", reader->json->file, reader->line,
                      reason);
  if (g_ascii_isgraph(byte))
    return fail_input(error, "%s:%u: found \"%c\", expected JSON", reader->json->file, reader->line, byte);
  return fail_input(error, "%s:%u: found byte 0x%02x, expected JSON", reader->json->file, reader->line, byte);
}

/* What yajl lets pass: overlong characters, halves of pairs, and two blanks that are not JSON's. The block ends with a
 * whole character. */
static gboolean check_text(const Reader *reader, const char *block, gsize n, GError **error) {
  const char *valid_end, *first = block + n;
  if (!g_utf8_validate_len(block, n, &valid_end))
    first = valid_end;
  for (const char *blank = "\f\v"; *blank != '\0'; blank++) {
    const char *at = memchr(block, *blank, (gsize)(first - block));
    first = at != NULL ? at : first;
  }
  if (first == block + n)
    return TRUE;
  guint line = reader->line;
  for (const char *at = block; at < first; at++)
    line += *at == '\n';
  return fail_input(error, "%s:%u: found byte 0x%02x, expected JSON in UTF-8", reader->json->file, line,
                    (guint)(guchar)*first);
}

static gboolean read_block(Reader *reader, const char *block, gsize n, GError **error) {
  reader->n_before += reader->n_counted;
  reader->n_counted = 0;
  reader->block = block;
  if (!check_text(reader, block, n, error))
    return FALSE;
  if (yajl_parse(reader->parser, (const unsigned char *)block, n) != yajl_status_ok)
    return fail_syntax(reader, error);
  const guint64 seen_at = reader->seen_at, end = count_lines(reader);
  reader->seen_at = seen_at;
  return reader->list == NULL || end - seen_at <= MOST_TOKEN_BYTES ||
         fail_input(error, "%s:%u: found a value of more than 1 MiB, expected shorter ones", reader->json->file,
                    reader->line);
}

static gboolean read_end(Reader *reader, GError **error) {
  if (reader->n_before + reader->n_counted == 0)
    return fail_input(error, "%s:1: found an empty file, expected a JSON object", reader->json->file);
  reader->n_before +=
      reader->n_counted; /* a number may only now be known to have ended: yajl looks at a blank behind */
  reader->n_counted = 0;
  reader->block = " ";
  return yajl_complete_parse(reader->parser) == yajl_status_ok || fail_syntax(reader, error);
}

static gboolean read_whole(Reader *reader, const char *text, gsize length, GError **error) {
  const gsize mark = g_str_has_prefix(text, "\xef\xbb\xbf") ? 3 : 0; /* of the encoding */
  return read_block(reader, text + mark, length - mark, error) && read_end(reader, error);
}

/* Of so many bytes, those before a character that may go on behind them. */
static gsize whole_characters(const char *bytes, gsize n) {
  enum { MOST_BYTES = 4 };
  for (gsize back = 1; back <= MIN(n, MOST_BYTES); back++) {
    const guchar byte = (guchar)bytes[n - back];
    if ((byte & 0xc0) != 0x80) /* the first of its character */
      return g_utf8_get_char_validated(&bytes[n - back], (gssize)back) == (gunichar)-2 ? n - back : n;
  }
  return n;
}

/* Plain, or as gzip compressed it. */
static gboolean read_stream(Reader *reader, GError **error) {
  static const guint64 most = (guint64)JSON_FILE_MOST_MIB << 20;
  const char *file = reader->json->file;
  gzFile stream = gzopen(file, "re");
  char block[1 << 15];
  gsize n_kept = 0; /* of a character that the last block cut off */
  gboolean ok = stream != NULL || fail_input(error, "cannot read %.200s: %s", file, g_strerror(errno));
  for (int n; ok && (n = gzread(stream, block + n_kept, (guint)(sizeof block - n_kept))) != 0;) {
    if (n < 0) {
      int status;
      const char *reason = gzerror(stream, &status);
      ok = fail_input(error, "cannot read %.200s: %s", file, status == Z_ERRNO ? g_strerror(errno) : reason);
      break;
    }
    const gsize n_held = n_kept + (gsize)n, n_whole = gzeof(stream) ? n_held : whole_characters(block, n_held);
    ok = (reader->n_before + n_held <= most || fail_input(error, "%s: larger than %d MiB", file, JSON_FILE_MOST_MIB)) &&
         read_block(reader, block, n_whole, error);
    n_kept = n_held - n_whole;
    memmove(block, block + n_whole, n_kept);
  }
  ok = ok && (n_kept == 0 || read_block(reader, block, n_kept, error));
  if (stream != NULL && gzclose(stream) == Z_BUF_ERROR && ok)
    ok = fail_input(error, "%s:%u: found the end of the compressed file, expected the rest", file, reader->line);
  return ok && read_end(reader, error);
}

/* Of `text`, or of the file without one. */
static JsonFile *read_json(const char *path, const char *text, gsize length, Reader reader, GError **error) {
  g_autoptr(JsonFile) json = g_new0(JsonFile, 1);
  json->file = g_strdup(path);
  json->lines = g_hash_table_new_full(member_hash, member_equal, member_free, NULL);
  reader.json = json;
  reader.line = 1;
  reader.parser = yajl_alloc(&callbacks, NULL, &reader);
  const gboolean ok = text != NULL ? read_whole(&reader, text, length, error) : read_stream(&reader, error);
  yajl_free(reader.parser);
  g_clear_pointer(&reader.element, json_node_unref);
  g_free(reader.key);
  return ok ? g_steal_pointer(&json) : NULL;
}

JsonFile *json_file_stream(const char *path, const char *list, JsonFileWants wants, JsonFileVisit visit, gpointer data,
                           GError **error) {
  return read_json(path, NULL, 0, (Reader){.list = list, .wants = wants, .visit = visit, .data = data}, error);
}

JsonFile *json_file_parse(const char *path, const char *text, gsize length, GError **error) {
  return read_json(path, text, length, (Reader){0}, error);
}

JsonFile *json_file_read(const char *path, GError **error) {
  gsize length;
  g_autofree char *text = data_file_read(path, &length, error);
  return text != NULL ? json_file_parse(path, text, length, error) : NULL;
}

void json_file_free(JsonFile *json) {
  if (json == NULL)
    return;
  g_clear_pointer(&json->lines, g_hash_table_unref);
  g_clear_pointer(&json->node, json_node_unref);
  g_free(json->file);
  g_free(json);
}

/* --- values ------------------------------------------------------------------------------------------------------ */

guint json_file_line(const JsonFile *json, JsonObject *object, const char *key) {
  if (json->lines == NULL)
    return json->line;
  Member wanted = {object, key, 0};
  const Member *found = g_hash_table_lookup(json->lines, &wanted);
  return found == NULL ? 1 : found->line;
}

gboolean json_file_has(JsonObject *object, const char *key) {
  return json_object_has_member(object, key) && !json_object_get_null_member(object, key);
}

const char *json_member_text(JsonObject *object, const char *key) {
  JsonNode *node = object != NULL ? json_object_get_member(object, key) : NULL;
  return node != NULL && json_node_get_value_type(node) == G_TYPE_STRING ? json_node_get_string(node) : NULL;
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

gboolean json_file_fail(const JsonFile *json, JsonObject *object, const char *key, const char *expected,
                        GError **error) {
  JsonNode *node = json_object_get_member(object, key);
  g_autofree char *found = node != NULL ? json_node_words(node) : g_strdup("none");
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
  return json_file_fail(json, object, key, expected, error);
}

gboolean json_file_number(const JsonFile *json, JsonObject *object, const char *key, RealRange range, double *value,
                          GError **error) {
  if (!json_file_has(object, key))
    return TRUE;
  gboolean is_number = holds(object, key, G_TYPE_INT64) || holds(object, key, G_TYPE_DOUBLE);
  double found = is_number ? json_object_get_double_member(object, key) : NAN;
  if (!(found >= range.least && found <= range.most)) {
    g_autofree char *expected = g_strdup_printf("a number from %g to %g", range.least, range.most);
    return json_file_fail(json, object, key, expected, error);
  }
  *value = found;
  return TRUE;
}

gboolean json_file_flag(const JsonFile *json, JsonObject *object, const char *key, gboolean *value, GError **error) {
  if (!json_file_has(object, key))
    return TRUE;
  if (!holds(object, key, G_TYPE_BOOLEAN))
    return json_file_fail(json, object, key, "true or false", error);
  *value = json_object_get_boolean_member(object, key);
  return TRUE;
}

gboolean json_file_text(const JsonFile *json, JsonObject *object, const char *key, const char **value, GError **error) {
  if (!json_file_has(object, key))
    return TRUE;
  if (!holds(object, key, G_TYPE_STRING))
    return json_file_fail(json, object, key, "a text in quotes", error);
  *value = json_object_get_string_member(object, key);
  return TRUE;
}

gboolean json_file_object(const JsonFile *json, JsonObject *object, const char *key, JsonObject **value,
                          GError **error) {
  if (!json_file_has(object, key))
    return TRUE;
  if (!JSON_NODE_HOLDS_OBJECT(json_object_get_member(object, key)))
    return json_file_fail(json, object, key, "an object in braces", error);
  *value = json_object_get_object_member(object, key);
  return TRUE;
}
