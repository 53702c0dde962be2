#include "framework.h"

#include <string.h>

#include "data_path.h"
#include "error.h"
#include "yaml_base.h"

static const char folder[] = "topologies/frameworks";

typedef struct {
  char *name, *source; /* owned */
  int dropout;
  YamlNode memory, time;
} File;

static const char *const dropout_names[] = {"usual", "none", NULL};

static const YamlField file_fields[] = {
    {"name", FIELD_TEXT, TRUE, offsetof(File, name)},
    {"source", FIELD_TEXT, TRUE, offsetof(File, source)},
    {"dropout", FIELD_CHOICE, FALSE, offsetof(File, dropout), .names = dropout_names},
    {"memory", FIELD_NODE, FALSE, offsetof(File, memory)},
    {"time", FIELD_NODE, FALSE, offsetof(File, time)},
};

static gboolean read_file(YamlNode root, Framework *framework, GError **error) {
  File file = {0};
  gboolean ok = yaml_map_read(root, file_fields, G_N_ELEMENTS(file_fields), &file, error);
  framework->dropout = file.dropout;
  if (ok && yaml_is_present(file.memory))
    ok = framework_memory_parse(file.memory, &framework->memory, error);
  if (ok && yaml_is_present(file.time))
    ok = framework_time_parse(file.time, &framework->time, error);
  g_free(file.name);
  g_free(file.source);
  return ok;
}

/* `files` gets the paths of the file and its bases. */
static gboolean read_over(const char *name, Framework *framework, GPtrArray *files, GError **error) {
  *framework = (Framework){0};
  char *path = data_path_find(folder, name, ".yaml", error);
  if (path == NULL)
    return FALSE;
  g_ptr_array_add(files, path);
  g_autoptr(YamlFile) yaml = yaml_read_over_bases(path, folder, files, error);
  return yaml != NULL && (read_file(yaml_file_root(yaml), framework, error) || yaml_prefix_over_base(yaml, error));
}

gboolean framework_read(const char *name, Framework *framework, GError **error) {
  g_autoptr(GPtrArray) files = g_ptr_array_new_with_free_func(g_free);
  return read_over(name, framework, files, error);
}

GStrv framework_files(const char *name, GError **error) {
  g_autoptr(GPtrArray) files = g_ptr_array_new_with_free_func(g_free);
  Framework framework;
  if (!read_over(name, &framework, files, error))
    return NULL;
  g_ptr_array_add(files, NULL);
  return (GStrv)g_ptr_array_free(g_steal_pointer(&files), FALSE);
}

GStrv framework_names(void) {
  return data_path_list(folder, ".yaml");
}

gboolean framework_is_described(const char *name) {
  g_auto(GStrv) names = framework_names();
  return g_strv_contains((const char *const *)names, name);
}

/* Whether the first base of `name` is the file at `path`; a file that cannot be read has none. */
static gboolean stands_on(const char *name, const char *path) {
  g_auto(GStrv) files = framework_files(name, NULL);
  return files != NULL && g_strcmp0(files[1], path) == 0;
}

/* Whether both names begin with the same word: another program that has the same base is no step away. */
static gboolean is_of_family(const char *name, const char *other) {
  const size_t word = strcspn(name, "-");
  return strcspn(other, "-") == word && strncmp(name, other, word) == 0;
}

char *framework_built_on(const char *name) {
  g_autofree char *path = data_path_find(folder, name, ".yaml", NULL);
  g_auto(GStrv) names = data_path_list(folder, ".yaml");
  for (char **other = names; path != NULL && *other != NULL; other++)
    if (is_of_family(name, *other) && stands_on(*other, path))
      return g_strdup(*other);
  return NULL;
}
