/* A file that begins with a brace is read as JSON. Both readers fill the same log. Every time comes with a bandwidth,
 * so the two are checked against each other: a time in other units is noticed. */
#include "nccl_tests.h"

#include <math.h>
#include <string.h>

#include "data_path.h"
#include "error.h"
#include "json_file.h"
#include "measured_links.h"
#include "suggest.h"

/* Programs in the order of operations in measured_op_names(); none measures a parameter server. */
static const char *const programs[] = {
    "all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "alltoall_perf", "broadcast_perf",
    "reduce_perf",     "gather_perf",     "scatter_perf",        "sendrecv_perf", NULL};
G_STATIC_ASSERT(G_N_ELEMENTS(programs) == N_MEASURED_OPS);

static void table_free(gpointer data) {
  NcclTestsTable *table = data;
  g_array_unref(table->points);
  g_free(table);
}

static NcclTestsLog *log_new(const char *file) {
  NcclTestsLog *log = g_new0(NcclTestsLog, 1);
  log->file = g_strdup(file);
  log->tables = g_ptr_array_new_with_free_func(table_free);
  return log;
}

void nccl_tests_free(NcclTestsLog *log) {
  if (log == NULL)
    return;
  g_free(log->file);
  g_free(log->version);
  g_clear_pointer(&log->tables, g_ptr_array_unref);
  g_free(log);
}

static NcclTestsTable *add_table(NcclTestsLog *log, int line) {
  NcclTestsTable *table = g_new(NcclTestsTable, 1);
  *table = (NcclTestsTable){.line = line, .op = -1, .points = g_array_new(FALSE, FALSE, sizeof(NcclTestsPoint))};
  g_ptr_array_add(log->tables, table);
  return table;
}

static gboolean find_op(const NcclTestsLog *log, int line, const char *program, int *op, GError **error) {
  g_autofree char *name = g_path_get_basename(program);
  for (int i = 0; programs[i] != NULL; i++)
    if (strcmp(programs[i], name) == 0) {
      *op = i;
      return TRUE;
    }
  g_autofree char *valid = suggest_message(name, programs);
  return fail_input(error, "%s:%d: found the program \"%.80s\", %s", log->file, line, name, valid);
}

static gboolean add_point(const NcclTestsLog *log, NcclTestsTable *table, int line, double bytes, double time_us,
                          double algbw_GBps, double busbw_GBps, GError **error) {
  if (bytes == 0)
    return TRUE; /* nccl-tests measures size 0, too; it says nothing about bandwidth */
  if (!(bytes > 0 && bytes <= 1e15 && time_us > 0 && time_us <= 1e10 && algbw_GBps >= 0 && busbw_GBps >= 0 &&
        isfinite(algbw_GBps) && isfinite(busbw_GBps)))
    return fail_input(error, "%s:%d: found %g us for %g bytes at %g and %g GB/s, expected times above 0", log->file,
                      line, time_us, bytes, algbw_GBps, busbw_GBps);
  double by_time_GBps = bytes / time_us * 1e-3;
  double rounding_GBps = 0.011 + 0.02 * by_time_GBps; /* both are printed with at most 2 decimals */
  if (fabs(by_time_GBps - algbw_GBps) > rounding_GBps)
    return fail_input(error,
                      "%s:%d: found an algbw of %g GB/s, expected %.4g GB/s, as %.0f bytes took %g us; are times in "
                      "us and bandwidths in GB/s?",
                      log->file, line, algbw_GBps, by_time_GBps, bytes, time_us);
  NcclTestsPoint point = {bytes, time_us * 1e-6, algbw_GBps * 1e9, busbw_GBps * 1e9, line};
  g_array_append_val(table->points, point);
  return TRUE;
}

/* --- text -------------------------------------------------------------------------------------------------------- */

/* Read line by line. Comment lines begin a run, count its ranks and name the columns; a line that begins with a
 * number is a row of the table that the last header began. */

enum { MAX_COLUMNS = 40, MAX_SETS = 2 };

/* Where in a row a set of results is. */
typedef struct {
  int time, algbw, busbw, wrong; /* columns; −1: absent */
} Columns;

typedef struct {
  NcclTestsLog *log;
  NcclTestsTable *table; /* of the run being read; NULL: none yet */
  GHashTable *hosts;     /* of the run's first group of ranks */
  char *group;           /* of the first rank; NULL: none yet; owned */
  Columns sets[MAX_SETS];
  int n_sets, n_columns; /* 0 columns: no header yet */
  int n_stamps;          /* words of a time stamp after the columns */
  int header_line;
  int line;
} Reader;

static gboolean fail_at(const Reader *reader, GError **error, const char *what) {
  return fail_input(error, "%s:%d: %s", reader->log->file, reader->line, what);
}

/* Split `text` into words, at most MAX_COLUMNS; `copy` is modified. */
static int split_words(char *copy, char **words) {
  int n = 0;
  char *rest = NULL;
  for (char *word = strtok_r(copy, " \t\r", &rest); word != NULL && n < MAX_COLUMNS;
       word = strtok_r(NULL, " \t\r", &rest))
    words[n++] = word;
  return n;
}

static void begin_run(Reader *reader) {
  reader->table = add_table(reader->log, reader->line);
  reader->n_columns = 0;
  g_hash_table_remove_all(reader->hosts);
  g_clear_pointer(&reader->group, g_free);
}

/* "nThread 1 nGpus 8 …": the number of ranks, unless they are listed. */
static void read_parameters(Reader *reader, char **words, int n_words) {
  if (reader->table == NULL || reader->n_columns > 0)
    begin_run(reader);
  guint64 n_threads = 0, n_gpus = 0;
  if (n_words >= 4 && strcmp(words[2], "nGpus") == 0 &&
      g_ascii_string_to_unsigned(words[1], 10, 1, 4096, &n_threads, NULL) &&
      g_ascii_string_to_unsigned(words[3], 10, 1, 4096, &n_gpus, NULL) && n_threads * n_gpus > 1) {
    reader->table->n_gpus = (int)(n_threads * n_gpus);
    reader->table->n_nodes = 1;
  }
}

/* "Rank 0 Group 0 Pid 4711 on node1 device 0 …" */
static void read_rank(Reader *reader, char **words, int n_words) {
  const char *group = "0", *host = NULL;
  for (int i = 1; i + 1 < n_words; i++) {
    if (strcmp(words[i], "Group") == 0)
      group = words[i + 1];
    if (strcmp(words[i], "on") == 0 && host == NULL)
      host = words[i + 1];
  }
  if (reader->table == NULL || reader->n_columns > 0)
    begin_run(reader);
  if (reader->group == NULL) {
    reader->group = g_strdup(group);
    reader->table->n_gpus = 0;
  }
  if (host == NULL || strcmp(group, reader->group) != 0)
    return;
  g_hash_table_add(reader->hosts, g_strdup(host));
  reader->table->n_gpus++;
  reader->table->n_nodes = (int)g_hash_table_size(reader->hosts);
}

static gboolean read_header(Reader *reader, char **words, int n_words, GError **error) {
  if (reader->table == NULL || reader->n_columns > 0)
    begin_run(reader);
  reader->n_sets = reader->n_stamps = 0;
  reader->header_line = reader->line;
  for (int i = 0; i < n_words; i++) {
    Columns *set = reader->n_sets > 0 ? &reader->sets[reader->n_sets - 1] : NULL;
    if (strcmp(words[i], "cputime") == 0)
      return fail_at(reader, error, "found cputime, expected time: this run (-C 1) measured how long the CPU took");
    if (strcmp(words[i], "time") == 0 && reader->n_sets < MAX_SETS)
      reader->sets[reader->n_sets++] = (Columns){i, -1, -1, -1};
    else if (set != NULL && strcmp(words[i], "algbw") == 0)
      set->algbw = i;
    else if (set != NULL && strcmp(words[i], "busbw") == 0)
      set->busbw = i;
    else if (set != NULL && strcmp(words[i], "#wrong") == 0)
      set->wrong = i;
  }
  if (strcmp(words[n_words - 1], "timestamp") == 0) {
    n_words--;
    reader->n_stamps = 2; /* date and time of day */
  }
  for (int s = 0; s < reader->n_sets; s++)
    if (reader->sets[s].algbw < 0 || reader->sets[s].busbw < 0)
      return fail_at(reader, error, "found a header without algbw or busbw beside time");
  reader->n_columns = n_words;
  return reader->n_sets > 0 || fail_at(reader, error, "found a header without the column time");
}

/* Every unit must be the expected one of its kind. */
static gboolean read_units(Reader *reader, char **words, int n_words, GError **error) {
  static const char *const known[] = {"(B)", "(elements)", "(us)", "(GB/s)", "(%)", NULL};
  for (int i = 0; i < n_words && words[i][0] == '('; i++)
    if (!g_strv_contains(known, words[i]))
      return fail_input(error, "%s:%d: found the unit %.20s, expected (B), (us) and (GB/s)", reader->log->file,
                        reader->line, words[i]);
  return TRUE;
}

static gboolean read_number(const Reader *reader, const char *word, double *value, GError **error) {
  char *end;
  *value = g_ascii_strtod(word, &end);
  return (*end == '\0' && end != word && isfinite(*value)) ||
         fail_input(error, "%s:%d: found \"%.40s\", expected a number", reader->log->file, reader->line, word);
}

static gboolean is_missing(const char *word) {
  return g_ascii_strcasecmp(word, "N/A") == 0 || strcmp(word, "-") == 0;
}

static gboolean read_set(Reader *reader, char **words, const Columns *set, double bytes, GError **error) {
  double time_us, algbw_GBps, busbw_GBps, n_wrong = 0;
  if (is_missing(words[set->time]))
    return TRUE; /* the operation has no such variant */
  if (!read_number(reader, words[set->time], &time_us, error) ||
      !read_number(reader, words[set->algbw], &algbw_GBps, error) ||
      !read_number(reader, words[set->busbw], &busbw_GBps, error))
    return FALSE;
  if (set->wrong >= 0 && !is_missing(words[set->wrong]) && !read_number(reader, words[set->wrong], &n_wrong, error))
    return FALSE;
  if (n_wrong != 0)
    return fail_input(error, "%s:%d: found %g wrong elements, expected a run with right results", reader->log->file,
                      reader->line, n_wrong);
  return add_point(reader->log, reader->table, reader->line, bytes, time_us, algbw_GBps, busbw_GBps, error);
}

static gboolean read_row(Reader *reader, char **words, int n_words, GError **error) {
  if (reader->table == NULL || reader->n_columns == 0)
    return fail_at(reader, error, "found numbers before a header that names their columns (size count type … time)");
  if (n_words != reader->n_columns && n_words != reader->n_columns + reader->n_stamps)
    return fail_input(error, "%s:%d: found %d columns, expected the header's %d; is the log cut off?",
                      reader->log->file, reader->line, n_words, reader->n_columns);
  double bytes;
  if (!read_number(reader, words[0], &bytes, error))
    return FALSE;
  for (int s = 0; s < reader->n_sets; s++)
    if (!read_set(reader, words, &reader->sets[s], bytes, error))
      return FALSE;
  return TRUE;
}

static gboolean read_comment(Reader *reader, char **words, int n_words, GError **error) {
  if (n_words == 0)
    return TRUE;
  if (n_words >= 3 && strcmp(words[0], "nccl-tests") == 0 && strcmp(words[1], "version") == 0 &&
      reader->log->version == NULL)
    reader->log->version = g_strdup(words[2]);
  if (n_words >= 4 && strcmp(words[0], "Collective") == 0 && strcmp(words[2], "starting:") == 0) {
    begin_run(reader);
    return find_op(reader->log, reader->line, words[3], &reader->table->op, error);
  }
  if (strcmp(words[0], "nThread") == 0)
    read_parameters(reader, words, n_words);
  if (strcmp(words[0], "Rank") == 0)
    read_rank(reader, words, n_words);
  if (strcmp(words[0], "size") == 0)
    return read_header(reader, words, n_words, error);
  if (words[0][0] == '(' && reader->n_columns > 0 && reader->line == reader->header_line + 1)
    return read_units(reader, words, n_words, error);
  return TRUE;
}

/* Launchers that tag their ranks' output write "[1,0]<stdout>:" before each line. */
static char *without_tag(char *line) {
  char *tag = line[0] == '[' ? strstr(line, "<stdout>:") : NULL;
  return tag != NULL ? tag + strlen("<stdout>:") : line;
}

static gboolean read_line(Reader *reader, char *line, GError **error) {
  char *words[MAX_COLUMNS];
  char *text = g_strchug(without_tag(line));
  if (*text == '#') {
    int n_words = split_words(text + 1, words);
    return read_comment(reader, words, n_words, error);
  }
  int n_words = split_words(text, words);
  /* a row's second word is a number too; other lines that begin with a digit come from elsewhere */
  gboolean is_row = n_words >= 1 && strspn(words[0], "0123456789") == strlen(words[0]) &&
                    (n_words == 1 || g_ascii_isdigit(words[1][0]));
  return !is_row || read_row(reader, words, n_words, error);
}

static gboolean read_text(NcclTestsLog *log, const char *text, GError **error) {
  Reader reader = {.log = log, .hosts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL)};
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  gboolean ok = TRUE;
  for (int i = 0; lines[i] != NULL && ok; i++) {
    reader.line = i + 1;
    ok = read_line(&reader, lines[i], error);
  }
  g_hash_table_unref(reader.hosts);
  g_free(reader.group);
  return ok;
}

/* --- JSON -------------------------------------------------------------------------------------------------------- */

/* The object that nccl-tests writes with -J: `args` names the program, `config` lists the devices of each process,
 * `results` has one object per size. One run per file. */

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
  return find_op(log, (int)json_file_line(json, json->root, "args"), program, &table->op, error);
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
static gboolean read_json_set(NcclTestsLog *log, const JsonFile *json, NcclTestsTable *table, JsonObject *result,
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
  return add_point(log, table, line, (double)bytes, time_us, algbw_GBps, busbw_GBps, error);
}

static gboolean read_json(NcclTestsLog *log, GError **error) {
  g_autoptr(JsonFile) json = json_file_read(log->file, error);
  if (json == NULL)
    return FALSE;
  NcclTestsTable *table = add_table(log, 1);
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
        !read_json_set(log, json, table, result, "out_of_place", bytes, error) ||
        !read_json_set(log, json, table, result, "in_place", bytes, error))
      return FALSE;
  }
  return TRUE;
}

/* --- the file ---------------------------------------------------------------------------------------------------- */

static gboolean check_tables(const NcclTestsLog *log, GError **error) {
  if (log->tables->len == 0)
    return fail_input(
        error, "%s:1: found no table of nccl-tests, expected one with the columns size, time, algbw, busbw", log->file);
  for (guint i = 0; i < log->tables->len; i++) {
    const NcclTestsTable *table = g_ptr_array_index(log->tables, i);
    if (table->points->len == 0)
      return fail_input(error, "%s:%d: found a run without measured times; is the log cut off?", log->file,
                        table->line);
  }
  return TRUE;
}

NcclTestsLog *nccl_tests_read(const char *file, GError **error) {
  gsize length = 0;
  g_autofree char *text = data_file_read(file, &length, error);
  if (text == NULL)
    return NULL;
  if (strlen(text) != length) {
    fail_input(error, "%s:1: found a zero byte, expected a log of nccl-tests", file);
    return NULL;
  }
  g_autoptr(NcclTestsLog) log = log_new(file);
  gboolean is_json = text[strspn(text, " \t\r\n")] == '{';
  gboolean ok = is_json ? read_json(log, error) : read_text(log, text, error);
  return ok && check_tables(log, error) ? g_steal_pointer(&log) : NULL;
}
