/* A description based on another, of which it states only the differences.
 *
 *     name: four-nics
 *     base: dgx-h100     # a file beside this one, or the name of a shipped one
 *     node:
 *       nics: 4          # replaces the base's value
 *       pcie: none       # none removes the base's mapping, list or number
 *
 * Mappings are merged key by key at any depth; lists and texts replace the base's as a whole. A base may itself have
 * one, up to four in a chain. The name is always the file's own.
 *
 * One mapping inside may have a base of another kind, with a `name` and a `source` of its own; its other keys count as
 * written there, under those of the mapping:
 *
 *     node: {base: hosts/dgx-h100.yaml, host_memory: 1 TB} */
#pragma once
#include "yaml_node.h"

/* Where bases are, and the part that may have one. */
typedef struct {
  const char *folder;      /* of shipped bases in the data: "topologies/gpus" (data_path.h) */
  const char *part;        /* key of the mapping that may have a base; NULL: none */
  const char *part_folder; /* of shipped ones of these */
} YamlBases;

/* Read the file at `path` merged over its base, and that over its own; a file without the key `base` is read as it
 * is. Owned by the caller. A base is looked for beside the file that names it, then among the shipped files in
 * `folder`. Nodes remember which file their value is from, and errors name it. `bases` (or NULL) receives the paths of
 * the bases, nearest first, and owns them. NULL with INPUT as from yaml_file_read(), and for a base that is not found,
 * circular or too many bases, and a file with a base but no name. */
YamlFile *yaml_read_over_bases(const char *path, const char *folder, GPtrArray *bases, GError **error);
/* The same for `file`, already read or parsed. Takes ownership, also if it returns NULL. */
YamlFile *yaml_over_bases(YamlFile *file, const YamlBases *where, GPtrArray *bases, GError **error);

/* Whether the value comes from a base instead of the file itself. */
gboolean yaml_is_of_base(YamlNode node);
/* Prefix "own.yaml, over its base: " to an error about something that `file`, own.yaml, takes from a base, because
 * the cause may be elsewhere in own.yaml. Other errors stay as they are. Always FALSE. */
gboolean yaml_prefix_over_base(const YamlFile *file, GError **error);
