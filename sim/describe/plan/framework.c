#include "framework.h"

#include "data_path.h"
#include "error.h"

typedef struct {
  char *name, *source; /* owned */
  YamlNode memory, time;
} File;

static const YamlField file_fields[] = {
    {"name", FIELD_TEXT, TRUE, offsetof(File, name)},
    {"source", FIELD_TEXT, TRUE, offsetof(File, source)},
    {"memory", FIELD_NODE, FALSE, offsetof(File, memory)},
    {"time", FIELD_NODE, FALSE, offsetof(File, time)},
};

static gboolean read_file(const char *path, Framework *framework, GError **error) {
  g_autoptr(YamlFile) yaml = yaml_file_read(path, error);
  if (yaml == NULL)
    return FALSE;
  File file = {0};
  gboolean ok = yaml_map_read(yaml_file_root(yaml), file_fields, G_N_ELEMENTS(file_fields), &file, error);
  *framework = (Framework){0};
  if (ok && yaml_is_present(file.memory))
    ok = framework_memory_parse(file.memory, &framework->memory, error);
  if (ok && yaml_is_present(file.time))
    ok = framework_time_parse(file.time, &framework->time, error);
  g_free(file.name);
  g_free(file.source);
  return ok;
}

char *framework_file(const char *name, GError **error) {
  return data_path_find("topologies/frameworks", name, ".yaml", error);
}

gboolean framework_read(const char *name, Framework *framework, GError **error) {
  g_autofree char *path = framework_file(name, error);
  return path != NULL && read_file(path, framework, error);
}

gboolean framework_is_described(const char *name) {
  g_auto(GStrv) names = data_path_list("topologies/frameworks", ".yaml");
  return g_strv_contains((const char *const *)names, name);
}
