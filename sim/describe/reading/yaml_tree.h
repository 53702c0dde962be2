/* What a YamlFile is made of, for those that make one: yaml_node.c from text, yaml_base.c from two others. */
#pragma once
#include <glib.h>

typedef enum { NODE_TEXT, NODE_LIST, NODE_MAP } NodeType;

enum { YAML_NONE = -1 }; /* no node */

typedef struct {
  NodeType type;
  int line;
  const char *path; /* of the file that it is from */
  const char *key;  /* in its mapping; NULL in a list and at the root */
  const char *text; /* NODE_TEXT */
  int parent, first, last, next;
} Node;

struct YamlFile {
  char *path;
  GArray *nodes;       /* of Node */
  GStringChunk *texts; /* what path, key and text point into */
};

/* Empty. Owned by the caller. */
struct YamlFile *yaml_tree_new(const char *path);
/* The new node's index, the last of `parent` (or YAML_NONE for the root): its texts are borrowed. */
int yaml_tree_add(struct YamlFile *file, int parent, Node node);

static inline Node *yaml_tree_node(const struct YamlFile *file, int index) {
  return &g_array_index(file->nodes, Node, index);
}
