/* A pass over the bytes follows strings and brackets, which is all it takes to cut the file:
 *
 *     {"otherData":{…},"traceEvents":[{…},{…},{…},{…}]}
 *      └─────── rest ──────────────┘  └─batch─┘└─batch─┘ └ rest
 *
 * json-glib parses the parts and judges their syntax. What it lets pass or cannot bear is refused on the way: comments,
 * hexadecimals, a second root, integers that wrap, nesting that ends the stack. */
#include "json_events.h"

#include "error.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
  DEEPEST = 64,
  MOST_DIGITS = 18,
  BATCH_BYTES = 1 << 16,
  MOST_ELEMENT_BYTES = 1 << 16,
  MOST_REST_BYTES = 1 << 20,
};

typedef struct {
  const char *file, *key;
  JsonEventsVisit visit;
  gpointer data;

  guint line; /* of the next byte */
  int depth;
  int n_digits; /* of the integer being read; −1 behind a point */
  gboolean in_string, escaped, root_seen;

  GString *rest; /* the root without the elements */
  gsize string_start, string_end;
  gboolean in_array, array_seen;
  gboolean has_element, wants_element; /* in the array: behind an element, behind a comma */

  JsonParser *parser; /* of batches */
  GString *batch;     /* "[{…},{…}" */
  GArray *starts;     /* of gsize, in `batch` */
  GArray *lines;      /* of guint */
} Splitter;

static gboolean is_blank(guchar c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static gboolean may_stand_outside_strings(guchar c) {
  static const char others[256] = {
      ['{'] = 1, ['}'] = 1, ['['] = 1, [']'] = 1, [':'] = 1, [','] = 1, ['"'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1,
      ['t'] = 1, ['r'] = 1, ['u'] = 1, ['e'] = 1, ['f'] = 1, ['a'] = 1, ['l'] = 1, ['s'] = 1, ['n'] = 1, ['E'] = 1};
  return is_blank(c) || g_ascii_isdigit(c) || others[c];
}

static gboolean fail_byte(const Splitter *splitter, guchar c, const char *expected, GError **error) {
  if (g_ascii_isprint(c))
    return fail_input(error, "%s:%u: found \"%c\", expected %s", splitter->file, splitter->line, c, expected);
  return fail_input(error, "%s:%u: found byte 0x%02x, expected %s", splitter->file, splitter->line, c, expected);
}

/* json-glib's own message says "<data>:line:column: …". */
static gboolean fail_syntax(const char *file, guint first_line, const GError *cause, GError **error) {
  const char *at = cause->message;
  guint64 line = 1;
  if (g_str_has_prefix(at, "<data>:")) {
    line = g_ascii_strtoull(at + strlen("<data>:"), NULL, 10);
    at = strstr(at, ": ") != NULL ? strstr(at, ": ") + 2 : at;
  }
  return fail_input(error, "%s:%u: %s", file, first_line + (guint)MAX(line, 1) - 1, at);
}

static gboolean parse(Splitter *splitter, JsonParser *parser, const char *text, gsize length, guint first_line,
                      GError **error) {
  g_autoptr(GError) cause = NULL;
  if (!g_utf8_validate_len(text, length, NULL))
    return fail_input(error, "%s:%u: found bytes that are not UTF-8 text", splitter->file, first_line);
  if (!json_parser_load_from_data(parser, text, (gssize)length, &cause))
    return fail_syntax(splitter->file, first_line, cause, error);
  return TRUE;
}

/* --- elements ---------------------------------------------------------------------------------------------------- */

/* A batch did not parse: the first element that does not on its own says where. */
static gboolean fail_batch(Splitter *splitter, GError **error) {
  for (guint i = 0; i < splitter->starts->len; i++) {
    gsize start = g_array_index(splitter->starts, gsize, i);
    gsize end = i + 1 < splitter->starts->len ? g_array_index(splitter->starts, gsize, i + 1) - 1
                                              : splitter->batch->len - strlen("]");
    if (!parse(splitter, splitter->parser, splitter->batch->str + start, end - start,
               g_array_index(splitter->lines, guint, i), error))
      return FALSE;
  }
  return fail_input(error, "%s:%u: found what is not JSON", splitter->file, splitter->line);
}

static gboolean visit_batch(Splitter *splitter, GError **error) {
  if (splitter->starts->len == 0)
    return TRUE;
  g_string_append_c(splitter->batch, ']');
  if (!parse(splitter, splitter->parser, splitter->batch->str, splitter->batch->len, 1, NULL))
    return fail_batch(splitter, error);
  JsonArray *elements = json_node_get_array(json_parser_get_root(splitter->parser));
  if (json_array_get_length(elements) != splitter->starts->len)
    return fail_batch(splitter, error);
  splitter->visit(elements, (const guint *)(const void *)splitter->lines->data, splitter->data);
  g_string_assign(splitter->batch, "[");
  g_array_set_size(splitter->starts, 0);
  g_array_set_size(splitter->lines, 0);
  return TRUE;
}

static void begin_element(Splitter *splitter) {
  if (splitter->starts->len > 0)
    g_string_append_c(splitter->batch, ',');
  gsize start = splitter->batch->len;
  g_array_append_val(splitter->starts, start);
  g_array_append_val(splitter->lines, splitter->line);
}

/* Between the elements. */
static gboolean see_separator(Splitter *splitter, guchar c, GError **error) {
  if (is_blank(c))
    return TRUE;
  if (c == ']' && !splitter->wants_element) {
    splitter->in_array = FALSE;
    splitter->depth--;
    g_string_append_c(splitter->rest, c);
    return TRUE;
  }
  if (c == ',' && splitter->has_element) {
    splitter->has_element = FALSE;
    splitter->wants_element = TRUE;
    return TRUE;
  }
  if (c != '{' || splitter->has_element)
    return fail_byte(splitter, c, splitter->has_element ? "a comma or the list's end" : "an object in braces", error);
  begin_element(splitter);
  g_string_append_c(splitter->batch, c);
  splitter->depth++;
  return TRUE;
}

static gboolean see_element_end(Splitter *splitter, GError **error) {
  splitter->has_element = TRUE;
  splitter->wants_element = FALSE;
  return splitter->batch->len < BATCH_BYTES || visit_batch(splitter, error);
}

/* --- bytes ------------------------------------------------------------------------------------------------------- */

static gboolean keep(Splitter *splitter, guchar c, GError **error) {
  if (!splitter->in_array) {
    g_string_append_c(splitter->rest, (char)c);
    return splitter->rest->len <= MOST_REST_BYTES ||
           fail_input(error, "%s:%u: found more than 1 MiB beside %s", splitter->file, splitter->line, splitter->key);
  }
  g_string_append_c(splitter->batch, (char)c);
  gsize start = g_array_index(splitter->starts, gsize, splitter->starts->len - 1);
  return splitter->batch->len - start <= MOST_ELEMENT_BYTES ||
         fail_input(error, "%s:%u: found an element of %s of more than 64 KiB", splitter->file, splitter->line,
                    splitter->key);
}

static gboolean see_string_byte(Splitter *splitter, guchar c, GError **error) {
  if (c < 0x20)
    return fail_byte(splitter, c, "the end of the string first", error);
  if (splitter->escaped)
    splitter->escaped = FALSE;
  else if (c == '\\')
    splitter->escaped = TRUE;
  else if (c == '"') {
    splitter->in_string = FALSE;
    splitter->string_end = splitter->rest->len;
  }
  return keep(splitter, c, error);
}

static gboolean check_digits(Splitter *splitter, guchar c, GError **error) {
  if (c == '.')
    splitter->n_digits = -1;
  else if (!g_ascii_isdigit(c))
    splitter->n_digits = 0;
  else if (splitter->n_digits >= 0 && ++splitter->n_digits > MOST_DIGITS)
    return fail_byte(splitter, c, "a number of at most 18 digits", error);
  return TRUE;
}

static gboolean begins_array(const Splitter *splitter) {
  gsize length = strlen(splitter->key);
  return splitter->depth == 1 && splitter->string_end - splitter->string_start == length &&
         memcmp(splitter->rest->str + splitter->string_start, splitter->key, length) == 0;
}

static gboolean open_bracket(Splitter *splitter, guchar c, GError **error) {
  if (splitter->depth == 0 && c != '{')
    return fail_byte(splitter, c, "a JSON object", error);
  if (!splitter->in_array && c == '[' && begins_array(splitter)) {
    if (splitter->array_seen)
      return fail_input(error, "%s:%u: found key \"%s\" a second time", splitter->file, splitter->line, splitter->key);
    splitter->in_array = splitter->array_seen = TRUE;
    splitter->has_element = splitter->wants_element = FALSE;
    g_string_append_c(splitter->rest, (char)c);
    splitter->depth++;
    return TRUE;
  }
  splitter->root_seen = TRUE;
  if (++splitter->depth > DEEPEST)
    return fail_byte(splitter, c, "at most 64 levels", error);
  return keep(splitter, c, error);
}

static gboolean see_byte(Splitter *splitter, guchar c, GError **error) {
  if (splitter->in_string)
    return see_string_byte(splitter, c, error);
  if (!may_stand_outside_strings(c))
    return fail_byte(splitter, c, "JSON", error);
  if (splitter->in_array && splitter->depth == 2)
    return see_separator(splitter, c, error);
  if (!check_digits(splitter, c, error))
    return FALSE;
  if (c == '{' || c == '[')
    return splitter->depth == 0 && splitter->root_seen ? fail_byte(splitter, c, "the file's end", error)
                                                       : open_bracket(splitter, c, error);
  if (splitter->depth == 0 && !is_blank(c))
    return fail_byte(splitter, c, splitter->root_seen ? "the file's end" : "a JSON object", error);
  if (c == '"') {
    splitter->in_string = TRUE;
    splitter->string_start = splitter->rest->len + 1;
  }
  if (c == '}' || c == ']')
    splitter->depth--;
  if (!keep(splitter, c, error))
    return FALSE;
  return !splitter->in_array || splitter->depth > 2 || see_element_end(splitter, error);
}

/* --- the file ---------------------------------------------------------------------------------------------------- */

static gboolean read_bytes(Splitter *splitter, FILE *stream, GError **error) {
  static const guint64 most = (guint64)JSON_EVENTS_MOST_MIB << 20;
  guint64 n_bytes = 0;
  char block[1 << 15];
  for (gsize n; (n = fread(block, 1, sizeof block, stream)) > 0;) {
    if ((n_bytes += n) > most)
      return fail_input(error, "%s: larger than %d MiB", splitter->file, JSON_EVENTS_MOST_MIB);
    for (gsize i = 0; i < n; i++) {
      if (!see_byte(splitter, (guchar)block[i], error))
        return FALSE;
      splitter->line += block[i] == '\n';
    }
  }
  if (ferror(stream))
    return fail_input(error, "cannot read %s: %s", splitter->file, g_strerror(errno));
  if (!splitter->root_seen)
    return fail_input(error, "%s:1: found an empty file, expected a JSON object", splitter->file);
  if (splitter->depth > 0)
    return fail_input(error, "%s:%u: found the file's end in the middle of the JSON object", splitter->file,
                      splitter->line);
  return visit_batch(splitter, error);
}

JsonParser *json_events_read(const char *file, const char *key, JsonEventsVisit visit, gpointer data, GError **error) {
  FILE *stream = fopen(file, "re");
  if (stream == NULL) {
    fail_input(error, "cannot read %.200s: %s", file, g_strerror(errno));
    return NULL;
  }
  Splitter splitter = {.file = file,
                       .key = key,
                       .visit = visit,
                       .data = data,
                       .line = 1,
                       .rest = g_string_new(NULL),
                       .parser = json_parser_new(),
                       .batch = g_string_new("["),
                       .starts = g_array_new(FALSE, FALSE, sizeof(gsize)),
                       .lines = g_array_new(FALSE, FALSE, sizeof(guint))};
  g_autoptr(JsonParser) root = json_parser_new();
  gboolean is_read =
      read_bytes(&splitter, stream, error) && parse(&splitter, root, splitter.rest->str, splitter.rest->len, 1, error);
  fclose(stream);
  g_string_free(splitter.rest, TRUE);
  g_object_unref(splitter.parser);
  g_string_free(splitter.batch, TRUE);
  g_array_unref(splitter.starts);
  g_array_unref(splitter.lines);
  return is_read ? g_steal_pointer(&root) : NULL;
}
