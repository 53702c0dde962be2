/* Both trees are copied into a third, the base's keys first:
 *
 *     base              over               merged
 *     a: 1              b: {d: 5}          a: 1
 *     b: {c: 2, d: 3}   e: 6               b: {c: 2, d: 5}
 *                                          e: 6 */
#include "yaml_base.h"

#include <string.h>

#include "data_path.h"
#include "error.h"
#include "yaml_tree.h"

enum { MOST_BASES = 4 }; /* in a chain */

static const YamlTreeNode *node_of(YamlNode node) {
  return yaml_tree_node(node.file, node.index);
}

static const char *kept(YamlFile *out, const char *text) {
  return text != NULL ? g_string_chunk_insert_const(out->texts, text) : NULL;
}

static int copy_node(YamlFile *out, int parent, YamlNode node) {
  YamlTreeNode copy = *node_of(node);
  copy.path = kept(out, copy.path);
  copy.key = kept(out, copy.key);
  copy.text = kept(out, copy.text);
  return yaml_tree_add(out, parent, copy);
}

static void copy_all(YamlFile *out, int parent, YamlNode node) {
  const int index = copy_node(out, parent, node);
  for (int i = node_of(node)->first; i != YAML_NONE; i = yaml_tree_node(node.file, i)->next)
    copy_all(out, index, (YamlNode){node.file, i});
}

/* Not if the base has a word, where none is just another word: ring_search: none. */
static gboolean takes_away(YamlNode over, YamlNode base) {
  const gboolean is_word = node_of(base)->type == YAML_TEXT && !g_ascii_isdigit(node_of(base)->text[0]);
  return !is_word && g_strcmp0(node_of(over)->text, "none") == 0;
}

static void merge(YamlFile *out, int parent, YamlNode base, YamlNode over);

/* Merges the keys of a mapping that the base has. A duplicate is kept, for the reader to refuse. */
static void merge_known(YamlFile *out, int parent, YamlNode base, YamlNode over) {
  for (int i = node_of(base)->first; i != YAML_NONE; i = yaml_tree_node(base.file, i)->next) {
    const YamlNode value = {base.file, i}, other = yaml_map_value(over, node_of(value)->key);
    if (!yaml_is_present(other))
      copy_all(out, parent, value);
    else if (!takes_away(other, value))
      merge(out, parent, value, other);
  }
}

static void merge(YamlFile *out, int parent, YamlNode base, YamlNode over) {
  if (node_of(base)->type != YAML_MAP || node_of(over)->type != YAML_MAP) {
    copy_all(out, parent, over);
    return;
  }
  const int index = copy_node(out, parent, over);
  merge_known(out, index, base, over);
  for (int i = node_of(over)->first; i != YAML_NONE; i = yaml_tree_node(over.file, i)->next) {
    const YamlNode value = {over.file, i};
    const char *key = node_of(value)->key;
    if (!yaml_is_present(yaml_map_value(base, key)) || yaml_map_value(over, key).index != i)
      copy_all(out, index, value);
  }
}

/* A copy of a mapping as a file of its own, without these keys. */
static YamlFile *without(YamlNode map, const char *const *keys) {
  YamlFile *out = yaml_tree_new(map.file->path);
  const int index = copy_node(out, YAML_NONE, map);
  for (int i = node_of(map)->first; i != YAML_NONE; i = yaml_tree_node(map.file, i)->next)
    if (!g_strv_contains(keys, yaml_tree_node(map.file, i)->key))
      copy_all(out, index, (YamlNode){map.file, i});
  return out;
}

static const char *const base_key[] = {"base", NULL}; /* has been used by now */

/* Checked here because the merged file's reader does not see this key. */
static gboolean has_one_base(YamlNode name, GError **error) {
  for (int i = node_of(name)->next; i != YAML_NONE; i = yaml_tree_node(name.file, i)->next)
    if (strcmp(yaml_tree_node(name.file, i)->key, "base") == 0)
      return yaml_fail((YamlNode){name.file, i}, error, "found twice in one mapping, first in line %d",
                       node_of(name)->line);
  return TRUE;
}

static YamlFile *over_bases(YamlFile *file, const YamlBases *where, int depth, GPtrArray *bases, GError **error);

/* Owned by the caller; NULL with the error set. */
static YamlFile *read_base(YamlNode name, const YamlBases *where, int depth, GPtrArray *bases, GError **error) {
  const char *text = yaml_text(name, error);
  if (text == NULL)
    return NULL;
  if (depth > MOST_BASES) {
    yaml_fail(name, error, "found \"%.80s\", expected at most %d files, each the base of the one before", text,
              MOST_BASES);
    return NULL;
  }
  g_autofree char *path = data_path_find_beside(yaml_path(name), where->folder, text, ".yaml", error);
  YamlFile *base = path != NULL ? yaml_file_read(path, error) : NULL;
  if (base == NULL) {
    yaml_prefix(name, error);
    return NULL;
  }
  if (bases != NULL)
    g_ptr_array_add(bases, g_strdup(path));
  return over_bases(base, where, depth, bases, error);
}

static YamlNode base_of(YamlNode map) {
  return yaml_is_present(map) && yaml_is_map(map) ? yaml_map_value(map, "base") : (YamlNode){NULL, 0};
}

/* The base that `name` names, a mapping. Owned by the caller; NULL with the error set. */
static YamlFile *base_at(YamlNode name, const YamlBases *where, int depth, GPtrArray *bases, GError **error) {
  g_autoptr(YamlFile) base = has_one_base(name, error) ? read_base(name, where, depth + 1, bases, error) : NULL;
  if (base != NULL && !yaml_is_map(yaml_file_root(base))) {
    yaml_fail(name, error, "found a file without keys");
    return NULL;
  }
  return g_steal_pointer(&base);
}

static gboolean has_keys(YamlNode map, const char *const *keys, GError **error) {
  for (; *keys != NULL; keys++)
    if (!yaml_is_present(yaml_map_value(map, *keys)))
      return yaml_fail(map, error, "the key \"%s\" is missing", *keys);
  return TRUE;
}

/* The keys of the part's base stand in the part, under its own. Takes `file`. */
static YamlFile *with_part(YamlFile *file, const YamlBases *where, GPtrArray *bases, GError **error) {
  static const char *const described[] = {"name", "source", NULL};
  g_autoptr(YamlFile) own = file;
  const YamlNode root = yaml_file_root(own);
  const YamlNode part =
      where->part != NULL && yaml_is_map(root) ? yaml_map_value(root, where->part) : (YamlNode){NULL, 0};
  const YamlNode name = base_of(part);
  if (!yaml_is_present(name))
    return g_steal_pointer(&own);
  g_autoptr(YamlFile) base = base_at(name, &(YamlBases){where->part_folder, NULL, NULL}, 0, bases, error);
  if (base == NULL || !has_keys(yaml_file_root(base), described, error))
    return NULL;
  g_autoptr(YamlFile) below = without(yaml_file_root(base), described), above = without(part, base_key);
  YamlFile *out = yaml_tree_new(own->path);
  const int index = copy_node(out, YAML_NONE, root);
  for (int i = node_of(root)->first; i != YAML_NONE; i = yaml_tree_node(own, i)->next)
    if (i == part.index)
      merge(out, index, yaml_file_root(below), yaml_file_root(above));
    else
      copy_all(out, index, (YamlNode){own, i});
  return out;
}

static YamlFile *over_bases(YamlFile *file, const YamlBases *where, int depth, GPtrArray *bases, GError **error) {
  g_autoptr(YamlFile) own = with_part(file, where, bases, error);
  if (own == NULL)
    return NULL;
  const YamlNode root = yaml_file_root(own), name = base_of(root);
  if (!yaml_is_present(name))
    return g_steal_pointer(&own);
  if (!yaml_is_present(yaml_map_value(root, "name"))) {
    yaml_fail(root, error, "the key \"name\" is missing: a file with a base has a name of its own");
    return NULL;
  }
  g_autoptr(YamlFile) base = base_at(name, where, depth, bases, error);
  if (base == NULL)
    return NULL;
  g_autoptr(YamlFile) over = without(root, base_key);
  YamlFile *merged = yaml_tree_new(own->path);
  merge(merged, YAML_NONE, yaml_file_root(base), yaml_file_root(over));
  return merged;
}

YamlFile *yaml_over_bases(YamlFile *file, const YamlBases *where, GPtrArray *bases, GError **error) {
  return over_bases(file, where, 0, bases, error);
}

YamlFile *yaml_read_over_bases(const char *path, const char *folder, GPtrArray *bases, GError **error) {
  YamlFile *file = yaml_file_read(path, error);
  return file != NULL ? yaml_over_bases(file, &(YamlBases){folder, NULL, NULL}, bases, error) : NULL;
}

gboolean yaml_is_of_base(YamlNode node) {
  return strcmp(yaml_path(node), yaml_path(yaml_file_root(node.file))) != 0;
}

static gboolean begins_with_place_in(const char *message, const char *path) {
  return g_str_has_prefix(message, path) && message[strlen(path)] == ':';
}

gboolean yaml_prefix_over_base(const YamlFile *file, GError **error) {
  if (error == NULL || *error == NULL)
    return FALSE;
  for (int i = 0; i < (int)file->nodes->len; i++) {
    const YamlNode node = {file, i};
    if (yaml_is_of_base(node) && begins_with_place_in((*error)->message, yaml_path(node))) {
      g_prefix_error(error, "%s, over its base: ", file->path);
      break;
    }
  }
  return FALSE;
}
