#include "lab_catalog.h"

#include <string.h>

#include "data_path.h"
#include "framework.h"
#include "framework_releases.h"
#include "json_values.h"
#include "plan_schedule.h"

/* A published run: Llama 3 405B on 16,384 H100, arXiv:2407.21783, table 4. */
static const char *const famous[][2] = {
    {"model", "llama-3.1-405b"},
    {"cluster", "llama3-h100"},
    {"framework", "llama3"},
    {"gpus", "16384"},
    {"tp", "8"},
    {"pp", "16"},
    {"chunks", "8"},
    {"zero", "2"},
    {"seq-len", "8192"},
    {"global-batch", "2048"},
    {"schedule", "interleaved"},
    {"sequence-parallel", "on"},
};

static void add_names(JsonBuilder *builder, const char *key, const char *const *names) {
  json_begin_list(builder, key);
  for (; names != NULL && *names != NULL; names++)
    json_builder_add_string_value(builder, *names);
  json_builder_end_array(builder);
}

static void add_listed(JsonBuilder *builder, const char *key, const char *subdir, const char *suffix) {
  g_auto(GStrv) names = data_path_list(subdir, suffix);
  add_names(builder, key, (const char *const *)names);
}

/* And how those are called that rows name by a file whose name is a product's. */
static void add_frameworks(JsonBuilder *builder) {
  g_auto(GStrv) names = framework_choices(), files = framework_names();
  add_names(builder, "frameworks", (const char *const *)names);
  json_begin_object(builder, "framework_files");
  for (char **file = files; *file != NULL; file++) {
    g_autofree char *name = framework_name_of_file(*file);
    if (strcmp(name, *file) != 0)
      json_add_text(builder, *file, name);
  }
  json_builder_end_object(builder);
}

static void add_field(JsonBuilder *builder, const PlanField *field) {
  static const char *const kinds[] = {
      [PLAN_COUNT] = "count",   [PLAN_COUNT64] = "count", [PLAN_RATIO] = "ratio", [PLAN_BYTES] = "bytes",
      [PLAN_SWITCH] = "choice", [PLAN_CHOICE] = "choice", [PLAN_TEXT] = "text",   [PLAN_OWN_TEXT] = "text"};
  static const char *const switch_names[] = {"on", "off", NULL};
  g_autofree char *help = g_strdup(plan_field_help(field));
  json_begin_object(builder, NULL);
  json_add_text(builder, "name", field->name);
  json_add_text(builder, "value", field->value);
  json_add_text(builder, "help", help);
  json_add_text(builder, "kind", kinds[field->kind]);
  json_add_text(builder, "default", field->by_default);
  if (field->least != 0 || field->most != 0)
    json_add_number(builder, "least", field->least);
  if (field->most > field->least)
    json_add_number(builder, "most", field->most);
  if (field->kind == PLAN_SWITCH)
    add_names(builder, "choices", switch_names);
  else if (field->names != NULL)
    add_names(builder, "choices", field->names());
  else if (strcmp(field->name, "schedule") == 0)
    add_names(builder, "choices", schedule_choices());
  json_builder_end_object(builder);
}

/* A value that names a file of the user's: its name behind @, and its text under `files`. */
static gboolean add_typed(JsonBuilder *builder, const char *option, const char *value, JsonObject *files,
                          GError **error) {
  const char *path = g_str_has_prefix(value, "file:") ? value + strlen("file:") : value;
  const gboolean may_be_file = path != value || strcmp(option, "model") == 0 || strcmp(option, "cluster") == 0 ||
                               strcmp(option, "framework") == 0 || strcmp(option, "rank-map") == 0;
  g_autofree char *shown = g_strdup(value);
  if (may_be_file && g_file_test(path, G_FILE_TEST_IS_REGULAR)) {
    gsize length;
    g_autofree char *text = data_file_read(path, &length, error);
    if (text == NULL)
      return FALSE;
    g_autofree char *base = g_path_get_basename(path);
    char *dot = strrchr(base, '.');
    if (dot != NULL && dot > base)
      *dot = '\0';
    json_object_set_string_member(files, option, text);
    g_free(g_steal_pointer(&shown));
    shown = g_strconcat(path != value ? "file:@" : "@", base, NULL);
  }
  json_builder_begin_array(builder);
  json_builder_add_string_value(builder, option);
  json_builder_add_string_value(builder, shown);
  json_builder_end_array(builder);
  return TRUE;
}

static gboolean add_start(JsonBuilder *builder, const PlanOptions *at_first, GError **error) {
  JsonObject *files = json_object_new();
  gboolean is_good = TRUE;
  json_begin_list(builder, "options");
  if (at_first->model_file == NULL && at_first->cluster_file == NULL)
    for (gsize i = 0; i < G_N_ELEMENTS(famous); i++)
      is_good = is_good && add_typed(builder, famous[i][0], famous[i][1], files, error);
  if (at_first->model_file != NULL)
    is_good = is_good && add_typed(builder, "model", at_first->model_file, files, error);
  if (at_first->cluster_file != NULL)
    is_good = is_good && add_typed(builder, "cluster", at_first->cluster_file, files, error);
  for (int field = 0; field < plan_n_fields(); field++)
    if (at_first->texts[field] != NULL)
      is_good = is_good && add_typed(builder, plan_field(field)->name, at_first->texts[field], files, error);
  json_builder_end_array(builder);
  json_builder_set_member_name(builder, "files");
  json_builder_add_value(builder, json_node_init_object(json_node_alloc(), files));
  json_object_unref(files);
  return is_good;
}

char *lab_catalog(const PlanOptions *at_first, GError **error) {
  JsonBuilder *builder = json_builder_new();
  json_builder_begin_object(builder);
  json_add_text(builder, "version", STEPSIM_VERSION);
  add_listed(builder, "models", "models", ".json");
  add_listed(builder, "clusters", "topologies", ".yaml");
  add_frameworks(builder);
  json_begin_list(builder, "fields");
  for (int field = 0; field < plan_n_fields(); field++)
    if (!(plan_field(field)->uses & PLAN_FIELD_REPEATED))
      add_field(builder, plan_field(field));
  json_builder_end_array(builder);
  json_begin_object(builder, "start");
  const gboolean is_good = add_start(builder, at_first, error);
  json_builder_end_object(builder);
  json_builder_end_object(builder);
  g_autofree char *text = json_finish(builder);
  return is_good ? g_steal_pointer(&text) : NULL;
}
