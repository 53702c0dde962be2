#include "framework.h"

#include "data_path.h"
#include "error.h"

typedef struct {
  char *name, *source; /* owned */
  YamlNode base, memory, time;
} File;

static const YamlField file_fields[] = {
    {"name", FIELD_TEXT, TRUE, offsetof(File, name)},  {"source", FIELD_TEXT, TRUE, offsetof(File, source)},
    {"base", FIELD_NODE, FALSE, offsetof(File, base)}, {"memory", FIELD_NODE, FALSE, offsetof(File, memory)},
    {"time", FIELD_NODE, FALSE, offsetof(File, time)},
};

enum { MOST_BASES = 4 }; /* on top of each other */

static void file_clear(File *file) {
  g_free(file->name);
  g_free(file->source);
}

/* A base is another file, not this one again by way of others. */
static gboolean check_base(YamlNode base, const GPtrArray *files, GError **error) {
  if (files->len <= MOST_BASES)
    return TRUE;
  return yaml_fail(base, error, "found \"%s\", expected at most %d frameworks, each the base of the one before",
                   yaml_text(base, NULL), MOST_BASES);
}

static gboolean read_over(const char *name, Framework *framework, GPtrArray *files, GError **error);

static gboolean read_base(YamlNode base, Framework *framework, GPtrArray *files, GError **error) {
  const char *name = yaml_text(base, error);
  return name != NULL && check_base(base, files, error) &&
         (read_over(name, framework, files, error) || yaml_prefix(base, error));
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
  gboolean ok = yaml_map_read(yaml_file_root(yaml), file_fields, G_N_ELEMENTS(file_fields), &file, error);
  if (ok && yaml_is_present(file.base))
    ok = read_base(file.base, framework, files, error);
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
    base = yaml_is_present(file.base) ? g_strdup(yaml_text(file.base, NULL)) : NULL;
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
