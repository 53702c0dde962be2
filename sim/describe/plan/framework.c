#include "framework.h"

#include "data_path.h"
#include "error.h"

typedef struct {
  char *name, *source, *base; /* owned */
  YamlNode memory, time;
} File;

static const YamlField file_fields[] = {
    {"name", FIELD_TEXT, TRUE, offsetof(File, name)},  {"source", FIELD_TEXT, TRUE, offsetof(File, source)},
    {"base", FIELD_TEXT, FALSE, offsetof(File, base)}, {"memory", FIELD_NODE, FALSE, offsetof(File, memory)},
    {"time", FIELD_NODE, FALSE, offsetof(File, time)},
};

enum { MOST_BASES = 4 }; /* on top of each other */

static void file_clear(File *file) {
  g_free(file->name);
  g_free(file->source);
  g_free(file->base);
}

/* A base is another file, not this one again by way of others. */
static gboolean check_base(YamlNode root, const char *base, const GPtrArray *files, GError **error) {
  if (files->len <= MOST_BASES)
    return TRUE;
  return yaml_fail(root, error, "base \"%s\": more than %d frameworks, each the base of the one before", base,
                   MOST_BASES);
}

/* Over what is in *framework; `files` gets the paths. */
static gboolean read_over(const char *name, Framework *framework, GPtrArray *files, GError **error) {
  char *path = data_path_find("topologies/frameworks", name, ".yaml", error);
  if (path == NULL)
    return FALSE;
  g_ptr_array_add(files, path);
  g_autoptr(YamlFile) yaml = yaml_file_read(path, error);
  if (yaml == NULL)
    return FALSE;
  File file = {0};
  const YamlNode root = yaml_file_root(yaml);
  gboolean ok = yaml_map_read(root, file_fields, G_N_ELEMENTS(file_fields), &file, error);
  if (ok && file.base != NULL) {
    ok = check_base(root, file.base, files, error);
    if (ok && !read_over(file.base, framework, files, error))
      ok = yaml_prefix(root, error);
  }
  if (ok && yaml_is_present(file.memory))
    ok = framework_memory_parse(file.memory, &framework->memory, error);
  if (ok && yaml_is_present(file.time))
    ok = framework_time_parse(file.time, &framework->time, error);
  file_clear(&file);
  return ok;
}

gboolean framework_read(const char *name, Framework *framework, GError **error) {
  g_autoptr(GPtrArray) files = g_ptr_array_new_with_free_func(g_free);
  *framework = (Framework){0};
  return read_over(name, framework, files, error);
}

GStrv framework_files(const char *name, GError **error) {
  g_autoptr(GPtrArray) files = g_ptr_array_new_with_free_func(g_free);
  Framework framework = {0};
  if (!read_over(name, &framework, files, error))
    return NULL;
  g_ptr_array_add(files, NULL);
  return (GStrv)g_ptr_array_free(g_steal_pointer(&files), FALSE);
}

gboolean framework_is_described(const char *name) {
  g_auto(GStrv) names = data_path_list("topologies/frameworks", ".yaml");
  return g_strv_contains((const char *const *)names, name);
}

/* A file that cannot be read has none. Owned by the caller. */
static char *base_of(const char *name) {
  g_autofree char *path = data_path_find("topologies/frameworks", name, ".yaml", NULL);
  g_autoptr(YamlFile) yaml = path != NULL ? yaml_file_read(path, NULL) : NULL;
  File file = {0};
  char *base = NULL;
  if (yaml != NULL && yaml_map_read(yaml_file_root(yaml), file_fields, G_N_ELEMENTS(file_fields), &file, NULL))
    base = g_steal_pointer(&file.base);
  file_clear(&file);
  return base;
}

char *framework_built_on(const char *name) {
  g_auto(GStrv) names = data_path_list("topologies/frameworks", ".yaml");
  for (char **other = names; *other != NULL; other++) {
    g_autofree char *base = base_of(*other);
    if (g_strcmp0(base, name) == 0)
      return g_strdup(*other);
  }
  return NULL;
}
