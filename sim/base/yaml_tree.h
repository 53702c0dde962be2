/* The inside of a YamlFile, for the code that builds one: yaml_node.c from text, yaml_base.c from two others. Private
 * to this folder. */
#pragma once
#include <glib.h>

typedef enum { YAML_TEXT, YAML_LIST, YAML_MAP } YamlTreeType;

enum { YAML_NONE = -1 }; /* no node */

typedef struct {
  YamlTreeType type;
  int line;
  const char *path; /* of the file it comes from */
  const char *key;  /* in its mapping; NULL in a list and at the root */
  const char *text; /* YAML_TEXT */
  int parent, first, last, next;
} YamlTreeNode;

struct YamlFile {
  char *path;
  GArray *nodes;       /* of YamlTreeNode */
  GStringChunk *texts; /* storage of path, key and text */
};

/* A file without nodes. Owned by the caller. */
struct YamlFile *yaml_tree_new(const char *path);
/* Append a node as the last child of `parent` (YAML_NONE for the root) and return its index. Its texts are
 * borrowed. */
int yaml_tree_add(struct YamlFile *file, int parent, YamlTreeNode node);

static inline YamlTreeNode *yaml_tree_node(const struct YamlFile *file, int index) {
  return &g_array_index(file->nodes, YamlTreeNode, index);
}
