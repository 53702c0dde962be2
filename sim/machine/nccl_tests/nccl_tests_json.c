/* The object that nccl-tests writes with -J: `args` names the program, `config` lists the devices of each process,
 * `results` has one object per size. One run per file. */
#include "nccl_tests_parts.h"

#include "error.h"
#include "json_file.h"

/* The list under `key`; NULL with the error set. */
static JsonArray *list_of(const JsonFile *json, JsonObject *object, const char *key, GError **error) {
  JsonNode *node = json_object_get_member(object, key);
  if (node != NULL && JSON_NODE_HOLDS_ARRAY(node))
    return json_node_get_array(node);
  fail_input(error, "%s:%u: %s, expected the list \"%s\" that nccl-tests writes with -J", json->file,
             json_file_line(json, object, key), node != NULL ? "found something else" : "found nothing", key);
  return NULL;
}

static JsonObject *object_at(JsonArray *list, guint i) {
  JsonNode *node = json_array_get_element(list, i);
  return JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
}

static gboolean read_program(NcclTestsLog *log, const JsonFile *json, NcclTestsTable *table, GError **error) {
  JsonArray *args = list_of(json, json->root, "args", error);
  if (args == NULL)
    return FALSE;
  JsonNode *first = json_array_get_length(args) > 0 ? json_array_get_element(args, 0) : NULL;
  const char *program =
      first != NULL && json_node_get_value_type(first) == G_TYPE_STRING ? json_node_get_string(first) : "";
  return nccl_tests_op(log, (int)json_file_line(json, json->root, "args"), program, &table->op, error);
}

/* There is one device per process (its first); every process drives nthreads · ngpus. */
static gboolean read_devices(const JsonFile *json, NcclTestsTable *table, GError **error) {
  JsonObject *config = NULL;
  gint64 n_threads = 1, n_gpus = 1;
  if (!json_file_object(json, json->root, "config", &config, error))
    return FALSE;
  if (config == NULL)
    return TRUE;
  if (!json_file_integer(json, config, "nthreads", (IntegerRange){1, 4096}, &n_threads, error) ||
      !json_file_integer(json, config, "ngpus", (IntegerRange){1, 4096}, &n_gpus, error))
    return FALSE;
  JsonArray *devices = list_of(json, config, "devices", error);
  if (devices == NULL)
    return FALSE;
  g_autoptr(GHashTable) hosts = g_hash_table_new(g_str_hash, g_str_equal);
  gint64 n_processes = 0, first_group = 0;
  for (guint i = 0; i < json_array_get_length(devices); i++) {
    JsonObject *device = object_at(devices, i);
    const char *host = "";
    gint64 group = first_group;
    if (device == NULL)
      return fail_input(error, "%s:%u: devices: found something else, expected objects", json->file,
                        json_file_line(json, config, "devices"));
    if (!json_file_text(json, device, "hostname", &host, error) ||
        !json_file_integer(json, device, "group", (IntegerRange){0, G_MAXINT}, &group, error))
      return FALSE;
    first_group = i == 0 ? group : first_group;
    if (group != first_group)
      continue;
    n_processes++;
    g_hash_table_add(hosts, (gpointer)host);
  }
  table->n_gpus = (int)MIN(n_processes * n_threads * n_gpus, 1000000);
  table->n_nodes = (int)g_hash_table_size(hosts);
  return TRUE;
}

/* `kind`: out_of_place or in_place; either may be null. */
static gboolean read_set(NcclTestsLog *log, const JsonFile *json, NcclTestsTable *table, JsonObject *result,
                         const char *kind, gint64 bytes, GError **error) {
  JsonObject *set = NULL;
  double time_us = -1, algbw_GBps = -1, busbw_GBps = -1, n_wrong = 0;
  if (!json_file_object(json, result, kind, &set, error))
    return FALSE;
  if (set == NULL)
    return TRUE;
  int line = (int)json_file_line(json, result, kind);
  if (!json_file_has(set, "time"))
    return fail_input(error, "%s:%d: %s: the key \"time\" is missing%s", log->file, line, kind,
                      json_file_has(set, "cpu_time") ? ": this run (-C 1) measured how long the CPU took" : "");
  if (!json_file_number(json, set, "time", (RealRange){0, 1e12}, &time_us, error) ||
      !json_file_number(json, set, "alg_bw", (RealRange){0, 1e9}, &algbw_GBps, error) ||
      !json_file_number(json, set, "bus_bw", (RealRange){0, 1e9}, &busbw_GBps, error) ||
      !json_file_number(json, set, "nwrong", (RealRange){0, 1e18}, &n_wrong, error))
    return FALSE;
  if (n_wrong != 0)
    return fail_input(error, "%s:%d: found %g wrong elements, expected a run with right results", log->file, line,
                      n_wrong);
  return nccl_tests_add_point(log, table, line, (double)bytes, time_us, algbw_GBps, busbw_GBps, error);
}

gboolean nccl_tests_read_json(NcclTestsLog *log, GError **error) {
  g_autoptr(JsonFile) json = json_file_read(log->file, error);
  if (json == NULL)
    return FALSE;
  NcclTestsTable *table = nccl_tests_add_table(log, 1);
  JsonArray *results = NULL;
  if (!read_program(log, json, table, error) || !read_devices(json, table, error) ||
      (results = list_of(json, json->root, "results", error)) == NULL)
    return FALSE;
  for (guint i = 0; i < json_array_get_length(results); i++) {
    JsonObject *result = object_at(results, i);
    gint64 bytes = -1;
    if (result == NULL || !json_file_has(result, "size"))
      return fail_input(error, "%s:%u: results: item %u has no size", log->file,
                        json_file_line(json, json->root, "results"), i + 1);
    if (!json_file_integer(json, result, "size", (IntegerRange){0, 1000000000000000}, &bytes, error) ||
        !read_set(log, json, table, result, "out_of_place", bytes, error) ||
        !read_set(log, json, table, result, "in_place", bytes, error))
      return FALSE;
  }
  return TRUE;
}
