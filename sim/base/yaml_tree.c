#include "yaml_tree.h"

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
