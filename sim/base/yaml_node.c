/* libyaml's events become a flat array of nodes in document order, linked as first child and next sibling:
 *
 *     node:                       0 mapping
 *       gpus: 8                     └ 1 mapping "node" (line 1)
 *       tiers: [a, b]                   ├ 2 text "gpus" (line 2)
 *                                       └ 3 list "tiers" (line 3) ─ 4 text ─ 5 text
 *
 * Events are used rather than libyaml's ready-made document because an anchor, a second document or the 33rd level
 * must stop the reader at once: libyaml takes quadratic time to resolve a million anchors or nest a million brackets.
 * A node's line is that of its key, if it has one, because that is where the user looks. */
#include "yaml_node.h"

#include <math.h>
#include <string.h>
#include <yaml.h>

#include "data_path.h"
#include "error.h"
#include "suggest.h"
#include "units.h"
#include "yaml_tree.h"

enum { MAX_BYTES = 16 << 20, MAX_NODES = 1 << 16, MAX_DEPTH = 32, MAX_FIELDS = 128, NONE = YAML_NONE };

static const char *const type_names[] = {[YAML_TEXT] = "a text", [YAML_LIST] = "a list", [YAML_MAP] = "a mapping"};

/* State of the reader between two events. */
typedef struct {
  YamlFile *file;
  int open;        /* innermost open mapping or list, or NONE */
  int depth;       /* number of open mappings and lists */
  const char *key; /* read, but its value not yet */
  int key_line;
  int n_documents;
} Reader;

static YamlTreeNode *node_at(const YamlFile *file, int index) {
  return yaml_tree_node(file, index);
}

static int event_line(const yaml_event_t *event) {
  return (int)MIN(event->start_mark.line, G_MAXINT - 1) + 1;
}

static gboolean add_node(Reader *reader, YamlTreeType type, const char *text, int line, GError **error) {
  YamlFile *file = reader->file;
  if (file->nodes->len == MAX_NODES)
    return fail_input(error, "%s:%d: more than %d values, expected a description", file->path, line, MAX_NODES);
  if (type != YAML_TEXT && ++reader->depth > MAX_DEPTH)
    return fail_input(error, "%s:%d: nested more than %d deep", file->path, line, MAX_DEPTH);
  const YamlTreeNode node = {
      .type = type,
      .line = reader->key != NULL ? reader->key_line : line,
      .path = file->path,
      .key = reader->key,
      .text = text,
  };
  const int index = yaml_tree_add(file, reader->open, node);
  reader->key = NULL;
  if (type != YAML_TEXT)
    reader->open = index;
  return TRUE;
}

static void close_node(Reader *reader) {
  reader->open = node_at(reader->file, reader->open)->parent;
  reader->depth--;
}

/* Anchors and tags would change what the text means; nothing here needs them. */
static gboolean check_plain(const Reader *reader, const void *anchor, const void *tag, int line, GError **error) {
  if (anchor != NULL)
    return fail_input(error, "%s:%d: found an anchor (&), expected a plain value: write it out where it is used",
                      reader->file->path, line);
  if (tag != NULL)
    return fail_input(error, "%s:%d: found a tag (!), expected a plain value", reader->file->path, line);
  return TRUE;
}

static gboolean wants_key(const Reader *reader) {
  return reader->open != NONE && node_at(reader->file, reader->open)->type == YAML_MAP && reader->key == NULL;
}

static gboolean read_scalar(Reader *reader, const yaml_event_t *event, GError **error) {
  const char *value = (const char *)event->data.scalar.value;
  int line = event_line(event);
  if (!check_plain(reader, event->data.scalar.anchor, event->data.scalar.tag, line, error))
    return FALSE;
  if (memchr(value, '\0', event->data.scalar.length) != NULL)
    return fail_input(error, "%s:%d: found a NUL character in a text", reader->file->path, line);
  const char *text = g_string_chunk_insert_len(reader->file->texts, value, (gssize)event->data.scalar.length);
  if (!wants_key(reader))
    return add_node(reader, YAML_TEXT, text, line, error);
  reader->key = text;
  reader->key_line = line;
  return TRUE;
}

static gboolean read_start(Reader *reader, YamlTreeType type, const void *anchor, const void *tag, int line,
                           GError **error) {
  if (!check_plain(reader, anchor, tag, line, error))
    return FALSE;
  if (wants_key(reader))
    return fail_input(error, "%s:%d: found %s as a key, expected a name", reader->file->path, line, type_names[type]);
  return add_node(reader, type, NULL, line, error);
}

static gboolean read_event(Reader *reader, const yaml_event_t *event, GError **error) {
  int line = event_line(event);
  switch (event->type) {
  case YAML_SCALAR_EVENT:
    return read_scalar(reader, event, error);
  case YAML_SEQUENCE_START_EVENT:
    return read_start(reader, YAML_LIST, event->data.sequence_start.anchor, event->data.sequence_start.tag, line,
                      error);
  case YAML_MAPPING_START_EVENT:
    return read_start(reader, YAML_MAP, event->data.mapping_start.anchor, event->data.mapping_start.tag, line, error);
  case YAML_SEQUENCE_END_EVENT:
  case YAML_MAPPING_END_EVENT:
    close_node(reader);
    return TRUE;
  case YAML_ALIAS_EVENT:
    return fail_input(error, "%s:%d: found an alias (*%.80s), expected the value written out", reader->file->path, line,
                      (const char *)event->data.alias.anchor);
  case YAML_DOCUMENT_START_EVENT:
    if (++reader->n_documents > 1)
      return fail_input(error, "%s:%d: found a second document, expected one per file", reader->file->path, line);
    return TRUE;
  default:
    return TRUE;
  }
}

static int line_of_offset(const char *text, gsize offset) {
  int line = 1;
  for (gsize i = 0; i < offset; i++)
    line += text[i] == '\n';
  return line;
}

/* libyaml gives a line for syntax errors, a byte offset for characters that it refuses. */
static gboolean fail_syntax(const YamlFile *file, const yaml_parser_t *parser, const char *text, gsize length,
                            GError **error) {
  int line = parser->error == YAML_READER_ERROR ? line_of_offset(text, MIN(parser->problem_offset, length))
                                                : (int)MIN(parser->problem_mark.line, G_MAXINT - 1) + 1;
  const char *problem = parser->problem != NULL ? parser->problem : "not YAML";
  if (parser->context == NULL)
    return fail_input(error, "%s:%d: %s", file->path, line, problem);
  return fail_input(error, "%s:%d: %s from line %" G_GSIZE_FORMAT " on: %s", file->path, line, parser->context,
                    parser->context_mark.line + 1, problem);
}

static gboolean read_events(YamlFile *file, const char *text, gsize length, GError **error) {
  yaml_parser_t parser;
  gboolean initialised = yaml_parser_initialize(&parser) != 0;
  g_assert(initialised); /* fails only for lack of memory */
  yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
  Reader reader = {.file = file, .open = NONE};
  gboolean ok = TRUE, ended = FALSE;
  while (ok && !ended) {
    yaml_event_t event;
    if (yaml_parser_parse(&parser, &event) == 0) {
      ok = fail_syntax(file, &parser, text, length, error);
      break;
    }
    ok = read_event(&reader, &event, error);
    ended = event.type == YAML_STREAM_END_EVENT;
    yaml_event_delete(&event);
  }
  yaml_parser_delete(&parser);
  return ok;
}

static gboolean read_text(YamlFile *file, const char *text, gsize length, GError **error) {
  if (length > MAX_BYTES)
    return fail_input(error, "%s: larger than %d MiB, expected a description", file->path, MAX_BYTES >> 20);
  const char *end;
  if (!g_utf8_validate_len(text, length, &end))
    return fail_input(error, "%s:%d: found a byte that is not UTF-8 text", file->path,
                      line_of_offset(text, (gsize)(end - text)));
  if (!read_events(file, text, length, error))
    return FALSE;
  if (file->nodes->len == 0)
    return fail_input(error, "%s:1: the file is empty, expected keys and values", file->path);
  return TRUE;
}

YamlFile *yaml_file_parse(const char *name, const char *text, gsize length, GError **error) {
  g_autoptr(YamlFile) file = yaml_tree_new(name);
  return read_text(file, text, length, error) ? g_steal_pointer(&file) : NULL;
}

YamlFile *yaml_file_read(const char *path, GError **error) {
  gsize length = 0;
  g_autofree char *text = data_file_read(path, &length, error);
  return text != NULL ? yaml_file_parse(path, text, length, error) : NULL;
}

void yaml_file_free(YamlFile *file) {
  if (file == NULL)
    return;
  g_free(file->path);
  g_array_unref(file->nodes);
  g_string_chunk_free(file->texts);
  g_free(file);
}

YamlNode yaml_file_root(const YamlFile *file) {
  return (YamlNode){file, 0};
}

gboolean yaml_is_present(YamlNode node) {
  return node.file != NULL;
}

gboolean yaml_is_map(YamlNode node) {
  return node_at(node.file, node.index)->type == YAML_MAP;
}

gboolean yaml_is_list(YamlNode node) {
  return node_at(node.file, node.index)->type == YAML_LIST;
}

/* "file:line: " and, for a named node, "key: ". Owned by the caller. */
static char *place_of(YamlNode node) {
  const YamlTreeNode *at = node_at(node.file, node.index);
  return at->key == NULL ? g_strdup_printf("%s:%d: ", at->path, at->line)
                         : g_strdup_printf("%s:%d: %.80s: ", at->path, at->line, at->key);
}

gboolean yaml_fail(YamlNode node, GError **error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  g_autofree char *place = place_of(node);
  return fail_input(error, "%s%s", place, message);
}

gboolean yaml_prefix(YamlNode node, GError **error) {
  g_autofree char *place = place_of(node);
  g_prefix_error(error, "%s", place);
  return FALSE;
}

static gboolean check_type(YamlNode node, YamlTreeType type, GError **error) {
  YamlTreeType found = node_at(node.file, node.index)->type;
  if (found == type)
    return TRUE;
  const char *text = node_at(node.file, node.index)->text;
  if (text != NULL && *text == '\0')
    return yaml_fail(node, error, "found nothing, expected %s", type_names[type]);
  if (g_strcmp0(text, "none") == 0) /* yaml_base.h */
    return yaml_fail(node, error,
                     "found \"none\", expected %s: none takes away what a base has, and no base has this; leave it out",
                     type_names[type]);
  if (text != NULL)
    return yaml_fail(node, error, "found \"%.80s\", expected %s", text, type_names[type]);
  return yaml_fail(node, error, "found %s, expected %s", type_names[found], type_names[type]);
}

YamlNode yaml_map_value(YamlNode map, const char *key) {
  for (int i = node_at(map.file, map.index)->first; i != NONE; i = node_at(map.file, i)->next)
    if (strcmp(node_at(map.file, i)->key, key) == 0)
      return (YamlNode){map.file, i};
  return (YamlNode){NULL, 0};
}

int yaml_list_length(YamlNode list, int max, GError **error) {
  if (!check_type(list, YAML_LIST, error))
    return NONE;
  int n = 0;
  for (int i = node_at(list.file, list.index)->first; i != NONE; i = node_at(list.file, i)->next)
    n++;
  if (n >= 1 && n <= max)
    return n;
  yaml_fail(list, error, "found %d items, expected 1 to %d", n, max);
  return NONE;
}

YamlNode yaml_list_item(YamlNode list, int i) {
  int index = node_at(list.file, list.index)->first;
  while (i-- > 0)
    index = node_at(list.file, index)->next;
  return (YamlNode){list.file, index};
}

YamlNode yaml_list_next(YamlNode item) {
  int next = node_at(item.file, item.index)->next;
  return next == NONE ? (YamlNode){NULL, 0} : (YamlNode){item.file, next};
}

const char *yaml_path(YamlNode node) {
  return node_at(node.file, node.index)->path;
}

int yaml_line(YamlNode node) {
  return node_at(node.file, node.index)->line;
}

const char *yaml_text(YamlNode node, GError **error) {
  if (!check_type(node, YAML_TEXT, error))
    return NULL;
  const char *text = node_at(node.file, node.index)->text;
  if (*text == '\0')
    yaml_fail(node, error, "found nothing, expected a value");
  return *text == '\0' ? NULL : text;
}

static gboolean read_quantity(YamlNode node, const YamlField *field, const char *text, double *value, GError **error) {
  double found;
  if (!units_parse(text, field->unit, &found, error))
    return yaml_prefix(node, error);
  if (found < field->min || found > field->max) {
    g_autofree char *min = units_format(field->min, field->unit), *max = units_format(field->max, field->unit);
    return yaml_fail(node, error, "found \"%.80s\", expected %s to %s", text, min, max);
  }
  *value = found;
  return TRUE;
}

static gboolean read_number(YamlNode node, const YamlField *field, const char *text, double *value, GError **error) {
  char *end;
  double found = g_ascii_strtod(text, &end);
  if (end == text || *end != '\0' || !isfinite(found) || found < field->min || found > field->max)
    return yaml_fail(node, error, "found \"%.80s\", expected a number from %g to %g without a unit", text, field->min,
                     field->max);
  *value = found;
  return TRUE;
}

static gboolean read_integer(YamlNode node, const YamlField *field, const char *text, gint64 *value, GError **error) {
  char *end;
  const double number = g_ascii_strtod(text, &end); /* an exact one, as integers of these ranges are */
  const gboolean is_plain = end != text && *end == '\0' && text[strspn(text, "0123456789.+-eE")] == '\0';
  if (is_plain && range_has_integer((IntegerRange){(gint64)field->min, (gint64)field->max}, number, value))
    return TRUE;
  return yaml_fail(node, error, "found \"%.80s\", expected a whole number from %.0f to %.0f", text, field->min,
                   field->max);
}

static gboolean read_choice(YamlNode node, const YamlField *field, const char *text, int *value, GError **error) {
  const int index = suggest_same(text, field->names);
  if (index >= 0) {
    *value = index;
    return TRUE;
  }
  g_autofree char *expected = suggest_message(text, field->names);
  return yaml_fail(node, error, "found \"%.80s\", %s", text, expected);
}

static void store_text(const char *text, char **target) {
  g_free(*target);
  *target = g_strdup(text);
}

static gboolean read_each(YamlNode map, const YamlField *field, void *target, GError **error) {
  YamlField fields[MAX_FIELDS];
  int n = 0;
  for (; field->names[n] != NULL && n < MAX_FIELDS; n++) {
    fields[n] = field->fields[0];
    fields[n].key = field->names[n];
    fields[n].offset = (size_t)n * field->stride;
  }
  return yaml_map_read(map, fields, n, target, error);
}

static gboolean read_field(YamlNode node, const YamlField *field, void *struct_start, GError **error) {
  void *target = (char *)struct_start + field->offset;
  if (field->type == FIELD_MAP)
    return yaml_map_read(node, field->fields, field->n_fields, target, error);
  if (field->type == FIELD_EACH)
    return read_each(node, field, target, error);
  if (field->type == FIELD_NODE) {
    *(YamlNode *)target = node;
    return TRUE;
  }
  double number = 0;
  gint64 integer = 0;
  const char *text = yaml_text(node, error);
  if (text == NULL)
    return FALSE;
  switch (field->type) {
  case FIELD_TEXT:
    store_text(text, target);
    return TRUE;
  case FIELD_QUANTITY:
    return read_quantity(node, field, text, target, error);
  case FIELD_BYTES:
    if (!read_quantity(node, field, text, &number, error))
      return FALSE;
    *(gint64 *)target = llround(number);
    return TRUE;
  case FIELD_NUMBER:
    return read_number(node, field, text, target, error);
  case FIELD_INT:
    if (!read_integer(node, field, text, &integer, error))
      return FALSE;
    *(int *)target = (int)integer;
    return TRUE;
  case FIELD_INT64:
    return read_integer(node, field, text, target, error);
  case FIELD_CHOICE:
    return read_choice(node, field, text, target, error);
  default:
    g_assert_not_reached();
  }
}

static gboolean fail_unknown(YamlNode child, const YamlField *fields, int n_fields, GError **error) {
  const char *names[MAX_FIELDS + 1];
  for (int i = 0; i < n_fields; i++)
    names[i] = fields[i].key;
  names[n_fields] = NULL;
  const YamlTreeNode *at = node_at(child.file, child.index);
  g_autofree char *expected = suggest_message(at->key, names);
  return fail_input(error, "%s:%d: unknown key \"%.80s\", %s", at->path, at->line, at->key, expected);
}

/* children[i]: the child with the i-th field's key, or zero. */
static gboolean match_keys(YamlNode map, const YamlField *fields, int n_fields, YamlNode *children, GError **error) {
  for (int index = node_at(map.file, map.index)->first; index != NONE; index = node_at(map.file, index)->next) {
    YamlNode child = {map.file, index};
    int i = 0;
    while (i < n_fields && strcmp(fields[i].key, node_at(map.file, index)->key) != 0)
      i++;
    if (i == n_fields)
      return fail_unknown(child, fields, n_fields, error);
    if (yaml_is_present(children[i]))
      return yaml_fail(child, error, "found twice in one mapping, first in line %d",
                       node_at(map.file, children[i].index)->line);
    children[i] = child;
  }
  return TRUE;
}

/* Report the first missing required key with what belongs there, and the others by name. TRUE: none is missing. */
static gboolean check_required(YamlNode map, const YamlField *fields, int n_fields, const YamlNode *children,
                               GError **error) {
  const YamlField *first = NULL;
  g_autoptr(GString) others = g_string_new(NULL);
  for (int i = 0; i < n_fields; i++) {
    if (!fields[i].required || yaml_is_present(children[i]))
      continue;
    if (first == NULL)
      first = &fields[i];
    else
      g_string_append_printf(others, "%s\"%s\"", others->len > 0 ? ", " : "; missing too: ", fields[i].key);
  }
  if (first == NULL)
    return TRUE;
  return yaml_fail(map, error, "the key \"%s\" is missing%s%s%s", first->key, first->what != NULL ? ": " : "",
                   first->what != NULL ? first->what : "", others->str);
}

gboolean yaml_map_read(YamlNode map, const YamlField *fields, int n_fields, void *target, GError **error) {
  g_assert(n_fields <= MAX_FIELDS);
  YamlNode children[MAX_FIELDS] = {{NULL, 0}};
  if (!check_type(map, YAML_MAP, error) || !match_keys(map, fields, n_fields, children, error) ||
      !check_required(map, fields, n_fields, children, error))
    return FALSE;
  for (int i = 0; i < n_fields; i++)
    if (yaml_is_present(children[i]) && !read_field(children[i], &fields[i], target, error))
      return FALSE;
  return TRUE;
}

/* --- building ---------------------------------------------------------------------------------------------------- */

struct YamlFile *yaml_tree_new(const char *path) {
  struct YamlFile *file = g_new0(struct YamlFile, 1);
  file->path = g_strdup(path);
  file->nodes = g_array_new(FALSE, FALSE, sizeof(YamlTreeNode));
  file->texts = g_string_chunk_new(4096);
  return file;
}

int yaml_tree_add(struct YamlFile *file, int parent, YamlTreeNode node) {
  const int index = (int)file->nodes->len;
  node.parent = parent;
  node.first = node.last = node.next = YAML_NONE;
  g_array_append_val(file->nodes, node);
  if (parent == YAML_NONE)
    return index;
  YamlTreeNode *above = yaml_tree_node(file, parent);
  if (above->last == YAML_NONE)
    above->first = index;
  else
    yaml_tree_node(file, above->last)->next = index;
  above->last = index;
  return index;
}

/* --- rows -------------------------------------------------------------------------------------------------------- */

/* A duplicate key is found once the rows are sorted, because equal keys are then neighbours. The sort is stable, so
 * the later line is the one at fault. */

enum { MAX_ROWS = 1 << 16 }; /* the file's limit of nodes is reached before this */

static gboolean check_distinct(const GArray *rows, const YamlRowType *type, GError **error) {
  for (guint i = 1; i < rows->len; i++) {
    const char *row = rows->data + (gsize)i * type->size, *before = row - type->size;
    if (type->compare(before, row) == 0)
      return yaml_fail(*(const YamlNode *)row, error, "the same was measured twice, first in line %d",
                       yaml_line(*(const YamlNode *)before));
  }
  return TRUE;
}

GArray *yaml_rows_read(YamlNode list, const YamlRowType *type, GError **error) {
  const int n_rows = yaml_is_present(list) ? yaml_list_length(list, MAX_ROWS, error) : 0;
  if (n_rows < 0)
    return NULL;
  g_autoptr(GArray) rows = g_array_sized_new(FALSE, FALSE, type->size, (guint)n_rows);
  g_array_set_clear_func(rows, type->clear);
  YamlNode item = n_rows > 0 ? yaml_list_item(list, 0) : list;
  for (; yaml_is_present(item); item = yaml_list_next(item)) {
    g_array_append_vals(rows, type->blank, 1);
    char *row = rows->data + (gsize)(rows->len - 1) * type->size;
    *(YamlNode *)row = item;
    if (!yaml_map_read(item, type->fields, type->n_fields, row, error))
      return NULL;
  }
  g_array_sort(rows, type->compare);
  return check_distinct(rows, type, error) ? g_steal_pointer(&rows) : NULL;
}

int yaml_rows_compare(const gint64 *a, const gint64 *b, int n) {
  int i = 0;
  while (i < n - 1 && a[i] == b[i])
    i++;
  return (a[i] > b[i]) - (a[i] < b[i]);
}
