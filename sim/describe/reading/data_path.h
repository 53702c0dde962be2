/* Where described things lie on disk: models/<name>.json, topologies/<name>.yaml, topologies/gpus/<name>.yaml … */
#pragma once
#include <glib.h>

/* The path of the file that `name` means: any existing path as it is; else `x`, `x<suffix>` or `<subdir>/x<suffix>` in
 * <root>/<subdir>, where the roots are the working directory, $STEPSIM_DATA, the source folder and the installed data,
 * in that order, the last two the other way round where the program is an installed one. Owned by the caller. NULL with
 * INPUT set when there is none: the message lists the names there are and the nearest. */
char *data_path_find(const char *subdir, const char *name, const char *suffix, GError **error);

/* The same of a name that stands in `file`: a path from its folder, else a name as above; gpus/x.yaml means what came
 * with the program in topologies/gpus too, so that a copy of a shipped file reads as the file does. */
char *data_path_find_beside(const char *file, const char *subdir, const char *name, const char *suffix, GError **error);

/* Names (without suffix) of all files `<root>/<subdir>/?*<suffix>` of all roots, sorted, each once; NULL-terminated,
 * owned by the caller. */
GStrv data_path_list(const char *subdir, const char *suffix);

/* The whole of `file`, NUL-terminated (the length does not count that NUL), owned by the caller; NULL with INPUT set
 * when it cannot be read or is larger than 64 MiB: a description of that size is a mistake, and devices have no end. */
char *data_file_read(const char *file, gsize *length, GError **error);
