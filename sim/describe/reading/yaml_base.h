/* A description that is another but for what it says.
 *
 *     name: four-nics
 *     base: dgx-h100     # a file beside this one, or a name among those that came with the program
 *     node:
 *       nics: 4          # a key's value stands for the base's
 *       pcie: none       # and none takes away a mapping or a list that the base has
 *
 * Mappings are gone through key by key, however deep; lists and texts stand for the base's whole. A base may have one
 * itself, up to four on top of each other. The name is the file's own. */
#pragma once
#include "yaml_node.h"

/* The file at `path` over its base, and that over its own; without the key `base` it is as it is. Errors name the file
 * that a value is from. `bases` (or NULL) gets the paths of the bases. INPUT as yaml_file_read(), and for a base that
 * is not found, bases that never end, and a file that has a base and no name. */
YamlFile *yaml_read_over_bases(const char *path, const char *subdir, GPtrArray *bases, GError **error);
/* The same of `file`, which it takes. */
YamlFile *yaml_over_bases(YamlFile *file, const char *subdir, GPtrArray *bases, GError **error);
