/* Where the described things are on disk: models/<name>.json, topologies/<name>.yaml,
 * topologies/gpus/<name>.yaml … */
#pragma once
#include <glib.h>

struct stat;

/* The path of the file that `name` means: an existing path as it is; else `x`, `x<suffix>` or `<subdir>/x<suffix>` in
 * <root>/<subdir>. The roots are the working directory, $STEPSIM_DATA and the data that were installed with the
 * program; where there are none, the source folder and the installed data. Owned by the caller. NULL with INPUT if
 * there is none: the message has the nearest names, or says what lists them. */
char *data_path_find(const char *subdir, const char *name, const char *suffix, GError **error);

/* The same for a name found in `file`: a path relative to its folder, else a name as above. gpus/x.yaml also means
 * the file shipped in topologies/gpus, so that a copy of a shipped file reads like the original. */
char *data_path_find_beside(const char *file, const char *subdir, const char *name, const char *suffix, GError **error);

/* Names (without suffix) of all files `<root>/<subdir>/?*<suffix>` of all roots, sorted, each once; NULL-terminated,
 * owned by the caller. */
GStrv data_path_list(const char *subdir, const char *suffix);

/* The contents of `file`, NUL-terminated (the NUL does not count in the length), owned by the caller. NULL with INPUT
 * if it cannot be read or is larger than 64 MiB: a description of that size is a mistake, and devices have no end.
 * With $STEPSIM_CONFINED set also if it lies neither in that folder nor in the models and topologies of a root other
 * than the working directory. */
char *data_file_read(const char *file, gsize *length, GError **error);

/* Whether data_file_read() has read the file of that status, under whatever name. */
gboolean data_file_was_read(const struct stat *status);
