/* What a YamlFile is made of, for those that make one: yaml_node.c from text, yaml_base.c from two others.
 * Private to this room. */
#pragma once
#include <glib.h>

typedef enum { YAML_TEXT, YAML_LIST, YAML_MAP } YamlTreeType;

enum { YAML_NONE = -1 }; /* no node */

typedef struct {
  YamlTreeType type;
  int line;
  const char *path; /* of the file that it is from */
  const char *key;  /* in its mapping; NULL in a list and at the root */
  const char *text; /* YAML_TEXT */
  int parent, first, last, next;
} YamlTreeNode;

struct YamlFile {
  char *path;
  GArray *nodes;       /* of YamlTreeNode */
  GStringChunk *texts; /* what path, key and text point into */
};

/* Empty. Owned by the caller. */
struct YamlFile *yaml_tree_new(const char *path);
/* The new node's index, the last of `parent` (or YAML_NONE for the root): its texts are borrowed. */
int yaml_tree_add(struct YamlFile *file, int parent, YamlTreeNode node);

static inline YamlTreeNode *yaml_tree_node(const struct YamlFile *file, int index) {
  return &g_array_index(file->nodes, YamlTreeNode, index);
}
