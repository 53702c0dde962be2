#include "framework.h"

#include <string.h>

#include "data_path.h"
#include "error.h"
#include "quirks.h"
#include "suggest.h"
#include "yaml_base.h"

static const char folder[] = "topologies/frameworks";

typedef struct {
  char *name, *source, *variant_of; /* owned */
  int dropout;
  YamlNode memory, time;
} File;

static const char *const dropout_names[] = {"usual", "none", NULL};

static const YamlField file_fields[] = {
    {"name", FIELD_TEXT, TRUE, offsetof(File, name)},
    {"source", FIELD_TEXT, TRUE, offsetof(File, source)},
    {"variant_of", FIELD_TEXT, FALSE, offsetof(File, variant_of)},
    {"dropout", FIELD_CHOICE, FALSE, offsetof(File, dropout), .names = dropout_names},
    {"memory", FIELD_NODE, FALSE, offsetof(File, memory)},
    {"time", FIELD_NODE, FALSE, offsetof(File, time)},
};

/* The framework it names must exist. */
static gboolean is_variant_of_one(YamlNode root, const char *other, GError **error) {
  if (other == NULL || framework_is_described(other))
    return TRUE;
  g_auto(GStrv) names = framework_names();
  g_autofree char *valid = suggest_message(other, (const char *const *)names);
  return yaml_fail(yaml_map_value(root, "variant_of"), error, "found \"%s\", %s", other, valid);
}

static gboolean read_file(YamlNode root, Framework *framework, GError **error) {
  File file = {0};
  gboolean ok = yaml_map_read(root, file_fields, G_N_ELEMENTS(file_fields), &file, error);
  framework->dropout = file.dropout;
  ok = ok && is_variant_of_one(root, file.variant_of, error);
  if (ok && yaml_is_present(file.memory))
    ok = quirks_read(file.memory, "memory", framework, error);
  if (ok && yaml_is_present(file.time))
    ok = quirks_read(file.time, "time", framework, error);
  g_free(file.name);
  g_free(file.source);
  g_free(file.variant_of);
  return ok;
}

/* `files` receives the paths of the file and its bases. */
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

/* Reads only the file itself, because a base's variant_of is not inherited. An unreadable file is no variant. */
static gboolean is_variant_of(const char *name, const char *other) {
  g_autofree char *path = data_path_find(folder, name, ".yaml", NULL);
  g_autoptr(YamlFile) yaml = path != NULL ? yaml_file_read(path, NULL) : NULL;
  if (yaml == NULL || !yaml_is_map(yaml_file_root(yaml)))
    return FALSE;
  const YamlNode value = yaml_map_value(yaml_file_root(yaml), "variant_of");
  return yaml_is_present(value) && g_strcmp0(yaml_text(value, NULL), other) == 0;
}

char *framework_variant(const char *name) {
  g_auto(GStrv) names = framework_names();
  for (char **other = names; *other != NULL; other++)
    if (is_variant_of(*other, name))
      return g_strdup(*other);
  return NULL;
}
