/* A description that is another but for what it says.
 *
 *     name: four-nics
 *     base: dgx-h100     # a file beside this one, or a name among those that came with the program
 *     node:
 *       nics: 4          # a key's value stands for the base's
 *       pcie: none       # and none takes away a mapping, a list or a number that the base has
 *
 * Mappings are gone through key by key, however deep; lists and texts stand for the base's whole. A base may have one
 * itself, up to four on top of each other. The name is the file's own. */
#pragma once
#include "yaml_node.h"

/* The file at `path` over its base, and that over its own, as one file; without the key `base` it is as it is. Owned by
 * the caller. A base's name is looked for beside the file that has it, then among those that came with the program in
 * `subdir` of the data ("topologies/gpus"; data_path.h). Nodes know the file that a value is from, and errors name it.
 * `bases` (or NULL) gets the paths of the bases, owned by it, the nearest first. NULL with INPUT set as from
 * yaml_file_read(), and for a base that is not found, bases that never end, and a file that has a base and no name. */
YamlFile *yaml_read_over_bases(const char *path, const char *subdir, GPtrArray *bases, GError **error);
/* The same of `file`, as read or parsed; it is taken, and freed where NULL is returned too. */
YamlFile *yaml_over_bases(YamlFile *file, const char *subdir, GPtrArray *bases, GError **error);

/* Whether the value is a base's, and not of the file itself. */
gboolean yaml_is_of_base(YamlNode node);
/* Puts "own.yaml, over its base: " in front of an error in what `file`, own.yaml, has from a base: what is wrong there
 * may be by what own.yaml says elsewhere. Other errors stay as they are. Always FALSE. */
gboolean yaml_prefix_over_base(const YamlFile *file, GError **error);
